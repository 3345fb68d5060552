//! What a queue knows, without waiting: every method says what holds at a moment that is passed in.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use foldhash::quality::RandomState;
use tokio::time::Instant;

use super::deadlines::Deadlines;
use super::{Cause, Options, Priority, Quarantined};

/// A key may be written this often before it has to wait.
pub(super) const WRITES_AT_ONCE: u32 = 16;
/// The delay after the first write beyond these; doubled with each further one up to [`WRITE_DELAY_MAX`].
const WRITE_DELAY_FIRST: Duration = Duration::from_millis(100);
const WRITE_DELAY_MAX: Duration = Duration::from_secs(60);
/// One write is forgotten after each such time.
pub(super) const WRITE_FORGOTTEN: Duration = Duration::from_secs(60);
/// A key that ran into a conflict waits no longer than this.
const CONFLICT_DELAY_MAX: Duration = Duration::from_secs(1);
/// Beyond so many keys that are only remembered for how often they were written, those are dropped that need not be.
const REMEMBERED_MAX: usize = 1024;
/// So many fresh keys are taken before one of those that can wait.
const FRESH_IN_A_ROW: u32 = 8;

pub(super) struct State<K> {
    pub options: Options,
    /// What each key is doing; one that does nothing and has no past is not here.
    slots: HashMap<K, Slot, RandomState>,
    /// Keys in the order in which they were added. A number that is not its slot's any more is passed over.
    fresh: VecDeque<(K, u64)>,
    background: VecDeque<(K, u64)>,
    fresh_in_a_row: u32,
    next_number: u64,
    depth: usize,
    pub later: Deadlines<K>,
    /// Whether the earliest deadline has moved forward.
    pub moved: bool,
    /// How many slots there may be before the old ones are looked for again.
    slots_max: usize,
    pub closed: bool,
}

#[derive(Default)]
struct Slot {
    waits: Option<Waits>,
    works: Option<Works>,
    failures: u32,
    conflicts: u32,
    pace: Option<Pace>,
    quarantined: Option<(Instant, String)>,
}

/// A key that is to be worked on; behind the current run, if there is one.
struct Waits {
    priority: Priority,
    number: u64,
    since: Instant,
    /// Its back-off is over: if it fails once more, that counts.
    retry: bool,
}

struct Works {
    since: Instant,
    retry: bool,
}

/// How often a key was written of late.
struct Pace {
    writes: u32,
    last: Instant,
}

impl Pace {
    fn writes_at(&self, now: Instant) -> u32 {
        let forgotten = now.duration_since(self.last).as_secs() / WRITE_FORGOTTEN.as_secs();
        self.writes.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
    }

    /// When the key may be worked on again.
    fn until(&self) -> Instant {
        match self.writes.checked_sub(WRITES_AT_ONCE) {
            None | Some(0) => self.last,
            Some(beyond) => self.last + doubled(WRITE_DELAY_FIRST, beyond, WRITE_DELAY_MAX),
        }
    }
}

pub(super) fn doubled(first: Duration, times: u32, max: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times.saturating_sub(1).min(20))).min(max)
}

/// What became of a key that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It waits to be taken.
    Waits,
    /// It will when its run is over, or does already.
    Nothing,
    /// It was written too often of late, and is to be added then.
    Later(Instant),
}

impl Slot {
    fn is_idle(&self, now: Instant) -> bool {
        self.waits.is_none()
            && self.works.is_none()
            && self.failures == 0
            && self.conflicts == 0
            && self.quarantined.is_none()
            && self.pace.as_ref().is_none_or(|pace| pace.writes_at(now) == 0)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    pub fn new(options: Options) -> Self {
        State {
            options,
            slots: HashMap::default(),
            fresh: VecDeque::new(),
            background: VecDeque::new(),
            fresh_in_a_row: 0,
            next_number: 0,
            depth: 0,
            later: Deadlines::new(),
            moved: false,
            slots_max: REMEMBERED_MAX,
            closed: false,
        }
    }

    /// A key to be worked on.
    pub fn add(&mut self, key: K, priority: Priority, cause: Cause, now: Instant) -> Added {
        let retry = cause == Cause::Retry;
        let slot = self.slots.entry(key.clone()).or_default();
        if slot.quarantined.is_some() && (priority == Priority::Background || cause != Cause::Change) {
            return Added::Nothing;
        }
        // It is tried; if it fails once more, it is back.
        slot.quarantined = None;
        if let Some(until) = slot.pace.as_ref().map(Pace::until).filter(|until| *until > now) {
            return Added::Later(until);
        }
        let (number, works) = (self.next_number, slot.works.is_some());
        match &mut slot.waits {
            Some(waits) => {
                waits.retry |= retry;
                if waits.priority == Priority::Fresh || priority == Priority::Background {
                    return Added::Nothing;
                }
                waits.priority = Priority::Fresh;
                waits.number = number;
            }
            none => {
                *none = Some(Waits { priority, number, since: now, retry });
                self.depth += usize::from(!works);
            }
        }
        self.next_number += 1;
        if works {
            return Added::Nothing;
        }
        match priority {
            Priority::Fresh => self.fresh.push_back((key, number)),
            Priority::Background => self.background.push_back((key, number)),
        }
        Added::Waits
    }

    /// A key to work on, and how long it waited.
    pub fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        loop {
            let background_first = self.fresh_in_a_row >= FRESH_IN_A_ROW;
            let (taken, is_fresh) = match (self.background.front(), self.fresh.front()) {
                (Some(_), None) => (self.background.pop_front(), false),
                (Some(_), Some(_)) if background_first => (self.background.pop_front(), false),
                _ => (self.fresh.pop_front(), true),
            };
            let (key, number) = taken?;
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            // It was moved forward, and is gone from here.
            let Some(waits) = slot.waits.take_if(|waits| waits.number == number) else { continue };
            self.fresh_in_a_row = if is_fresh { self.fresh_in_a_row + 1 } else { 0 };
            slot.works = Some(Works { since: now, retry: waits.retry });
            self.depth -= 1;
            return Some((key, now.duration_since(waits.since)));
        }
    }

    /// The key is as it should be, and was. How long it took.
    pub fn done(&mut self, key: &K, now: Instant) -> Duration {
        if let Some(slot) = self.slots.get_mut(key) {
            (slot.failures, slot.conflicts) = (0, 0);
        }
        self.finish(key, now)
    }

    /// The key is as it should be, because something was written.
    pub fn wrote(&mut self, key: &K, now: Instant) -> Duration {
        if let Some(slot) = self.slots.get_mut(key) {
            (slot.failures, slot.conflicts) = (0, 0);
            slow_down(slot, now);
        }
        let took = self.finish(key, now);
        if self.slots.len() > self.slots_max {
            self.slots.retain(|_, slot| !slot.is_idle(now));
            self.slots_max = REMEMBERED_MAX.max(self.slots.len() * 2);
        }
        took
    }

    /// Another was faster: no failure, and no success. The key is to be tried again soon.
    pub fn conflicted(&mut self, key: &K, now: Instant) -> Duration {
        let mut conflicts = 1;
        if let Some(slot) = self.slots.get_mut(key) {
            slot.conflicts = slot.conflicts.saturating_add(1);
            conflicts = slot.conflicts;
        }
        let took = self.finish(key, now);
        self.add_at(key.clone(), now + doubled(self.options.backoff_first, conflicts, CONFLICT_DELAY_MAX), false);
        took
    }

    /// To be added at this time.
    pub fn add_at(&mut self, key: K, at: Instant, retry: bool) {
        self.moved |= self.later.set(key, at, retry);
    }

    /// The key is to be tried again. How long it took, and whether the key is in quarantine now.
    ///
    /// What events bring in between does not make the back-off longer, unless it is to: only a try that the back-off led
    /// to does.
    pub fn failed(&mut self, key: &K, why: &str, now: Instant) -> (Duration, bool) {
        let quarantine_after = self.options.quarantine_after.unwrap_or(u32::MAX);
        let mut again = None;
        if let Some(slot) = self.slots.get_mut(key) {
            let is_retry = slot.works.as_ref().is_some_and(|works| works.retry);
            let counts = self.options.every_failure_counts || slot.failures == 0 || is_retry;
            if counts {
                slot.failures = slot.failures.saturating_add(1);
            } else {
                slow_down(slot, now);
            }
            let delay = doubled(self.options.backoff_first, slot.failures, self.options.backoff_max);
            again = Some(now + delay);
            // A change that came meanwhile is worth a try.
            if slot.failures >= quarantine_after && slot.waits.is_none() {
                slot.quarantined = Some((now, why.to_owned()));
                again = None;
            }
        }
        let took = self.finish(key, now);
        if let Some(at) = again {
            self.add_at(key.clone(), at, true);
        }
        (took, again.is_none())
    }

    fn finish(&mut self, key: &K, now: Instant) -> Duration {
        let Some(slot) = self.slots.get_mut(key) else { return Duration::ZERO };
        let took = slot.works.take().map_or(Duration::ZERO, |works| now.duration_since(works.since));
        if let Some(waits) = slot.waits.take() {
            let cause = if waits.retry { Cause::Retry } else { Cause::Change };
            if let Added::Later(at) = self.add(key.clone(), waits.priority, cause, now) {
                self.add_at(key.clone(), at, waits.retry);
            }
        } else if slot.is_idle(now) {
            self.slots.remove(key);
        }
        took
    }

    /// Whether the key was in quarantine.
    pub fn is_quarantined(&self, key: &K) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.quarantined.is_some())
    }

    pub fn quarantined(&self) -> Vec<Quarantined<K>> {
        let found = self.slots.iter().filter_map(|(key, slot)| {
            let (since, why) = slot.quarantined.clone()?;
            Some(Quarantined { key: key.clone(), failures: slot.failures, since, why })
        });
        found.collect()
    }

    /// How many wait to be taken.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// When each of the runs under way began.
    pub fn works(&self) -> impl Iterator<Item = Instant> {
        self.slots.values().filter_map(|slot| slot.works.as_ref().map(|works| works.since))
    }
}

/// Who writes, or fails, again and again waits in between.
fn slow_down(slot: &mut Slot, now: Instant) {
    let writes = slot.pace.as_ref().map_or(0, |pace| pace.writes_at(now)) + 1;
    slot.pace = Some(Pace { writes, last: now });
}
