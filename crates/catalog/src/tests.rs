//! The cache as watchers and lists see it, fed by hand.

use std::sync::Arc;
use std::time::Duration;

use rkube_kinds::Kind;
use rkube_kinds::custom::Definition;
use rkube_machinery::host::Clock;
use rkube_store::{Batch, Change, Event, EventKind, Expect, KeyValue, Revision, Sink, Store, Write};

use crate::cache::{CacheSink, Shared};
use crate::resource::prefix_of;
use crate::ring::{RING_EVENTS_MAX, RING_EVENTS_MIN};
use crate::*;

const ALL: Limit = Limit { events: usize::MAX, bytes: usize::MAX };

fn kind(name: &str) -> Arc<Kind> {
    rkube_kinds::find("", "v1", name).unwrap().clone()
}

/// A feed of these resources.
fn feed<const N: usize>(names: [&str; N]) -> (CacheSink, [Arc<Resource>; N]) {
    let shared = Arc::new(Shared::new(names.map(kind)));
    let found = names.map(|name| shared.find(&prefix_of(name)).unwrap());
    (CacheSink { shared }, found)
}

/// An object of this name, written or deleted at a revision.
fn event(resource: &Resource, kind: EventKind, name: &str, revision: Revision) -> Event {
    let value = format!(r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"u"}}}}"#);
    let current = KeyValue {
        key: resource.key("default", name).into(),
        value: value.into(),
        create_revision: revision,
        mod_revision: revision,
        lease: None,
        note: None,
    };
    Event { kind, current, previous: None }
}

fn deliver(sink: &mut CacheSink, events: Vec<Event>, revision: Revision) {
    sink.deliver(&Batch { events: events.into(), revision });
}

/// `count` objects, written at the revisions 2 and on, and their deletion all at one revision, which is returned.
fn vanish_together(sink: &mut CacheSink, resource: &Resource, count: u64) -> Revision {
    let name = |index| format!("object-{index:05}");
    let written = (0..count).map(|index| event(resource, EventKind::Put, &name(index), index + 2)).collect();
    deliver(sink, written, count + 1);
    let end = count + 2;
    deliver(sink, (0..count).map(|index| event(resource, EventKind::Delete, &name(index), end)).collect(), end);
    end
}

#[tokio::test]
async fn a_watch_can_stand_inside_a_revision() {
    let (mut sink, [resource]) = feed(["configmaps"]);
    let end = vanish_together(&mut sink, &resource, 900);
    let mut watch = resource.subscribe("", end - 1).unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        let taken = watch.next(Limit { events: 256, ..ALL }).await.unwrap().unwrap();
        assert_eq!((taken.events.len(), watch.revision()), (256, end - 1), "a bookmark is behind what was taken whole");
        names.extend(taken.events.iter().map(|event| event.object.name.clone()));
    }
    let taken = watch.next(Limit { bytes: 1, ..ALL }).await.unwrap().unwrap();
    assert_eq!(taken.events.len(), 1, "the first always fits");
    names.push(taken.events[0].object.name.clone());
    let taken = watch.next(ALL).await.unwrap().unwrap();
    assert_eq!(watch.revision(), end);
    names.extend(taken.events.iter().map(|event| event.object.name.clone()));
    names.dedup();
    assert_eq!(names.len(), 900);
    assert_eq!(resource.subscribe("", end).unwrap().revision(), end);
}

#[tokio::test]
async fn what_is_written_for_all_is_told_apart_inside_a_revision() {
    let (mut sink, [resource]) = feed(["configmaps"]);
    let end = vanish_together(&mut sink, &resource, 4);
    let mut watch = resource.subscribe("", end - 1).unwrap();
    let mut lines = Vec::new();
    for _ in 0..4 {
        let taken = watch.next(Limit { events: 1, ..ALL }).await.unwrap().unwrap();
        let line = || taken.events[0].object.name.as_bytes().to_vec().into();
        lines.push(resource.written("", taken.from, taken.to, line));
    }
    lines.dedup();
    assert_eq!(lines.len(), 4);
}

#[tokio::test]
async fn a_revision_that_is_half_forgotten_is_gone_for_those_before_it_alone() {
    let (mut sink, [resource]) = feed(["configmaps"]);
    let end = RING_EVENTS_MAX as u64;
    let mut before = resource.subscribe("", 0).unwrap();
    let name = |index| format!("object-{index:05}");
    let put = |index: u64| event(&resource, EventKind::Put, &name(index), end);
    deliver(&mut sink, (0..end + 10).map(put).collect(), end);
    let gone = before.next(ALL).await.err().unwrap();
    assert_eq!((gone.requested, gone.oldest), (0, end));
    assert!(resource.subscribe("", end - 1).is_err() && resource.snapshot_at(end - 1).is_err());
    assert_eq!(resource.snapshot_at(end).unwrap().len(), RING_EVENTS_MAX + 10);

    let mut inside = resource.subscribe("", end).unwrap();
    deliver(
        &mut sink,
        (0..3).map(|index| event(&resource, EventKind::Delete, &name(index), end + 1)).collect(),
        end + 1,
    );
    assert_eq!(inside.next(Limit { events: 1, ..ALL }).await.unwrap().unwrap().events[0].object.name, "object-00000");
    // All but the event that it stands before is forgotten: it goes on.
    let count = RING_EVENTS_MAX as u64 - 2;
    deliver(
        &mut sink,
        (0..count).map(|index| event(&resource, EventKind::Put, "x", end + 2 + index)).collect(),
        99_999,
    );
    assert_eq!(inside.next(ALL).await.unwrap().unwrap().events[0].object.name, "object-00001");
}

#[tokio::test]
async fn what_is_too_old_is_forgotten_but_for_the_latest() {
    let (mut sink, [resource]) = feed(["configmaps"]);
    let end = RING_EVENTS_MIN as u64 + 500;
    deliver(&mut sink, (1..=end).map(|at| event(&resource, EventKind::Put, "x", at)).collect(), end);
    let mut watch = resource.subscribe("", 700).unwrap();
    resource.forget(300);
    assert!(resource.subscribe("", 299).is_err() && resource.subscribe("", 300).is_ok());
    resource.forget(end);
    assert!(resource.subscribe("", 499).is_err() && resource.subscribe("", 500).is_ok());
    assert_eq!(watch.next(ALL).await.unwrap().unwrap().events[0].revision, 701);
}

#[test]
fn a_resource_takes_all_of_a_revision_at_once() {
    let (mut sink, [maps, secrets]) = feed(["configmaps", "secrets"]);
    let put = |resource: &Resource, name| event(resource, EventKind::Put, name, 7);
    let watch = maps.subscribe("", 0).unwrap();
    deliver(&mut sink, vec![put(&maps, "a"), put(&secrets, "s"), put(&maps, "b")], 7);
    let (items, revision) = maps.snapshot();
    assert_eq!((items.len(), revision, secrets.count()), (2, 7, 1));
    drop(watch);
}

#[tokio::test]
async fn a_reset_ends_watches_and_no_place_comes_twice() {
    let (mut sink, [resource]) = feed(["configmaps"]);
    deliver(&mut sink, vec![event(&resource, EventKind::Put, "a", 2)], 2);
    let mut watch = resource.subscribe("", 1).unwrap();
    let first = watch.next(ALL).await.unwrap().unwrap();
    resource.reset(Vec::new(), 5);
    assert_eq!(watch.next(ALL).await.err().unwrap().oldest, 5);
    let mut watch = resource.subscribe("", 5).unwrap();
    deliver(&mut sink, vec![event(&resource, EventKind::Put, "a", 6)], 6);
    let second = watch.next(ALL).await.unwrap().unwrap();
    assert!(second.from >= first.to);
}

pub(crate) struct NoTime;

impl Clock for NoTime {
    fn now_micros(&self) -> i64 {
        0
    }
}

#[tokio::test]
async fn a_closed_cache_lets_the_store_go() {
    let store: Arc<dyn Store> = Arc::new(rkube_store::Memory::new());
    let cache = Cache::start(store.clone(), [kind("configmaps")], Arc::new(NoTime)).await.unwrap();
    assert_eq!(cache.watchers_of_the_end(), 1);
    cache.close();
    store.shutdown().await;
    let gone = async {
        while cache.watchers_of_the_end() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Only if it did not stop is this ever reached.
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
}

async fn put(store: &Arc<dyn Store>, key: &str, name: &str) -> Revision {
    let value = format!(r#"{{"metadata":{{"name":"{name}","namespace":"default","uid":"u"}}}}"#);
    let change = Change::Put { value: value.into(), lease: None, note: None };
    store.write(Write { key: key.into(), expect: Expect::Anything, change, guard: None }).await.unwrap()
}

fn alone(kind: Arc<Kind>) -> Definition {
    Definition { stored: kind.clone(), versions: vec![kind], unserved: Vec::new() }
}

#[tokio::test]
async fn kinds_come_and_go() {
    let store: Arc<dyn Store> = Arc::new(rkube_store::Memory::new());
    let catalog = Catalog::start(store.clone(), &[kind("configmaps")], Arc::new(NoTime)).await.unwrap();
    let before = catalog.snapshot();
    assert!(catalog.resource("", "v1", "secrets").is_none());
    put(&store, "/registry/secrets/default/a", "a").await;

    catalog.replace(alone(kind("secrets")), None).await.unwrap();
    let secrets = catalog.resource("", "v1", "secrets").unwrap();
    assert!(secrets.find("default", "a").is_some(), "what was stored before is there");
    let revision = put(&store, "/registry/secrets/default/b", "b").await;
    assert_eq!(secrets.snapshot().1, revision, "what is written later comes");
    assert!(before.find("", "v1", "secrets").is_none(), "a request lives with what it began with");
    assert!(catalog.snapshot().generation > before.generation);

    let mut watch = secrets.subscribe("", revision).unwrap();
    catalog.replace(alone(kind("secrets")), None).await.unwrap();
    assert!(watch.next(ALL).await.unwrap().is_none(), "watches of what was replaced end");
    let secrets = catalog.resource("", "v1", "secrets").unwrap();
    assert_eq!(secrets.count(), 2);

    let mut watch = secrets.subscribe("", revision).unwrap();
    catalog.remove("", "secrets").await;
    assert!(watch.next(ALL).await.unwrap().is_none());
    assert!(catalog.resource("", "v1", "secrets").is_none() && catalog.resource("", "v1", "configmaps").is_some());
    put(&store, "/registry/secrets/default/c", "c").await;
    assert_eq!(secrets.count(), 2, "what is served no more is fed no more");
}

#[test]
fn what_comes_while_a_resource_is_read_is_not_lost() {
    let (sink, [maps]) = feed(["configmaps"]);
    let reached = Arc::default();
    let late = Resource::waiting(kind("configmaps"), reached);
    let changes: Vec<Event> =
        [("a", 4), ("b", 5), ("c", 6)].map(|(name, revision)| event(&maps, EventKind::Put, name, revision)).into();
    late.apply(changes.iter().map(|event| (false, &event.current)));
    late.reset(changes[..2].iter().map(|event| event.current.clone()).collect(), 5);
    let (items, revision) = late.snapshot();
    assert_eq!((items.len(), revision), (3, 6));
    drop(sink);
}
