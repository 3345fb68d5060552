//! The host's own clock and randomness: the one place that asks for them. All else takes them from here, passed in.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::Rng;
use rkube_machinery::host::{Clock, Entropy};

pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn now_micros(&self) -> i64 {
        let now = SystemTime::now();
        let micros = match now.duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()),
            Err(before) => i64::try_from(before.duration().as_micros()).map(|micros| -micros),
        };
        micros.unwrap_or(i64::MAX)
    }
}

/// Nanoseconds since 1970.
#[allow(clippy::disallowed_methods)]
pub fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A generator per thread that the operating system seeds, so that nobody waits for a lock or a system call.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[allow(clippy::disallowed_methods)]
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

/// When the process began.
#[derive(Clone, Copy)]
pub struct Started(Instant);

impl Started {
    #[allow(clippy::disallowed_methods)]
    pub fn now() -> Self {
        Started(Instant::now())
    }

    #[allow(clippy::disallowed_methods)]
    pub fn elapsed(self) -> Duration {
        Instant::now().duration_since(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_of_this_century() {
        let year_2024_seconds = 1_704_067_200;
        assert!(SystemClock.now_seconds() > year_2024_seconds);
    }

    #[test]
    fn entropy_differs_from_call_to_call() {
        assert_ne!(SystemEntropy.next_u64(), SystemEntropy.next_u64());
    }
}
