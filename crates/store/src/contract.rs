//! What every backend promises.
//!
//! - One global [`Revision`] that every committed write raises by at least one; each write's revision is unique.
//! - Compare-and-swap on a key's revision ([`Expect`]), and if need be on that of one more key ([`Guard`]); a write is applied
//!   whole or not at all.
//! - A write is visible to reads and delivered to every watch **before** it is acknowledged, and only after it is
//!   as durable as the backend makes it.
//! - Watches deliver every change under their prefix exactly once, in revision order, without gaps, or end with
//!   [`Error::Compacted`] when the past they ask for is gone.
//! - Dropping a future or a [`WatchHandle`] cancels it. A cancelled write either happened whole or not at all.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

/// The one global, ever growing counter of writes. A new store is at revision 1.
pub type Revision = u64;
pub type LeaseId = i64;
/// Something the writer wants delivered to the watchers in its own process along with the value: a parsed form,
/// so that nobody parses it twice. Never stored; absent after a restart and on backends that cannot carry it.
pub type Note = Arc<dyn Any + Send + Sync>;

/// A key with its value as of `mod_revision`.
#[derive(Clone)]
pub struct KeyValue {
    pub key: Arc<str>,
    pub value: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    pub lease: Option<LeaseId>,
    pub note: Option<Note>,
}

/// What must hold of the key for the write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Anything,
    Absent,
    /// The key exists and was last written at this revision.
    Revision(Revision),
}

impl Expect {
    /// Whether a key at this revision is as expected.
    pub(crate) fn holds(self, current: Option<Revision>, deletes: bool) -> bool {
        let holds = match self {
            Expect::Anything => true,
            Expect::Absent => current.is_none(),
            Expect::Revision(revision) => current == Some(revision),
        };
        holds && !(deletes && current.is_none())
    }
}

/// Another key that must still be there as it was last written at this revision, or the write does not happen. It may be a
/// key that others write: nobody needs to own it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    pub key: Arc<str>,
    pub revision: Revision,
}

#[derive(Clone)]
pub enum Change {
    Put { value: Bytes, lease: Option<LeaseId>, note: Option<Note> },
    Delete,
}

#[derive(Clone)]
pub struct Write {
    pub key: Arc<str>,
    pub expect: Expect,
    pub change: Change,
    /// Looked at when the key itself is as expected.
    pub guard: Option<Guard>,
}

/// The answer to a read of a range.
pub struct Range {
    /// In key order.
    pub items: Vec<KeyValue>,
    /// The revision at which the range was read.
    pub revision: Revision,
    /// Whether keys after the last item were left out because of the limit.
    pub more: bool,
    /// How many keys the whole range holds.
    pub count: usize,
}

#[derive(Clone, Debug, Default)]
pub struct RangeQuery {
    /// First key, inclusive.
    pub start: String,
    /// First key that is not in the range; empty: no end.
    pub end: String,
    /// At most so many items; 0: all.
    pub limit: usize,
    /// Read as of this revision; `None`: the newest.
    pub revision: Option<Revision>,
}

impl RangeQuery {
    /// Every key that begins with `prefix`.
    pub fn prefix(prefix: &str) -> Self {
        RangeQuery { start: prefix.to_owned(), end: prefix_end(prefix), ..Self::default() }
    }
}

/// The first key after all that begin with `prefix`; empty where there is none.
pub fn prefix_end(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        // After U+D7FF comes a gap in which there are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            end.push(next);
            return end;
        }
    }
    end
}

#[derive(Clone)]
pub enum EventKind {
    Put,
    /// `current` holds the last value, with `mod_revision` the revision of the deletion.
    Delete,
}

#[derive(Clone)]
pub struct Event {
    pub kind: EventKind,
    pub current: KeyValue,
    /// The value before, where the backend still knows it.
    pub previous: Option<KeyValue>,
}

/// Changes that became visible together, in revision order. Empty `events`: nothing under this prefix changed up to
/// `revision` (progress).
#[derive(Clone)]
pub struct Batch {
    pub events: Arc<[Event]>,
    /// Everything up to this revision has been delivered.
    pub revision: Revision,
}

/// The receiving end of a watch. Called in revision order by one thread at a time, for writes of this process
/// before the writer is told of its success: so do not block and do not write to the store from here.
pub trait Sink: Send + 'static {
    fn deliver(&mut self, batch: &Batch);
    /// The watch is over; nothing follows. Called at most once, not after the handle was dropped.
    fn end(&mut self, why: Error);
}

/// A running watch. Dropping it ends it.
pub struct WatchHandle {
    _cancel: Box<dyn Any + Send + Sync>,
}

impl WatchHandle {
    /// `cancel` ends the watch when it is dropped.
    pub fn new(cancel: impl Any + Send + Sync) -> Self {
        WatchHandle { _cancel: Box::new(cancel) }
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The write's [`Expect`] did not hold. `current` is the key's revision now, `None` if it is absent.
    #[error("the key is at {current:?}, not as the write expects")]
    Conflict { current: Option<Revision> },
    /// The write's [`Guard`] is not as it was. `current` is its revision now, `None` if it is absent.
    #[error("what guards the key is at {current:?}, not as the write expects")]
    Guarded { current: Option<Revision> },
    #[error("revision {requested} is too old, the oldest one kept is {oldest}")]
    Compacted { requested: Revision, oldest: Revision },
    #[error("revision {requested} is in the future, the newest is {newest}")]
    Future { requested: Revision, newest: Revision },
    #[error("there is no lease {0}")]
    NoLease(LeaseId),
    /// The write was not applied: there is no room for it. Reads go on.
    #[error("no space left for the store: {0}")]
    NoSpace(String),
    /// It is not known whether a write was applied (connection lost, shutting down).
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The data is damaged or of another format.
    #[error("the store's data cannot be used: {0}")]
    Corrupt(String),
}

pub type Result<T> = std::result::Result<T, Error>;

pub trait Store: Send + Sync + 'static {
    /// The newest revision that a linearizable read would see.
    fn revision(&self) -> BoxFuture<'_, Result<Revision>>;
    /// The newest value, and the revision of the read. Linearizable.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision)>>;
    /// Linearizable unless a revision is asked for.
    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range>>;
    /// Applies the write and returns its revision. Deleting an absent key with [`Expect::Anything`] is a
    /// [`Error::Conflict`] with `current: None`. A put with the bytes and the lease that are already there is
    /// applied as any other: it is the caller who knows whether something changed.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision>>;
    /// Delivers every change under `prefix` after revision `after` to the sink, then those to come. `None`: from now on.
    fn watch(&self, prefix: &str, after: Option<Revision>, sink: Box<dyn Sink>) -> BoxFuture<'_, Result<WatchHandle>>;
    /// Forgets values and events older than `revision`.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>>;
    /// Keys attached to a lease are deleted once `ttl_seconds` have passed without a renewal, as ordinary deletions.
    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId>>;
    fn renew_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>>;
    /// Deletes the lease's keys at once.
    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>>;
    /// Bytes on disk, where there is one.
    fn size_on_disk(&self) -> Option<u64>;
    /// Stops accepting writes, completes those under way, and returns once all is durable.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        let cases = [("a/", "a0"), ("", ""), ("a\u{d7ff}", "a\u{e000}"), ("a\u{10ffff}", "b"), ("\u{10ffff}", "")];
        for (prefix, end) in cases {
            assert_eq!(prefix_end(prefix), end, "{prefix:?}");
        }
    }
}
