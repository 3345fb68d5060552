//! Numbers that controllers may still think of for a while.

use std::time::Duration;

/// So long an act may rest on what was: caches are slow, and parts stand still and go on.
const STALE_MAX: Duration = Duration::from_secs(5 * 60);

/// Whether it was so of late.
pub fn is_recent(then_micros: u64, now_micros: u64) -> bool {
    now_micros.saturating_sub(then_micros) <= stale_micros()
}

fn stale_micros() -> u64 {
    u64::try_from(STALE_MAX.as_micros()).unwrap_or(u64::MAX)
}

/// When something happened of late.
#[derive(Default)]
pub struct Moments(Vec<u64>);

impl Moments {
    pub fn add(&mut self, at_micros: u64) {
        self.0.push(at_micros);
    }

    pub fn count(&mut self, at_micros: u64) -> i64 {
        self.0.retain(|then| is_recent(*then, at_micros));
        i64::try_from(self.0.len()).unwrap_or(i64::MAX)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_greater_number_counts_for_a_while() {
        let mut number = Lately::starting(3);
        number.set(1, 0);
        assert_eq!((number.now(), number.max(299 * SECOND), number.max(300 * SECOND)), (1, 3, 1));
        number.set(2, 299 * SECOND);
        assert_eq!((number.max(299 * SECOND), number.max(300 * SECOND)), (3, 2));
        number.set(0, 400 * SECOND);
        assert_eq!((number.max(699 * SECOND), number.max(700 * SECOND)), (2, 0));
    }

    #[test]
    fn what_happened_is_forgotten() {
        let mut moments = Moments::default();
        moments.add(0);
        moments.add(10 * SECOND);
        assert_eq!(moments.count(300 * SECOND), 2);
        assert_eq!(moments.count(301 * SECOND), 1);
        assert_eq!(moments.count(311 * SECOND), 0);
    }
}
