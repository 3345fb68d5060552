//! A store that works on threads or files of its own, in virtual time: no time passes while it does.
//!
//! Virtual time goes on when no task of the runtime has anything to do. Of a thread that writes a file the runtime knows
//! nothing: the hours until the next timer would pass while a write is on its way to the disk. So who waits for the store
//! stays awake, and asks it again and again.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use rkube_store::{KeyValue, LeaseId, Range, RangeQuery, Result, Revision, Sink, Store, WatchHandle, Write};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub struct HeldTime(pub Arc<dyn Store>);

fn awake<'a, T: 'a>(mut work: Boxed<'a, T>) -> Boxed<'a, T> {
    Box::pin(poll_fn(move |context| {
        let answer = work.as_mut().poll(context);
        if answer.is_pending() {
            context.waker().wake_by_ref();
        }
        answer
    }))
}

impl Store for HeldTime {
    fn revision(&self) -> Boxed<'_, Result<Revision>> {
        awake(self.0.revision())
    }

    fn get<'a>(&'a self, key: &'a str) -> Boxed<'a, Result<(Option<KeyValue>, Revision)>> {
        awake(self.0.get(key))
    }

    fn range(&self, query: RangeQuery) -> Boxed<'_, Result<Range>> {
        awake(self.0.range(query))
    }

    fn write(&self, write: Write) -> Boxed<'_, Result<Revision>> {
        awake(self.0.write(write))
    }

    fn watch(&self, prefix: &str, after: Option<Revision>, sink: Box<dyn Sink>) -> Boxed<'_, Result<WatchHandle>> {
        awake(self.0.watch(prefix, after, sink))
    }

    fn compact(&self, revision: Revision) -> Boxed<'_, Result<()>> {
        awake(self.0.compact(revision))
    }

    fn grant_lease(&self, ttl_seconds: u64) -> Boxed<'_, Result<LeaseId>> {
        awake(self.0.grant_lease(ttl_seconds))
    }

    fn renew_lease(&self, lease: LeaseId) -> Boxed<'_, Result<()>> {
        awake(self.0.renew_lease(lease))
    }

    fn revoke_lease(&self, lease: LeaseId) -> Boxed<'_, Result<()>> {
        awake(self.0.revoke_lease(lease))
    }

    fn size_on_disk(&self) -> Option<u64> {
        self.0.size_on_disk()
    }

    fn shutdown(&self) -> Boxed<'_, ()> {
        awake(self.0.shutdown())
    }
}
