//! Numbers that controllers may still think of for a while.

use std::time::Duration;

/// So long an act may rest on what was: caches are slow, and parts stand still and go on.
pub const STALE_MAX: Duration = Duration::from_secs(5 * 60);

/// Whether it was so of late.
pub fn is_recent(then_micros: u64, now_micros: u64) -> bool {
    now_micros.saturating_sub(then_micros) <= stale_micros()
}

fn stale_micros() -> u64 {
    u64::try_from(STALE_MAX.as_micros()).unwrap_or(u64::MAX)
}

/// A number, and what it was at most.
#[derive(Default)]
pub struct Lately {
    now: i64,
    /// A greater one, and until when it counts.
    before: Option<(i64, u64)>,
}

impl Lately {
    pub fn starting(number: i64) -> Lately {
        Lately { now: number, before: None }
    }

    pub fn set(&mut self, number: i64, at_micros: u64) {
        if number < self.now {
            self.before = Some((self.max(at_micros), at_micros.saturating_add(stale_micros())));
        }
        self.now = number;
    }

    pub fn now(&self) -> i64 {
        self.now
    }

    pub fn max(&self, at_micros: u64) -> i64 {
        match self.before {
            Some((before, until)) if at_micros < until => before.max(self.now),
            _ => self.now,
        }
    }
}
