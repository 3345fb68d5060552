//! How long a node waits before it tries again: doubled with each time, forgotten after a long enough success.

use std::time::Duration;

/// As upstream's, for containers that ended and for images that cannot be pulled.
const FIRST: Duration = Duration::from_secs(10);
const MAX: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    /// Zero: nothing failed yet.
    delay: Duration,
    updated_micros: i64,
}

impl Backoff {
    /// What is known of one that has been counted so often by another life of this process.
    pub fn after(times: u32, updated_micros: i64) -> Backoff {
        match times.checked_sub(1) {
            None => Backoff::default(),
            Some(more) => Backoff { delay: (FIRST * (1 << more.min(10))).min(MAX), updated_micros },
        }
    }

    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// Until when to wait, of something that happened at this time.
    pub fn until(&self, since_micros: i64, now_micros: i64) -> Option<i64> {
        let until = since_micros + micros(self.delay);
        (!self.is_forgotten(since_micros) && now_micros < until).then_some(until)
    }

    /// Until when to wait, of what failed when this was last counted.
    pub fn until_since_update(&self, now_micros: i64) -> Option<i64> {
        self.until(self.updated_micros, now_micros)
    }

    /// It is tried once more.
    pub fn count(&mut self, since_micros: i64, now_micros: i64) {
        let is_first = self.delay.is_zero() || self.is_forgotten(since_micros);
        self.delay = if is_first { FIRST } else { (self.delay * 2).min(MAX) };
        self.updated_micros = now_micros;
    }

    fn is_forgotten(&self, since_micros: i64) -> bool {
        since_micros - self.updated_micros > micros(MAX * 2)
    }
}

/// In the unit of the clock; the longest there is where that is too long.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn the_first_failure_is_not_waited_for_and_the_others_longer_each_time() {
        let (mut backoff, mut now) = (Backoff::default(), 0);
        let mut waited = Vec::new();
        for _ in 0..8 {
            let ended = now;
            let until = backoff.until(ended, now).unwrap_or(now);
            waited.push((until - ended) / SECOND);
            now = until;
            backoff.count(ended, now);
        }
        assert_eq!(waited, [0, 10, 20, 40, 80, 160, 300, 300]);
        let long_after = now + 601 * SECOND;
        assert_eq!(backoff.until(long_after, long_after), None, "it ran well for long enough");
    }

    #[test]
    fn what_another_life_counted_goes_on() {
        for (times, seconds) in [(0, 0), (1, 10), (3, 40), (6, 300), (900, 300)] {
            assert_eq!(Backoff::after(times, 0).delay().as_secs(), seconds, "{times}");
        }
    }
}
