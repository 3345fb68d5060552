//! What a program takes from its host: the time and randomness. Passed in everywhere, so that a whole cluster can run
//! on a seed in virtual time.

use std::sync::atomic::{AtomicI64, Ordering};

/// The wall clock.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since 1970-01-01T00:00:00Z.
    fn now_micros(&self) -> i64;

    /// Seconds since 1970-01-01T00:00:00Z.
    fn now_seconds(&self) -> i64 {
        self.now_micros().div_euclid(1_000_000)
    }

    /// Nanoseconds since 1970-01-01T00:00:00Z, by which things can be named: of a thousand answers no two are the same,
    /// whoever of the process asks. The clock itself knows microseconds.
    fn distinct_nanos(&self) -> i64 {
        static NUMBER: AtomicI64 = AtomicI64::new(0);
        numbered(self.now_micros(), NUMBER.fetch_add(1, Ordering::Relaxed))
    }
}

/// The nanosecond of that number in a microsecond.
pub fn numbered(micros: i64, number: i64) -> i64 {
    micros.saturating_mul(1000).saturating_add(number.rem_euclid(1000))
}

/// A source of random bytes, good enough for uids and names.
pub trait Entropy: Send + Sync + 'static {
    fn fill(&self, bytes: &mut [u8]);

    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stopped;

    impl Clock for Stopped {
        fn now_micros(&self) -> i64 {
            7
        }
    }

    #[test]
    fn times_that_name_things_differ_while_the_clock_stands() {
        let times: std::collections::BTreeSet<i64> = (0..500).map(|_| Stopped.distinct_nanos()).collect();
        assert_eq!(times.len(), 500);
        assert!(times.iter().all(|nanos| nanos / 1000 == 7));
    }
}
