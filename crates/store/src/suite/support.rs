//! What the cases share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::Place;
use crate::contract::{
    Batch, Change, Error, Event, EventKind, Expect, Guard, LeaseId, Range, RangeQuery, Result, Revision, Sink,
    WatchHandle, Write,
};

/// Longer than anything takes that should happen.
const PATIENCE: Duration = Duration::from_secs(20);

impl Place {
    pub(crate) fn key(&self, name: &str) -> Arc<str> {
        format!("{}{name}", self.prefix).into()
    }

    pub(crate) async fn put(&self, name: &str, expect: Expect, value: &str) -> Result<Revision> {
        self.put_bytes(name, expect, Bytes::copy_from_slice(value.as_bytes())).await
    }

    pub(crate) async fn put_bytes(&self, name: &str, expect: Expect, value: Bytes) -> Result<Revision> {
        let change = Change::Put { value, lease: None, note: None };
        self.store.write(Write { key: self.key(name), expect, change, guard: None }).await
    }

    /// Puts a new value if another one is as it was.
    pub(crate) async fn put_guarded(&self, name: &str, guard: &str, revision: Revision) -> Result<Revision> {
        let change = Change::Put { value: Bytes::from_static(b"guarded"), lease: None, note: None };
        let guard = Some(Guard { key: self.key(guard), revision });
        self.store.write(Write { key: self.key(name), expect: Expect::Absent, change, guard }).await
    }

    pub(crate) async fn put_leased(&self, name: &str, lease: LeaseId) -> Result<Revision> {
        let change = Change::Put { value: Bytes::from_static(b"leased"), lease: Some(lease), note: None };
        self.store.write(Write { key: self.key(name), expect: Expect::Anything, change, guard: None }).await
    }

    pub(crate) async fn delete(&self, name: &str, expect: Expect) -> Result<Revision> {
        self.store.write(Write { key: self.key(name), expect, change: Change::Delete, guard: None }).await
    }

    pub(crate) async fn value(&self, name: &str) -> Option<String> {
        let (found, _) = self.store.get(&self.key(name)).await.expect("get");
        found.map(|found| String::from_utf8(found.value.to_vec()).expect("text"))
    }

    /// Names (without the prefix) and values under the prefix.
    pub(crate) async fn contents(&self, revision: Option<Revision>) -> Vec<(String, String)> {
        let query = RangeQuery { revision, ..RangeQuery::prefix(&self.prefix) };
        self.named(&self.store.range(query).await.expect("range"))
    }

    pub(crate) fn named(&self, range: &Range) -> Vec<(String, String)> {
        let name = |key: &str| key.strip_prefix(&self.prefix).expect("under the prefix").to_owned();
        let items = range.items.iter();
        items.map(|item| (name(&item.key), String::from_utf8_lossy(&item.value).into_owned())).collect()
    }

    pub(crate) async fn watch(&self, sub: &str, after: Option<Revision>) -> (Seen, WatchHandle) {
        self.try_watch(sub, after).await.expect("watch")
    }

    pub(crate) async fn try_watch(&self, sub: &str, after: Option<Revision>) -> Result<(Seen, WatchHandle)> {
        let seen = Seen::default();
        let handle = self.store.watch(&self.key(sub), after, Box::new(seen.clone())).await?;
        Ok((seen, handle))
    }
}

/// A sink that remembers.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Record>>);

#[derive(Default)]
struct Record {
    batches: Vec<Batch>,
    ended: Option<Error>,
}

impl Sink for Seen {
    fn deliver(&mut self, batch: &Batch) {
        self.0.lock().batches.push(batch.clone());
    }

    fn end(&mut self, why: Error) {
        let before = self.0.lock().ended.replace(why);
        assert!(before.is_none(), "a watch ended twice");
    }
}

impl Seen {
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().batches.iter().flat_map(|batch| batch.events.iter().cloned()).collect()
    }

    /// "+key" for puts, "-key" for deletions, without the place's prefix.
    pub(crate) fn story(&self, place: &Place) -> Vec<String> {
        let tell = |event: Event| {
            let sign = if matches!(event.kind, EventKind::Put) { '+' } else { '-' };
            format!("{sign}{}", event.current.key.strip_prefix(&place.prefix).expect("under the prefix"))
        };
        self.events().into_iter().map(tell).collect()
    }

    /// How far the watch has come.
    pub(crate) fn revision(&self) -> Revision {
        self.0.lock().batches.last().map_or(0, |batch| batch.revision)
    }

    pub(crate) fn ended(&self) -> Option<Error> {
        self.0.lock().ended.clone()
    }

    /// Batches come in order, events in order within and across them, and no event twice.
    pub(crate) fn check_order(&self) {
        let record = self.0.lock();
        let mut delivered = 0;
        let mut last = (0, String::new());
        for batch in &record.batches {
            for event in batch.events.iter() {
                let here = (event.current.mod_revision, event.current.key.to_string());
                assert!(here.0 > delivered, "{here:?} came after everything up to {delivered} was said to be there");
                assert!(here.0 <= batch.revision, "{here:?} is newer than its batch {}", batch.revision);
                assert!(here.0 >= last.0 && here != last, "{here:?} came after {last:?}");
                last = here;
            }
            assert!(batch.revision >= delivered, "the watch went back");
            delivered = batch.revision;
        }
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A small generator, so that a seed is a whole run.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}
