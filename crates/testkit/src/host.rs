//! Time and randomness of a cluster in a test: the only file here that asks the machine for them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rkube_machinery::host::{Clock, Entropy, numbered};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// What it is when virtual time begins: 2026-01-01T00:00:00Z, in every run.
const VIRTUAL_START_SECONDS: i64 = 1_767_225_600;

/// The time of the machine.
pub struct WallClock;

impl Clock for WallClock {
    #[allow(clippy::disallowed_methods)]
    fn now_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

/// The time of the runtime's timers, which a test moves.
pub struct VirtualClock {
    start: Instant,
    /// By how much it is wrong.
    offset_micros: AtomicI64,
    /// By how much it was ahead at most.
    ahead_micros: AtomicI64,
    /// How often was asked for a time that names something.
    named: AtomicI64,
}

impl VirtualClock {
    /// Stops the runtime's time, if it does not stand already.
    pub fn start() -> VirtualClock {
        let flavor = Handle::current().runtime_flavor();
        assert_eq!(flavor, RuntimeFlavor::CurrentThread, "virtual time needs a runtime of one thread: #[tokio::test]");
        #[cfg(feature = "virtual-time")]
        if !is_paused() {
            tokio::time::pause();
        }
        let (offset_micros, ahead_micros) = (AtomicI64::new(0), AtomicI64::new(0));
        VirtualClock { start: Instant::now(), offset_micros, ahead_micros, named: AtomicI64::new(0) }
    }

    /// The time of day is another at once; timers go on as ever.
    pub fn jump(&self, seconds: i64) {
        let step = seconds.saturating_mul(1_000_000);
        let offset = self.offset_micros.fetch_add(step, Ordering::Relaxed).saturating_add(step);
        self.ahead_micros.fetch_max(offset, Ordering::Relaxed);
    }

    /// Jumps to where no time that it ever said is still to come.
    pub fn catch_up(&self) {
        self.offset_micros.store(self.ahead_micros.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now_micros(&self) -> i64 {
        let since = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        let offset = self.offset_micros.load(Ordering::Relaxed);
        (VIRTUAL_START_SECONDS * 1_000_000).saturating_add(since).saturating_add(offset)
    }

    /// Counted by this cluster, not by the process: another before it changes nothing.
    fn distinct_nanos(&self) -> i64 {
        numbered(self.now_micros(), self.named.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(feature = "virtual-time")]
/// Whether the runtime's time stands while the machine's goes on: to pause it twice is an error that cannot be asked for.
#[allow(clippy::disallowed_methods)]
fn is_paused() -> bool {
    let (runtime, machine) = (Instant::now(), std::time::Instant::now());
    while machine.elapsed().as_nanos() == 0 {}
    Instant::now() == runtime
}

/// A seed that nobody has chosen.
pub fn fresh_seed() -> u64 {
    // Neighbouring times give seeds that have nothing to do with each other.
    SeededEntropy::new(u64::try_from(WallClock.now_micros()).unwrap_or_default()).next_u64()
}

/// Random numbers of a seed: the n-th that is asked for is the same in every run.
pub struct SeededEntropy(AtomicU64);

impl SeededEntropy {
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(AtomicU64::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// SplitMix64: a counter whose steps are mixed well.
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(all(test, feature = "virtual-time"))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_clock_follows_the_timers() {
        let clock = VirtualClock::start();
        assert_eq!(clock.now_seconds(), VIRTUAL_START_SECONDS);
        tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
        assert_eq!(clock.now_seconds(), VIRTUAL_START_SECONDS + 24 * 60 * 60);
        // That it stands already is no error.
        assert_eq!(VirtualClock::start().now_seconds(), VIRTUAL_START_SECONDS);
    }

    #[tokio::test]
    async fn the_clock_jumps_and_catches_up() {
        let clock = VirtualClock::start();
        clock.jump(100);
        clock.jump(-300);
        assert_eq!(clock.now_seconds(), VIRTUAL_START_SECONDS - 200);
        clock.catch_up();
        assert_eq!(clock.now_seconds(), VIRTUAL_START_SECONDS + 100);
    }

    #[test]
    fn a_seed_says_all() {
        let numbers = |seed| {
            let entropy = SeededEntropy::new(seed);
            let mut bytes = [0; 20];
            entropy.fill(&mut bytes);
            (bytes, entropy.next_u64())
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }
}
