//! The state with its locks: what the memory and the embedded backend share.
//!
//! Writers are the backend's concern, and there is one at a time: it stages against [`Core::state`], makes the ops
//! durable where that is its business, and hands them to [`Core::commit`]. Readers take the state's lock for as
//! long as they copy references out of it; nobody holds it during IO.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::history::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, History};
use super::leases::Leases;
use super::state::{Items, Op, State, weight};
use super::watchers::Watchers;
use crate::contract::{Error, Event, KeyValue, LeaseId, Range, RangeQuery, Result, Revision, Sink, WatchHandle};

pub(crate) struct Core {
    pub state: RwLock<State>,
    /// The state's revision, for those who want only that.
    revision: AtomicU64,
    /// Held while a commit is applied and delivered, and while a watch begins: so a watch misses nothing.
    /// Taken before the state's lock.
    watchers: Mutex<Watchers>,
    /// Set by shutdown, under the lock of `watchers`.
    closed: AtomicBool,
    /// Rung when the earliest deadline of a lease may have changed, or the store is closed or gone.
    pub leases_changed: Arc<Notify>,
}

impl Core {
    pub(crate) fn new(items: Items, revision: Revision, leases: Leases) -> Self {
        let bytes = items.iter().map(|(key, item)| weight(key, item)).sum();
        let history = History::new(revision, HISTORY_EVENTS_MAX, HISTORY_BYTES_MAX);
        Core {
            state: RwLock::new(State { items, bytes, revision, history, leases }),
            revision: AtomicU64::new(revision),
            watchers: Mutex::default(),
            closed: AtomicBool::new(false),
            leases_changed: Arc::default(),
        }
    }

    pub(crate) fn empty() -> Self {
        Core::new(Items::new(), 1, Leases::default())
    }

    /// Applies the ops and delivers them. When it returns, the writers may be told.
    pub(crate) fn commit(&self, ops: Vec<Op>, now: Instant) {
        let leases_changed = ops.iter().any(|op| matches!(op, Op::Grant { .. } | Op::Revoke { .. }));
        let mut watchers = self.watchers.lock();
        let (events, revision) = {
            let mut state = self.state.write();
            let events = state.apply(ops, now);
            self.revision.store(state.revision, Ordering::Release);
            (events, state.revision)
        };
        if !events.is_empty() {
            watchers.deliver(events, revision);
        }
        if leases_changed {
            self.leases_changed.notify_one();
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision.load(Ordering::Acquire)
    }

    pub(crate) fn get(&self, key: &str) -> (Option<KeyValue>, Revision) {
        let state = self.state.read();
        (state.get(key), state.revision)
    }

    pub(crate) fn range(&self, query: &RangeQuery) -> Result<Range> {
        self.state.read().range(query)
    }

    pub(crate) fn watch(&self, prefix: &str, after: Option<Revision>, sink: Box<dyn Sink>) -> Result<WatchHandle> {
        let mut watchers = self.watchers.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(closed());
        }
        let (backlog, revision) = self.backlog(prefix, after)?;
        Ok(watchers.add(prefix, sink, backlog, revision))
    }

    pub(crate) fn compact(&self, revision: Revision) -> Result<()> {
        let mut state = self.state.write();
        state.check_revision(revision)?;
        state.history.compact(revision);
        Ok(())
    }

    pub(crate) fn renew_lease(&self, id: LeaseId, now: Instant) -> Result<()> {
        if !self.state.write().leases.renew(id, now) {
            return Err(Error::NoLease(id));
        }
        self.leases_changed.notify_one();
        Ok(())
    }

    /// Ends every watch, now and to come, and the expiry of leases.
    pub(crate) fn close(&self) {
        let mut watchers = self.watchers.lock();
        self.closed.store(true, Ordering::Relaxed);
        watchers.end(&closed());
        self.leases_changed.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn backlog(&self, prefix: &str, after: Option<Revision>) -> Result<(Vec<Event>, Revision)> {
        let state = self.state.read();
        let Some(after) = after else {
            return Ok((Vec::new(), state.revision));
        };
        state.check_revision(after)?;
        let entries = state.history.after(after).filter(|entry| entry.key.starts_with(prefix));
        Ok((entries.map(|entry| entry.event()).collect(), state.revision))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.leases_changed.notify_one();
    }
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("it is shutting down".to_owned())
}
