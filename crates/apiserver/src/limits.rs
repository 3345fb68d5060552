//! How much is done at a time: requests in flight, the bytes of their bodies, and the work on large ones.
//!
//! Counts are upstream's: a request beyond them is turned away at once, unless a member of `system:masters` sends it.
//! Bytes are bounded for everybody: a body that finds no room waits for its turn, first come first served, and is turned
//! away after [`ROOM_TIMEOUT`]. Small bodies have room of their own, so that large ones never hold them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body::SizeHint;
use rkube_machinery::Status;
use tokio::sync::{Semaphore, SemaphorePermit};

/// No request's body may be larger.
pub const BODY_MAX: usize = 3 * 1024 * 1024;

/// Bodies larger than this are worked on apart, and share the room of large ones.
pub const HEAVY_BYTES: usize = 128 * 1024;

/// The bytes that small bodies hold together, and those of large ones.
///
/// While it is worked on, a byte of JSON takes up to 25 bytes of memory (lists of one item each), a byte of YAML up to 200
/// (a list in brackets on one line, which its parser reads ahead), so that large bodies take 400 to 650 MB at most.
/// Small ones take that only while a thread has them in hand.
const SMALL_ROOM_BYTES: usize = 32 << 20;
const LARGE_ROOM_BYTES: usize = 16 << 20;
/// A byte of YAML takes as much room as so many others. The largest body still fits.
const YAML_WEIGHT: usize = 5;
const _: () = assert!(BODY_MAX * YAML_WEIGHT <= LARGE_ROOM_BYTES);

/// A body that has found no room after this time is turned away.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

/// When a client that was turned away may come back.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// How many requests may be in flight; 0 for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightMax {
    pub reading: usize,
    pub mutating: usize,
}

impl Default for InFlightMax {
    fn default() -> Self {
        InFlightMax { reading: 400, mutating: 200 }
    }
}

pub struct Limits {
    reading: Slots,
    mutating: Slots,
    small: Semaphore,
    large: Semaphore,
    room_timeout: Duration,
    /// Turns at working on large bodies: one for each core.
    pub heavy_turns: Semaphore,
}

impl Limits {
    pub fn new(max: InFlightMax) -> Limits {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Limits {
            reading: Slots::new(max.reading),
            mutating: Slots::new(max.mutating),
            small: Semaphore::new(SMALL_ROOM_BYTES),
            large: Semaphore::new(LARGE_ROOM_BYTES),
            room_timeout: ROOM_TIMEOUT,
            heavy_turns: Semaphore::new(cores),
        }
    }

    /// A place among the requests in flight, for as long as it is held; none where all are taken.
    pub fn enter(&self, mutating: bool) -> Option<Slot> {
        if mutating { self.mutating.take() } else { self.reading.take() }
    }

    /// Room for a body that is about to be read, for as long as the request lasts. A length that is not said may be any.
    pub async fn room(&self, size: &SizeHint, content_type: &str) -> Result<Option<SemaphorePermit<'_>>, Status> {
        let bytes = size.exact().map_or(BODY_MAX, |exact| usize::try_from(exact).unwrap_or(usize::MAX));
        // What is too large is not kept.
        if bytes == 0 || bytes > BODY_MAX {
            return Ok(None);
        }
        let room = if bytes > HEAVY_BYTES { &self.large } else { &self.small };
        let weight = if content_type.contains("yaml") { YAML_WEIGHT } else { 1 };
        let permits = u32::try_from(bytes * weight).unwrap_or(u32::MAX);
        if let Ok(found) = room.try_acquire_many(permits) {
            return Ok(Some(found));
        }
        match tokio::time::timeout(self.room_timeout, room.acquire_many(permits)).await {
            Ok(Ok(found)) => Ok(Some(found)),
            _ => Err(Status::too_many_requests(
                "the server is working on as many bytes as it can hold, please try again later",
                RETRY_AFTER_SECONDS,
            )),
        }
    }
}

/// So many places, counted without a lock.
struct Slots {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// A place that is given back when this is dropped. It goes with the answer until that is sent.
pub struct Slot(Arc<AtomicUsize>);

impl Slots {
    fn new(max: usize) -> Slots {
        Slots { taken: Arc::default(), max: if max == 0 { usize::MAX } else { max } }
    }

    fn take(&self) -> Option<Slot> {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        // Dropped where there was none: that gives back what was just added.
        let slot = Slot(self.taken.clone());
        (before < self.max).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let limits = Limits::new(InFlightMax { reading: 2, mutating: 0 });
        let (first, second) = (limits.enter(false), limits.enter(false));
        assert!(first.is_some() && second.is_some() && limits.enter(false).is_none());
        assert!(limits.enter(false).is_none(), "a refusal takes no place");
        drop(first);
        assert!(limits.enter(false).is_some());
        let many: Vec<_> = (0..1000).map(|_| limits.enter(true)).collect();
        assert!(many.iter().all(Option::is_some));
    }

    #[tokio::test]
    async fn large_bodies_wait_and_small_ones_do_not() {
        let limits = Limits { room_timeout: Duration::from_millis(1), ..Limits::new(InFlightMax::default()) };
        let mut held = Vec::new();
        for _ in 0..LARGE_ROOM_BYTES / BODY_MAX {
            held.push(limits.room(&SizeHint::with_exact(BODY_MAX as u64), "").await.unwrap());
        }
        let refused = limits.room(&SizeHint::default(), "").await.unwrap_err();
        assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (429, 1));
        assert!(limits.room(&SizeHint::with_exact(HEAVY_BYTES as u64), "").await.unwrap().is_some());
        assert!(limits.room(&SizeHint::with_exact(0), "").await.unwrap().is_none());
        assert!(limits.room(&SizeHint::with_exact(BODY_MAX as u64 + 1), "").await.unwrap().is_none());
        held.pop();
        assert_eq!(limits.room(&SizeHint::default(), "application/yaml").await.unwrap_err().code, 429);
        assert!(limits.room(&SizeHint::default(), "").await.unwrap().is_some());
    }
}
