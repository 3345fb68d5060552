//! What candidates decide: by tables, and by a model with delays, lost messages, pauses, crashes and clocks that differ.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Timing;
use super::state::{Record, State, Step};

const WALL: i64 = 1_700_000_000_000_000;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn record(holder: &str, transitions: i64) -> Record {
    Record {
        holder: holder.to_owned(),
        duration_seconds: 15,
        acquired_micros: Some(1),
        renewed_micros: Some(1),
        transitions,
    }
}

fn candidate(now: Instant) -> State {
    State::new("me".to_owned(), Timing::default(), now)
}

/// One that leads since `now`.
fn leader(now: Instant) -> State {
    let mut state = candidate(now);
    let taken = state.judge(None, None, now, WALL).unwrap();
    state.wrote(&taken, Some(1), now, now);
    assert_eq!(state.leads_until(now), Some(now + seconds(10)));
    state
}

#[test]
fn what_is_found_decides_what_is_written() {
    let start = Instant::now();
    let mine = Record { renewed_micros: Some(WALL), ..record("me", 3) };
    let taken = |transitions| {
        Some(Record { acquired_micros: Some(WALL), renewed_micros: Some(WALL), ..record("me", transitions) })
    };
    // What was found, how long that has been known, and what follows.
    let table = [
        ("there is no lease", None, 0, taken(0)),
        ("another holds it", Some(record("other", 3)), 0, None),
        ("another holds it to the last moment", Some(record("other", 3)), 14, None),
        ("another held it", Some(record("other", 3)), 15, taken(4)),
        ("it was released", Some(record("", 3)), 0, taken(4)),
        ("this process held it before", Some(record("me", 3)), 0, Some(mine)),
        ("it says nothing of how long", Some(Record { duration_seconds: 0, ..record("other", 3) }), 0, taken(4)),
        ("it says nonsense", Some(Record { duration_seconds: -1, ..record("other", 3) }), 0, taken(4)),
        ("it lasts for ever", Some(Record { duration_seconds: i64::MAX, ..record("other", 3) }), 100_000, None),
    ];
    for (what, found, known, expected) in table {
        let mut state = candidate(start);
        state.saw(found.as_ref().map(|found| (found, Some(7))), start);
        let now = start + seconds(known);
        assert_eq!(state.judge(found.as_ref(), Some(7), now, WALL), expected, "{what}");
    }
}

#[test]
fn a_lease_counts_from_when_a_change_was_seen() {
    let start = Instant::now();
    let mut state = candidate(start);
    assert_eq!(state.judge(Some(&record("other", 0)), Some(1), start, WALL), None);
    // Its times may be of any clock: that they change is what counts.
    let renewed = Record { renewed_micros: Some(-5), ..record("other", 0) };
    assert_eq!(state.judge(Some(&renewed), Some(2), start + seconds(10), WALL), None);
    assert_eq!(state.judge(Some(&renewed), Some(2), start + seconds(24), WALL), None);
    assert!(state.judge(Some(&renewed), Some(2), start + seconds(25), WALL).is_some());
}

#[test]
fn a_leader_leads_from_when_the_renewal_was_sent() {
    let start = Instant::now();
    let mut state = leader(start);
    assert_eq!(state.next(start), Step::Wait(start + seconds(2)));
    assert_eq!(state.next(start + seconds(2)), Step::Try);
    let renewal = state.optimistic(start + seconds(2), WALL).unwrap();
    // The answer took five seconds.
    state.wrote(&renewal, Some(2), start + seconds(2), start + seconds(7));
    assert_eq!(state.leads_until(start + seconds(7)), Some(start + seconds(12)));
    state.failed(start + seconds(11), 0.5);
    assert_eq!(state.next(start + seconds(11)), Step::Wait(start + seconds(12)));
    assert_eq!(state.next(start + seconds(12)), Step::Lost);
    // Whoever slept over it has lost, even if an answer is there.
    state.wrote(&renewal, Some(3), start + seconds(2), start + seconds(60));
    assert_eq!(state.next(start + seconds(60)), Step::Lost);
    state.stand_by(start + seconds(60));
    assert_eq!((state.next(start + seconds(60)), state.is_leader()), (Step::Try, false));
}

#[test]
fn what_a_watch_shows() {
    let start = Instant::now();
    let now = start + seconds(1);
    // A leader loses it to another, but not by what was before.
    let mut state = leader(start);
    state.saw(Some((&record("other", 0), Some(1))), now);
    assert_eq!(state.next(now), Step::Wait(start + seconds(2)));
    state.saw(Some((&record("other", 1), Some(2))), now);
    assert_eq!(state.next(now), Step::Lost);
    // One whose lease is deleted makes it again.
    let mut state = leader(start);
    state.saw(None, now);
    assert_eq!(state.next(now), Step::Try);
    assert_eq!(state.judge(None, None, now, WALL).unwrap().holder, "me");

    // A candidate takes one that is released at once, one that is deleted not before its time.
    let mut state = candidate(start);
    assert_eq!(state.judge(Some(&record("other", 0)), Some(1), start, WALL), None);
    state.failed(start, 0.0);
    assert_eq!(state.next(now), Step::Wait(start + seconds(2)));
    state.saw(None, now);
    assert_eq!(state.next(now), Step::Wait(start + seconds(2)));
    assert_eq!(state.judge(None, None, start + seconds(2), WALL), None);
    assert!(state.judge(None, None, start + seconds(15), WALL).is_some());
    state.saw(Some((&State::released(&record("other", 0), WALL), Some(2))), now);
    assert_eq!(state.next(now), Step::Try);
    // An acquisition whose answer was lost shows, too.
    let mut state = candidate(start);
    state.failed(start, 1.0);
    assert_eq!(state.next(start), Step::Wait(start + Duration::from_millis(4400)));
    state.saw(Some((&record("me", 0), Some(2))), now);
    assert_eq!(state.next(now), Step::Try);
}

/// A process that was stopped while it renewed: another led meanwhile, and has released the lease or deleted it.
#[test]
fn a_time_that_is_over_is_lost_before_the_next_begins() {
    let start = Instant::now();
    let late = start + seconds(60);
    for found in [Some(record("", 5)), Some(record("me", 0)), None] {
        let mut state = leader(start);
        assert_eq!(state.judge(found.as_ref(), Some(9), late, WALL), None, "{found:?}");
        state.failed(late, 0.0);
        assert_eq!(state.next(late), Step::Lost, "{found:?}");
        state.stand_by(late);
        assert_eq!(state.next(late), Step::Try, "{found:?}");
        assert!(state.judge(found.as_ref(), Some(9), late, WALL).is_some(), "{found:?}");
    }
}

#[test]
fn times_that_do_not_go_together_are_refused() {
    let timing = |lease: u64, renew: u64, retry: u64| Timing {
        lease_duration: Duration::from_millis(lease),
        renew_deadline: Duration::from_millis(renew),
        retry_period: Duration::from_millis(retry),
    };
    assert_eq!(Timing::default().check(), Ok(()));
    assert_eq!(timing(2000, 1500, 500).check(), Ok(()));
    // 15.5 s are 15 s in a lease: others would not wait for longer.
    for refused in [timing(15_500, 15_200, 2000), timing(10_000, 10_000, 1), timing(15_000, 2400, 2000)] {
        assert!(refused.check().is_err(), "{refused:?}");
    }
    for refused in [timing(900, 500, 100), timing(15_000, 10_000, 0), timing(u64::MAX, 10_000, 2000)] {
        assert!(refused.check().is_err(), "{refused:?}");
    }
}

/// Several candidates, each with a clock of its own, and a server that takes a write only if it is of the last revision.
struct Model {
    random: u64,
    now_micros: u64,
    events: BTreeMap<Reverse<(u64, u64)>, (usize, u64, Event)>,
    sequence: u64,
    base: Instant,
    lease: Option<(Record, u64)>,
    candidates: Vec<Candidate>,
    /// Nothing goes wrong any more from here on.
    quiet_from: u64,
    terms: u32,
}

struct Candidate {
    /// Which life it is: what was for an earlier one is not heard.
    life: u64,
    state: State,
    /// Of its clock, in millionths.
    rate: u64,
    offset: u64,
    /// In its own clock.
    open_until: Option<Instant>,
    seen: Option<(Record, u64)>,
    waiting: Option<Waiting>,
    requests: u64,
    wakes: u64,
    stopped_until: u64,
}

#[derive(Clone)]
enum Waiting {
    Fast(Instant),
    Get,
    Write(Instant),
}

enum Event {
    Wake(u64),
    Stop,
    Crash,
    /// At the server.
    Arrive(u64, Option<(Record, Option<u64>)>),
    Answer(u64, Result<Option<(Record, u64)>, ()>),
    TimedOut(u64),
    Shown(Record, u64),
}

const REQUEST_TIMEOUT_MICROS: u64 = 5_000_000;

impl Model {
    fn new(seed: u64, candidates: usize, quiet_from: u64) -> Model {
        let mut model = Model {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now_micros: 0,
            events: BTreeMap::new(),
            sequence: 0,
            base: Instant::now(),
            lease: None,
            candidates: Vec::new(),
            quiet_from,
            terms: 0,
        };
        for place in 0..candidates {
            let candidate = model.candidate(place, 0);
            model.candidates.push(candidate);
            model.wake(place, 0);
            let at = model.below(60_000_000);
            model.add(at, place, Event::Stop);
            let at = model.below(60_000_000);
            model.add(at, place, Event::Crash);
        }
        model
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn candidate(&mut self, place: usize, life: u64) -> Candidate {
        let (rate, offset) = (900_000 + self.below(200_000), self.below(1_000_000_000_000));
        let now = self.base + Duration::from_micros(offset + self.now_micros * rate / 1_000_000);
        let state = State::new(format!("{place}-{life}"), Timing::default(), now);
        let (seen, waiting, open_until) = (None, None, None);
        Candidate {
            life,
            state,
            rate,
            offset,
            open_until,
            seen,
            waiting,
            requests: 0,
            wakes: 0,
            stopped_until: self.now_micros,
        }
    }

    fn local(&self, place: usize) -> Instant {
        let candidate = &self.candidates[place];
        self.base + Duration::from_micros(candidate.offset + self.now_micros * candidate.rate / 1_000_000)
    }

    fn add(&mut self, after: u64, place: usize, event: Event) {
        self.sequence += 1;
        let life = self.candidates[place].life;
        self.events.insert(Reverse((self.now_micros + after, self.sequence)), (place, life, event));
    }

    fn wake(&mut self, place: usize, after: u64) {
        self.candidates[place].wakes += 1;
        let wake = Event::Wake(self.candidates[place].wakes);
        self.add(after, place, wake);
    }

    fn is_quiet(&self) -> bool {
        self.now_micros >= self.quiet_from
    }

    /// How long a message takes; None: it is lost.
    fn travel(&mut self) -> Option<u64> {
        match self.below(20) {
            _ if self.is_quiet() => Some(1000),
            0 => None,
            1 => Some(self.below(12_000_000)),
            _ => Some(self.below(50_000)),
        }
    }

    fn run(&mut self, end: u64) {
        while let Some((Reverse((at, sequence)), (place, life, event))) = self.events.pop_last() {
            if at > end {
                return;
            }
            self.now_micros = at;
            // What is at the server happens whatever becomes of who sent it.
            if let Event::Arrive(request, write) = event {
                self.arrive(place, life, request, write);
                continue;
            }
            if self.candidates[place].life != life {
                continue;
            }
            // A process that is stopped finds everything when it goes on.
            let resumes = self.candidates[place].stopped_until;
            if at < resumes && !matches!(event, Event::Stop | Event::Crash) {
                self.events.insert(Reverse((resumes, sequence)), (place, life, event));
                continue;
            }
            self.take(place, event);
        }
    }

    fn take(&mut self, place: usize, event: Event) {
        let now = self.local(place);
        match event {
            Event::Wake(number) if number == self.candidates[place].wakes => self.step(place),
            Event::Wake(_) | Event::Arrive(..) => {}
            Event::Stop => {
                if !self.is_quiet() {
                    self.candidates[place].stopped_until = self.now_micros + self.below(40_000_000);
                    let again = self.below(120_000_000);
                    self.add(again, place, Event::Stop);
                }
            }
            Event::Crash => {
                if !self.is_quiet() {
                    let life = self.candidates[place].life + 1;
                    self.candidates[place] = self.candidate(place, life);
                    self.wake(place, 0);
                    let (crash, stop) = (self.below(200_000_000), self.below(60_000_000));
                    self.add(crash, place, Event::Crash);
                    self.add(stop, place, Event::Stop);
                }
            }
            Event::Answer(request, answer) if request == self.candidates[place].requests => self.hear(place, answer),
            Event::TimedOut(request) if request == self.candidates[place].requests => {
                if self.candidates[place].waiting.is_some() {
                    self.hear(place, Err(()));
                }
            }
            Event::Answer(..) | Event::TimedOut(_) => {}
            Event::Shown(record, revision) => {
                self.candidates[place].state.saw(Some((&record, Some(revision))), now);
                if self.candidates[place].waiting.is_none() {
                    self.step(place);
                }
            }
        }
    }

    /// What the runner of a candidate does between waits.
    fn step(&mut self, place: usize) {
        let now = self.local(place);
        let candidate = &mut self.candidates[place];
        match candidate.state.next(now) {
            Step::Wait(until) => {
                let after = u64::try_from((until - now).as_micros()).unwrap();
                self.wake(place, after + 1);
            }
            Step::Lost => {
                candidate.open_until = None;
                candidate.state.stand_by(now);
                self.step(place);
            }
            Step::Try => {
                match candidate.state.optimistic(now, now_micros(self.base, now)).zip(candidate.seen.clone()) {
                    Some((record, (_, revision))) => {
                        self.send(place, Waiting::Fast(now), Some((record, Some(revision))));
                    }
                    None => self.send(place, Waiting::Get, None),
                }
            }
        }
    }

    fn send(&mut self, place: usize, waiting: Waiting, write: Option<(Record, Option<u64>)>) {
        let candidate = &mut self.candidates[place];
        candidate.requests += 1;
        candidate.waiting = Some(waiting);
        let request = candidate.requests;
        // Its clock tells it how long it waits.
        let timeout = REQUEST_TIMEOUT_MICROS * 1_000_000 / candidate.rate;
        self.add(timeout, place, Event::TimedOut(request));
        if let Some(after) = self.travel() {
            self.add(after, place, Event::Arrive(request, write));
        }
    }

    fn arrive(&mut self, place: usize, life: u64, request: u64, write: Option<(Record, Option<u64>)>) {
        let answer = match write {
            None => Ok(self.lease.clone()),
            Some((record, revision)) if revision == self.lease.as_ref().map(|lease| lease.1) => {
                let revision = self.sequence;
                self.lease = Some((record.clone(), revision));
                for other in 0..self.candidates.len() {
                    if let Some(after) = self.travel() {
                        self.add(after, other, Event::Shown(record.clone(), revision));
                    }
                }
                Ok(self.lease.clone())
            }
            Some(_) => Err(()),
        };
        if self.candidates[place].life == life
            && let Some(after) = self.travel()
        {
            self.add(after, place, Event::Answer(request, answer));
        }
    }

    fn hear(&mut self, place: usize, answer: Result<Option<(Record, u64)>, ()>) {
        let (now, random) = (self.local(place), self.below(1_000_000));
        let candidate = &mut self.candidates[place];
        #[allow(clippy::cast_precision_loss)]
        let random = random as f64 / 1e6;
        match (candidate.waiting.take(), answer) {
            (Some(Waiting::Fast(_)), Err(())) => return self.send(place, Waiting::Get, None),
            (Some(Waiting::Get), Ok(found)) => {
                candidate.seen.clone_from(&found);
                let (record, revision) = found.unzip();
                let wall = now_micros(self.base, now);
                if let Some(record) = candidate.state.judge(record.as_ref(), revision, now, wall) {
                    return self.send(place, Waiting::Write(now), Some((record, revision)));
                }
                candidate.state.failed(now, random);
            }
            (Some(Waiting::Fast(sent) | Waiting::Write(sent)), Ok(Some((record, revision)))) => {
                candidate.seen = Some((record.clone(), revision));
                candidate.state.wrote(&record, Some(revision), sent, now);
                if let Some(until) = candidate.state.leads_until(now) {
                    self.terms += u32::from(candidate.open_until.is_none());
                    candidate.open_until = Some(until);
                    self.check(place);
                }
            }
            _ => candidate.state.failed(now, random),
        }
        self.step(place);
    }

    /// Whether a write of this candidate would go out at this moment.
    fn is_open(&self, place: usize) -> bool {
        self.candidates[place].open_until.is_some_and(|until| self.local(place) < until)
    }

    /// A fence was opened: it is the only one that is open, whoever is stopped or cut off.
    fn check(&self, place: usize) {
        for other in (0..self.candidates.len()).filter(|other| *other != place) {
            assert!(!self.is_open(other), "{place} and {other} lead at {} µs", self.now_micros);
        }
    }
}

fn now_micros(base: Instant, now: Instant) -> i64 {
    i64::try_from((now - base).as_micros()).unwrap()
}

#[test]
fn never_two_may_write_at_one_time() {
    let mut terms = 0;
    for seed in 0..400 {
        let quiet_from = 600_000_000;
        let mut model = Model::new(seed, 2 + usize::try_from(seed % 3).unwrap(), quiet_from);
        model.run(quiet_from + 120_000_000);
        let leaders = (0..model.candidates.len()).filter(|place| model.is_open(*place)).count();
        assert_eq!(leaders, 1, "seed {seed}: somebody leads when all is well");
        terms += model.terms;
    }
    assert!(terms > 2000, "only {terms} terms: the model shows nothing");
}
