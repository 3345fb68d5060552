//! What the suite cannot see: virtual time, notes, sinks that misbehave.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::contract::{Batch, Change, Expect, Note};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_the_suite() {
    crate::suite::run(async || Arc::new(Memory::new()) as Arc<dyn Store>).await;
}

async fn put(store: &Memory, key: &str, lease: Option<LeaseId>, note: Option<Note>) -> Revision {
    let change = Change::Put { value: Bytes::from_static(b"value"), lease, note };
    store.write(Write { key: key.into(), expect: Expect::Anything, change, guard: None }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn leases_expire_in_virtual_time() {
    let store = Memory::new();
    let day = store.grant_lease(24 * 3600).await.unwrap();
    let hour = store.grant_lease(3600).await.unwrap();
    put(&store, "day", Some(day), None).await;
    put(&store, "hour", Some(hour), None).await;
    let there = async |key: &str| store.get(key).await.unwrap().0.is_some();
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert!(there("hour").await);
    store.renew_lease(hour).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert!(there("hour").await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!there("hour").await && there("day").await);
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert!(!there("day").await);
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_with_the_store() {
    let store = Memory::new();
    store.grant_lease(3600).await.unwrap();
    let inner: Weak<Inner> = Arc::downgrade(&store.inner);
    tokio::task::yield_now().await;
    drop(store);
    assert!(inner.upgrade().is_none(), "it holds the store only while it works");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 0);
}

struct Act<F>(F);

impl<F: FnMut(&Batch) + Send + 'static> Sink for Act<F> {
    fn deliver(&mut self, batch: &Batch) {
        (self.0)(batch);
    }

    fn end(&mut self, _: Error) {}
}

#[tokio::test]
async fn notes_go_with_the_commit_and_no_further() {
    let store = Memory::new();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let seen = notes.clone();
    let sink = move |batch: &Batch| {
        seen.lock().extend(batch.events.iter().map(|event| event.current.note.clone()));
    };
    let _watch = store.watch("", None, Box::new(Act(sink.clone()))).await.unwrap();
    let note: Note = Arc::new(17);
    put(&store, "a", None, Some(note.clone())).await;
    assert_eq!(notes.lock()[0].as_ref().unwrap().downcast_ref(), Some(&17));
    notes.lock().clear();
    assert_eq!(Arc::strong_count(&note), 1, "the store keeps none");
    let _replay = store.watch("", Some(1), Box::new(Act(sink))).await.unwrap();
    assert!(notes.lock()[0].is_none());
}

#[tokio::test]
async fn a_sink_may_end_its_own_watch() {
    let store = Memory::new();
    let alive = Arc::new(());
    let slot: Arc<Mutex<Option<WatchHandle>>> = Arc::default();
    let (own, token) = (slot.clone(), alive.clone());
    let sink = move |batch: &Batch| {
        let _token = &token;
        if !batch.events.is_empty() {
            drop(own.lock().take());
        }
    };
    *slot.lock() = Some(store.watch("", None, Box::new(Act(sink))).await.unwrap());
    put(&store, "a", None, None).await;
    assert!(slot.lock().is_none());
    assert_eq!(Arc::strong_count(&alive), 1, "the sink is gone at once");
}

#[tokio::test]
async fn a_dropped_watch_lets_its_sink_go_at_once() {
    let store = Memory::new();
    let alive = Arc::new(());
    let token = alive.clone();
    let sink = move |_: &Batch| {
        let _token = &token;
    };
    drop(store.watch("", None, Box::new(Act(sink))).await.unwrap());
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[tokio::test]
async fn a_sink_that_panics_is_left_out() {
    let store = Memory::new();
    let count = Arc::new(Mutex::new(0));
    let counted = count.clone();
    let bad = |batch: &Batch| assert!(batch.events.is_empty(), "on purpose");
    let _bad = store.watch("", None, Box::new(Act(bad))).await.unwrap();
    let good = move |batch: &Batch| *counted.lock() += batch.events.len();
    let _good = store.watch("", None, Box::new(Act(good))).await.unwrap();
    put(&store, "a", None, None).await;
    put(&store, "b", None, None).await;
    assert_eq!(*count.lock(), 2);
}

#[tokio::test]
async fn shutdown_ends_watches_and_refuses_writes() {
    struct Ended(Arc<Mutex<Option<Error>>>);
    impl Sink for Ended {
        fn deliver(&mut self, _: &Batch) {}
        fn end(&mut self, why: Error) {
            *self.0.lock() = Some(why);
        }
    }
    let store = Memory::new();
    let ended = Arc::new(Mutex::new(None));
    let _watch = store.watch("", None, Box::new(Ended(ended.clone()))).await.unwrap();
    store.shutdown().await;
    assert!(matches!(*ended.lock(), Some(Error::Unavailable(_))));
    let write = Write { key: "a".into(), expect: Expect::Anything, change: Change::Delete, guard: None };
    assert!(matches!(store.write(write).await, Err(Error::Unavailable(_))));
    assert!(store.watch("", None, Box::new(Ended(ended))).await.is_err());
}
