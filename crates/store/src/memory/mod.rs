//! The store in memory: the state machine that the embedded backend makes durable, by itself.
//!
//! For tests, simulations and clusters that need not outlive their process. Writes are applied by the caller's own
//! task, under one lock; there is no thread, and time is tokio's, so that it runs in virtual time.
//!
//! Bounds: the past is kept as [`HISTORY_EVENTS_MAX`] and [`HISTORY_BYTES_MAX`] say, what is older answers
//! [`Error::Compacted`]. Values are as large as the caller makes them.
//!
//! Beyond the contract: a watch begins with a batch for what lies between `after` and now (maybe empty), before
//! [`Store::watch`] returns; every commit delivers to every watch, with an empty batch where nothing under its
//! prefix changed; notes are delivered with the commit only, not to watches that replay the past. The task that
//! expires leases is started on the runtime of whoever grants the first one.

pub(crate) mod core;
pub(crate) mod expiry;
mod history;
pub(crate) mod leases;
pub(crate) mod stage;
pub(crate) mod state;
mod watchers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::core::{Core, closed};
use self::expiry::{Expire, expire_leases};
use self::stage::Stage;
use crate::contract::{Error, KeyValue, LeaseId, Range, RangeQuery, Result, Revision, Sink, Store, WatchHandle, Write};

pub use self::history::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX};

/// A store that forgets everything with its process.
pub struct Memory {
    inner: Arc<Inner>,
    expiring: AtomicBool,
}

struct Inner {
    core: Core,
    /// Held by the one who writes.
    writing: Mutex<Writing>,
}

#[derive(Default)]
struct Writing {
    closed: bool,
}

impl Memory {
    pub fn new() -> Self {
        let inner = Inner { core: Core::empty(), writing: Mutex::default() };
        Memory { inner: Arc::new(inner), expiring: AtomicBool::new(false) }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Inner {
    fn change<T>(&self, stage: impl FnOnce(&mut Stage) -> Result<T>) -> Result<T> {
        let writing = self.writing.lock();
        if writing.closed {
            return Err(closed());
        }
        let mut staged = Stage::begin(&self.core.state.read());
        let result = stage(&mut staged)?;
        self.core.commit(staged.ops, Instant::now());
        Ok(result)
    }

    fn end_lease(&self, lease: LeaseId, expired_at: Option<Instant>) -> Result<()> {
        self.change(|stage| {
            let keys = self.core.state.write().leases.begin_end(lease, expired_at);
            match keys {
                Some(keys) => stage.end_lease(lease, keys),
                None if expired_at.is_none() => return Err(Error::NoLease(lease)),
                None => {}
            }
            Ok(())
        })
    }
}

impl Expire for Inner {
    fn core(&self) -> &Core {
        &self.core
    }

    fn expire(&self, lease: LeaseId, now: Instant) -> BoxFuture<'_, Result<()>> {
        ready(self.end_lease(lease, Some(now))).boxed()
    }
}

impl Store for Memory {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        ready(Ok(self.inner.core.revision())).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision)>> {
        async move { Ok(self.inner.core.get(key)) }.boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range>> {
        async move { self.inner.core.range(&query) }.boxed()
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision>> {
        async move { self.inner.change(|stage| stage.write(&self.inner.core.state.read(), write)) }.boxed()
    }

    fn watch(&self, prefix: &str, after: Option<Revision>, sink: Box<dyn Sink>) -> BoxFuture<'_, Result<WatchHandle>> {
        let prefix = prefix.to_owned();
        async move { self.inner.core.watch(&prefix, after, sink) }.boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        async move { self.inner.core.compact(revision) }.boxed()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId>> {
        async move {
            if !self.expiring.swap(true, Ordering::Relaxed) {
                tokio::spawn(expire_leases(Arc::downgrade(&self.inner)));
            }
            self.inner.change(|stage| Ok(stage.grant(ttl_seconds)))
        }
        .boxed()
    }

    fn renew_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        async move { self.inner.core.renew_lease(lease, Instant::now()) }.boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        async move { self.inner.end_lease(lease, None) }.boxed()
    }

    fn size_on_disk(&self) -> Option<u64> {
        None
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async move {
            self.inner.writing.lock().closed = true;
            self.inner.core.close();
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
