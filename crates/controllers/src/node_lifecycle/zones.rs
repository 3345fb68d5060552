//! How well zones are, and how fast nodes in them may be tainted so that their pods go: pure, with the time passed in.
//!
//! A node that is lost is no reason to hurry. When many are, it is more likely that the network is broken than that they
//! are: then they are tainted more slowly, or not at all. When all nodes of all zones are lost, nothing is done to any.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// So many nodes have to be lost for a zone to be in trouble.
const LOST_MIN: usize = 3;
/// The longest that a node waits for its turn: as good as for ever, and fits into a time.
const TURN_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// What flags say.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// Nodes per second in a zone that is well.
    pub normal: f32,
    /// And in one that is not, if it is large.
    pub secondary: f32,
    /// A zone of more nodes is large.
    pub large_size: usize,
    /// The part of a zone's nodes that has to be lost for it to be unwell.
    pub unhealthy_part: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Initial,
    Normal,
    Partial,
    Full,
}

/// How many nodes of a zone are ready, and how many are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub ready: usize,
    pub lost: usize,
}

/// What a look at all zones leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    GoOn,
    /// All nodes of all zones are lost, as of now: taints that evict pods are to go.
    AllLost,
    /// Not all are lost any more: nobody knows for how long those that are have been silent.
    SomeBack,
}

/// Who may be tainted.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Node(String),
    /// Somebody, then.
    At(Instant),
    Nobody,
}

pub struct Zones {
    rates: Rates,
    zones: BTreeMap<String, Zone>,
}

struct Zone {
    state: State,
    limiter: Limiter,
    /// Nodes that are to be tainted.
    waiting: VecDeque<String>,
}

/// One at a time, and the next after a while.
struct Limiter {
    per_second: f32,
    /// None: now.
    free_at: Option<Instant>,
}

impl Zones {
    pub fn new(rates: Rates) -> Zones {
        Zones { rates, zones: BTreeMap::new() }
    }

    /// The node is to be tainted when its turn comes.
    pub fn add(&mut self, zone: &str, node: &str) {
        let zone = self.zone(zone);
        if !zone.waiting.iter().any(|waiting| waiting == node) {
            zone.waiting.push_back(node.to_owned());
        }
    }

    /// It is not, any more.
    pub fn remove(&mut self, node: &str) {
        self.zones.values_mut().for_each(|zone| zone.waiting.retain(|waiting| waiting != node));
    }

    /// A node whose turn it is waits no longer; who cannot be tainted is added again.
    pub fn next(&mut self, now: Instant) -> Next {
        let mut earliest = None;
        for zone in self.zones.values_mut().filter(|zone| !zone.waiting.is_empty()) {
            if zone.limiter.accepts(now) {
                return zone.waiting.pop_front().map_or(Next::Nobody, Next::Node);
            }
            earliest = earliest.into_iter().chain(zone.limiter.free_at()).min();
        }
        earliest.map_or(Next::Nobody, Next::At)
    }

    /// A turn was not used: nobody has to wait for it.
    pub fn give_back(&mut self, zone: &str) {
        self.zone(zone).limiter.free_at = None;
    }

    /// Takes note of how many nodes of each zone are ready.
    pub fn settle(&mut self, counts: &BTreeMap<String, Count>, now: Instant) -> Verdict {
        for zone in counts.keys() {
            self.zone(zone);
        }
        self.zones.retain(|zone, known| counts.contains_key(zone) || !known.waiting.is_empty());
        let rates = self.rates;
        let states: BTreeMap<&str, State> =
            counts.iter().map(|(zone, count)| (zone.as_str(), state(*count, rates))).collect();
        let was_all = self.zones.values().all(|zone| zone.state == State::Full);
        let is_all = states.values().all(|state| *state == State::Full);
        if is_all && was_all {
            return Verdict::GoOn;
        }
        for (name, zone) in &mut self.zones {
            let (count, state) = (counts.get(name).copied().unwrap_or_default(), states.get(name.as_str()));
            if is_all {
                zone.limiter.set(0.0, now);
                zone.waiting.clear();
                zone.state = State::Full;
            } else if let Some(state) = state.filter(|state| was_all || **state != zone.state) {
                zone.limiter.set(rate(*state, count, rates), now);
                zone.state = *state;
            }
        }
        match (is_all, was_all) {
            (true, _) => Verdict::AllLost,
            (false, true) => Verdict::SomeBack,
            (false, false) => Verdict::GoOn,
        }
    }

    fn zone(&mut self, name: &str) -> &mut Zone {
        let rates = self.rates;
        self.zones.entry(name.to_owned()).or_insert_with(|| Zone {
            state: State::Initial,
            limiter: Limiter { per_second: rates.normal, free_at: None },
            waiting: VecDeque::new(),
        })
    }
}

fn state(Count { ready, lost }: Count, rates: Rates) -> State {
    #[expect(clippy::cast_precision_loss, reason = "a part of a hundred thousand nodes is exact enough")]
    let part = lost as f32 / (lost + ready) as f32;
    if ready == 0 && lost > 0 {
        State::Full
    } else if lost >= LOST_MIN && part >= rates.unhealthy_part {
        State::Partial
    } else {
        State::Normal
    }
}

fn rate(state: State, Count { ready, lost }: Count, rates: Rates) -> f32 {
    match state {
        State::Partial if ready + lost > rates.large_size => rates.secondary,
        State::Partial => 0.0,
        _ => rates.normal,
    }
}

impl Limiter {
    fn accepts(&mut self, now: Instant) -> bool {
        let is_free = self.per_second > 0.0 && self.free_at.is_none_or(|at| at <= now);
        if is_free {
            self.free_at = Some(now + pause(self.per_second));
        }
        is_free
    }

    fn free_at(&self) -> Option<Instant> {
        self.free_at.filter(|_| self.per_second > 0.0)
    }

    /// Who has to wait goes on to do so, at the new pace.
    fn set(&mut self, per_second: f32, now: Instant) {
        #[expect(clippy::float_cmp, reason = "both are what flags say")]
        if self.per_second == per_second {
            return;
        }
        let waits = self.per_second <= 0.0 || self.free_at.is_some_and(|at| at > now);
        self.per_second = per_second;
        self.free_at = (waits && per_second > 0.0).then(|| now + pause(per_second));
    }
}

fn pause(per_second: f32) -> Duration {
    Duration::try_from_secs_f32(per_second.recip()).unwrap_or(TURN_MAX).min(TURN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates { normal: 0.1, secondary: 0.01, large_size: 5, unhealthy_part: 0.55 };

    fn counts(text: &str) -> BTreeMap<String, Count> {
        // `zone=ready/lost`
        let one = |one: &str| {
            let (zone, count) = one.split_once('=').unwrap();
            let (ready, lost) = count.split_once('/').unwrap();
            (zone.to_owned(), Count { ready: ready.parse().unwrap(), lost: lost.parse().unwrap() })
        };
        text.split_whitespace().map(one).collect()
    }

    #[test]
    fn a_zone_is_as_well_as_its_nodes() {
        let table = [
            ((3, 0), State::Normal),
            ((0, 1), State::Full),
            ((0, 0), State::Normal),
            ((1, 2), State::Normal),
            ((1, 3), State::Partial),
            ((3, 3), State::Normal),
            ((9, 11), State::Partial),
            ((10, 10), State::Normal),
        ];
        for ((ready, lost), expected) in table {
            assert_eq!(state(Count { ready, lost }, RATES), expected, "{ready}/{lost}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_are_tainted_one_after_the_other() {
        let (mut zones, start) = (Zones::new(RATES), Instant::now());
        assert_eq!(zones.settle(&counts("z=5/2"), start), Verdict::GoOn);
        zones.add("z", "a");
        zones.add("z", "b");
        zones.add("z", "b");
        zones.add("y", "c");
        assert_eq!(zones.next(start), Next::Node("c".to_owned()), "each zone has its own pace");
        assert_eq!(zones.next(start), Next::Node("a".to_owned()));
        assert_eq!(zones.next(start), Next::At(start + Duration::from_secs(10)));
        zones.give_back("z");
        assert_eq!(zones.next(start), Next::Node("b".to_owned()));
        zones.add("z", "d");
        zones.remove("d");
        assert_eq!(zones.next(start + Duration::from_secs(10)), Next::Nobody);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pace_follows_the_state() {
        let start = Instant::now();
        // How the zone is, and when the second node has its turn, in seconds.
        let table = [("z=5/2", Some(10)), ("z=1/3", None), ("z=2/4", Some(100)), ("z=0/3 y=1/0", Some(10))];
        for (text, seconds) in table {
            let mut zones = Zones::new(RATES);
            zones.settle(&counts("z=9/0 y=1/0"), start);
            zones.add("z", "a");
            zones.add("z", "b");
            assert_eq!(zones.next(start), Next::Node("a".to_owned()));
            zones.settle(&counts(text), start);
            let expected = seconds.map_or(Next::Nobody, |seconds| Next::At(start + Duration::from_secs(seconds)));
            assert_eq!(zones.next(start), expected, "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_are_lost_nothing_is_done() {
        let (mut zones, start) = (Zones::new(RATES), Instant::now());
        zones.settle(&counts("z=3/0 y=1/0"), start);
        zones.add("z", "a");
        assert_eq!(zones.settle(&counts("z=0/3 y=0/1"), start), Verdict::AllLost);
        assert_eq!(zones.next(start), Next::Nobody);
        zones.add("z", "a");
        assert_eq!(zones.settle(&counts("z=0/3 y=0/1"), start), Verdict::GoOn);
        assert_eq!(zones.next(start), Next::Nobody);
        assert_eq!(zones.settle(&counts("z=0/3 y=1/0"), start), Verdict::SomeBack);
        assert_eq!(zones.next(start), Next::At(start + Duration::from_secs(10)));
        assert_eq!(zones.settle(&BTreeMap::new(), start), Verdict::GoOn);
    }

    #[test]
    fn a_strange_rate_is_no_danger() {
        for per_second in [f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, -1.0, 0.0] {
            assert!(pause(per_second) <= TURN_MAX);
        }
    }
}
