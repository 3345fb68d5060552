//! The write engine: one compare-and-swap loop for every write of an object, whoever asks. A verb says what it makes of
//! the object that is there ([`CompareAndSwap`]); the loop says what is there, how often it is tried, and when a verdict stands.
//!
//! The first attempt starts from the cache, which is right nearly always. Where other processes write to the store the
//! cache may lag behind it, so nothing but a commit stands that was found out from the cache: a refusal, a dry run or
//! "nothing to do" is found out again from what the store has. Rereads go to the store, never to the cache.

mod lease;
mod place;

use rkube_catalog::Entry;
use rkube_machinery::Status;

pub use place::{Engine, Place, store_error};

/// A write that others keep overtaking is given up after so many attempts.
const ATTEMPTS_MAX: usize = 64;

/// A write of one object, as the loop sees it.
pub trait CompareAndSwap: Send {
    type Done: Send;

    /// Where the object is.
    fn place(&self) -> &Place<'_>;

    /// One attempt on what is there.
    fn attempt(&mut self, current: Option<&Entry>) -> impl Future<Output = Result<Verdict<Self::Done>, Status>> + Send;

    /// Another attempt follows: what the last one said on the side counts no more.
    fn again(&mut self) -> Result<(), Status> {
        Ok(())
    }

    fn attempts_max(&self) -> usize {
        ATTEMPTS_MAX
    }

    /// The answer when every attempt was overtaken. `current`: what is there now.
    fn exhausted(&self, current: Option<&Entry>) -> Status;
}

/// How an attempt ended that met no error.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// The store took it.
    Committed(T),
    /// It came to its end without a write: a dry run, or nothing was to be done.
    Decided(T),
    /// Another write came first.
    Overtaken,
}

impl<T> Verdict<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Verdict::Committed(done) => Verdict::Committed(change(done)),
            Verdict::Decided(done) => Verdict::Decided(change(done)),
            Verdict::Overtaken => Verdict::Overtaken,
        }
    }
}

/// What an attempt starts from.
pub struct Seen {
    entry: Option<Entry>,
    /// Whether this is what the store has, not only what the cache has so far.
    is_current: bool,
}

impl Seen {
    /// The write takes the object to be absent, and the store tells it if it is not.
    pub const ABSENT: Seen = Seen { entry: None, is_current: true };
}

/// Tries the write until no other one comes in between.
pub async fn run<W: CompareAndSwap>(write: &mut W, mut seen: Seen) -> Result<W::Done, Status> {
    for attempt in 0..write.attempts_max() {
        if attempt > 0 {
            write.again()?;
        }
        match write.attempt(seen.entry.as_ref()).await {
            Ok(Verdict::Committed(done)) => return Ok(done),
            Ok(Verdict::Decided(done)) if seen.is_current => return Ok(done),
            Err(status) if seen.is_current => return Err(status),
            // Overtaken, or a verdict on what may be out of date.
            Ok(_) | Err(_) => {}
        }
        seen = Seen { entry: write.place().read().await?, is_current: true };
    }
    Err(write.exhausted(seen.entry.as_ref()))
}

#[cfg(test)]
mod tests;
