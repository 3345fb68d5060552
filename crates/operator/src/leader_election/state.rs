//! What a candidate knows of a lease, and what it does next: without waiting, and with the time passed in.
//!
//! Times of two kinds: [`Instant`]s are of the process' own monotonic clock, and all that is decided is decided by them. What
//! a lease says of times is for people: clocks of machines differ.

use std::time::Duration;

use tokio::time::Instant;

use super::Timing;

/// How much longer than the retry period a candidate may wait, as a part of it; client-go's.
const JITTER: f64 = 1.2;

/// What a lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty: nobody holds it.
    pub holder: String,
    /// So long it is the holder's after each renewal.
    pub duration_seconds: i64,
    pub acquired_micros: Option<i64>,
    pub renewed_micros: Option<i64>,
    /// How often it went from one holder to another.
    pub transitions: i64,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing before then, unless the lease changes.
    Wait(Instant),
    /// Acquire the lease, or renew it.
    Try,
    /// It led, and no longer does.
    Lost,
}

pub(super) struct State {
    identity: String,
    timing: Timing,
    observed: Option<Observed>,
    role: Role,
    /// When to try next.
    next: Instant,
}

/// A record, since when it is known, and the revision of the lease, if that is a number.
struct Observed {
    record: Record,
    at: Instant,
    revision: Option<u64>,
}

enum Role {
    Standby,
    Leader {
        /// Counted from when the last renewal was sent: others count from when they saw it, and longer.
        until: Instant,
    },
}

impl State {
    pub fn new(identity: String, timing: Timing, now: Instant) -> State {
        State { identity, timing, observed: None, role: Role::Standby, next: now }
    }

    pub fn next(&self, now: Instant) -> Step {
        match self.role {
            Role::Leader { until } if now >= until => Step::Lost,
            _ if now >= self.next => Step::Try,
            Role::Leader { until } => Step::Wait(until.min(self.next)),
            Role::Standby => Step::Wait(self.next),
        }
    }

    /// Until when it leads, if it does.
    pub fn leads_until(&self, now: Instant) -> Option<Instant> {
        match self.role {
            Role::Leader { until } if now < until => Some(until),
            _ => None,
        }
    }

    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader { .. })
    }

    /// Who holds the lease as far as is known; empty: nobody.
    pub fn holder(&self) -> Option<&str> {
        self.observed.as_ref().map(|observed| observed.record.holder.as_str())
    }

    /// What a holder writes over the lease as it was last seen, without looking at it first: mostly nobody else has changed
    /// it. None: it has to be looked at.
    pub fn optimistic(&self, now: Instant, wall_micros: i64) -> Option<Record> {
        let observed = self.observed.as_ref()?;
        let mine = observed.record.holder == self.identity && self.is_held(observed, now);
        mine.then(|| self.renewed(&observed.record, wall_micros))
    }

    /// Takes in the lease as it was found (None: there is none). What to make of it, if it is to be had.
    pub fn judge(
        &mut self,
        found: Option<&Record>,
        revision: Option<u64>,
        now: Instant,
        wall_micros: i64,
    ) -> Option<Record> {
        if let Some(found) = found {
            self.observe(found, revision, now);
        }
        // Its time is over: what was begun in it ends before anything is taken again. Others may have led meanwhile.
        if self.next(now) == Step::Lost {
            return None;
        }
        let known = self.observed.as_ref();
        let of_another = known.filter(|known| !known.record.holder.is_empty() && known.record.holder != self.identity);
        if let Some(known) = of_another {
            // Also of a lease that somebody has deleted: its holder does not know that yet.
            if self.is_held(known, now) {
                self.lose(now);
                return None;
            }
        }
        Some(match found {
            Some(found) if found.holder == self.identity => self.renewed(found, wall_micros),
            Some(found) => self.acquired(found.transitions.saturating_add(1), wall_micros),
            None => self.acquired(0, wall_micros),
        })
    }

    /// A record was written that was sent at this time.
    pub fn wrote(&mut self, record: &Record, revision: Option<u64>, sent: Instant, now: Instant) {
        self.observed = Some(Observed { record: record.clone(), at: now, revision });
        let until = sent + self.timing.renew_deadline;
        if now < until {
            self.role = Role::Leader { until };
            self.next = now + self.timing.retry_period;
        } else {
            // The answer took so long that nothing may follow from it: a leader has lost, a candidate renews.
            self.next = now;
        }
    }

    /// A try came to nothing. `random` is of 0..1.
    pub fn failed(&mut self, now: Instant, random: f64) {
        let period = self.timing.retry_period;
        self.next = now + if self.is_leader() { period } else { period.mul_f64(JITTER.mul_add(random, 1.0)) };
    }

    /// A watch showed the lease (None: it was deleted). Watches may be behind.
    pub fn saw(&mut self, shown: Option<(&Record, Option<u64>)>, now: Instant) {
        let Some((record, revision)) = shown else {
            // Whoever leads makes it again at once, and others leave it alone until that holder's time is over.
            if self.is_leader() {
                self.next = now;
            }
            return;
        };
        let known = self.observed.as_ref();
        let is_news = known.is_none_or(|known| revision > known.revision && record != &known.record);
        if !is_news {
            return;
        }
        self.observe(record, revision, now);
        match &record.holder {
            // It was released.
            holder if holder.is_empty() => self.next = now,
            holder if *holder != self.identity => self.lose(now),
            // Acquired after all: only the answer was lost.
            _ if !self.is_leader() => self.next = now,
            _ => {}
        }
    }

    /// It stands by (again), and tries at once if that is of use.
    pub fn stand_by(&mut self, now: Instant) {
        self.role = Role::Standby;
        self.next = now;
    }

    /// What a holder leaves behind that lets others have the lease.
    pub fn released(record: &Record, wall_micros: i64) -> Record {
        Record {
            holder: String::new(),
            duration_seconds: 1,
            acquired_micros: Some(wall_micros),
            renewed_micros: Some(wall_micros),
            transitions: record.transitions,
        }
    }

    fn observe(&mut self, record: &Record, revision: Option<u64>, now: Instant) {
        match &mut self.observed {
            Some(observed) if observed.record == *record => observed.revision = revision,
            _ => self.observed = Some(Observed { record: record.clone(), at: now, revision }),
        }
    }

    /// Whether its holder may still have it, counted from when this process saw the last change.
    fn is_held(&self, observed: &Observed, now: Instant) -> bool {
        let duration = Duration::from_secs(u64::try_from(observed.record.duration_seconds).unwrap_or(0));
        observed.at.checked_add(duration).is_none_or(|until| now < until)
    }

    /// Another has it.
    fn lose(&mut self, now: Instant) {
        if let Role::Leader { until } = &mut self.role {
            *until = now.min(*until);
        }
    }

    fn acquired(&self, transitions: i64, wall_micros: i64) -> Record {
        Record {
            holder: self.identity.clone(),
            duration_seconds: self.timing.lease_seconds(),
            acquired_micros: Some(wall_micros),
            renewed_micros: Some(wall_micros),
            transitions,
        }
    }

    fn renewed(&self, before: &Record, wall_micros: i64) -> Record {
        let acquired_micros = before.acquired_micros.or(Some(wall_micros));
        Record { acquired_micros, ..self.acquired(before.transitions, wall_micros) }
    }
}
