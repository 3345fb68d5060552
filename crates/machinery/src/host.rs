//! What a program takes from its host: the time and randomness. Passed in everywhere, so that a whole cluster can run
//! on a seed in virtual time.

/// The wall clock.
pub trait Clock: Send + Sync + 'static {
    /// Microseconds since 1970-01-01T00:00:00Z.
    fn now_micros(&self) -> i64;

    /// Seconds since 1970-01-01T00:00:00Z.
    fn now_seconds(&self) -> i64 {
        self.now_micros().div_euclid(1_000_000)
    }
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
