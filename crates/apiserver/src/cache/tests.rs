//! The cache as watchers and lists see it, fed by hand.

use super::ring::RING_EVENTS_MAX;
use super::*;

const ALL: Limit = Limit { events: usize::MAX, bytes: usize::MAX };

fn resource(name: &str) -> Arc<Resource> {
    let kind = rkube_kinds::ALL.iter().find(|kind| kind.resource == name && kind.group.is_empty()).unwrap();
    Arc::new(Resource::new(kind))
}

fn sink(resources: &[&Arc<Resource>]) -> CacheSink {
    let mut resources: Vec<Arc<Resource>> = resources.iter().copied().cloned().collect();
    resources.sort_by(|left, right| left.prefix.cmp(&right.prefix));
    let shared =
        Shared { resources, revision: AtomicU64::new(0), advanced: Notify::new(), ended: watch::Sender::new(0) };
    CacheSink { shared: Arc::new(shared) }
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
    let resource = resource("configmaps");
    let mut sink = sink(&[&resource]);
    let end = vanish_together(&mut sink, &resource, 900);
    let mut watch = resource.subscribe("", end - 1).unwrap();
    let mut names = Vec::new();
    for _ in 0..3 {
        let taken = watch.next(Limit { events: 256, ..ALL }).await.unwrap();
        assert_eq!((taken.events.len(), watch.revision()), (256, end - 1), "a bookmark is behind what was taken whole");
        names.extend(taken.events.iter().map(|event| event.object.name.clone()));
    }
    let taken = watch.next(Limit { bytes: 1, ..ALL }).await.unwrap();
    assert_eq!(taken.events.len(), 1, "the first always fits");
    names.push(taken.events[0].object.name.clone());
    let taken = watch.next(ALL).await.unwrap();
    assert_eq!(watch.revision(), end);
    names.extend(taken.events.iter().map(|event| event.object.name.clone()));
    names.dedup();
    assert_eq!(names.len(), 900);
    assert_eq!(resource.subscribe("", end).unwrap().revision(), end);
}

#[tokio::test]
async fn what_is_written_for_all_is_told_apart_inside_a_revision() {
    let resource = resource("configmaps");
    let mut sink = sink(&[&resource]);
    let end = vanish_together(&mut sink, &resource, 4);
    let mut watch = resource.subscribe("", end - 1).unwrap();
    let mut lines = Vec::new();
    for _ in 0..4 {
        let taken = watch.next(Limit { events: 1, ..ALL }).await.unwrap();
        let line = || taken.events[0].object.name.as_bytes().to_vec().into();
        lines.push(resource.written("", taken.from, taken.to, line));
    }
    lines.dedup();
    assert_eq!(lines.len(), 4);
}

#[tokio::test]
async fn a_revision_that_is_half_forgotten_is_gone_for_those_before_it_alone() {
    let resource = resource("configmaps");
    let mut sink = sink(&[&resource]);
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
    assert_eq!(inside.next(Limit { events: 1, ..ALL }).await.unwrap().events[0].object.name, "object-00000");
    // All but the event that it stands before is forgotten: it goes on.
    let count = RING_EVENTS_MAX as u64 - 2;
    deliver(
        &mut sink,
        (0..count).map(|index| event(&resource, EventKind::Put, "x", end + 2 + index)).collect(),
        99_999,
    );
    assert_eq!(inside.next(ALL).await.unwrap().events[0].object.name, "object-00001");
}

#[test]
fn a_resource_takes_all_of_a_revision_at_once() {
    let (maps, secrets) = (resource("configmaps"), resource("secrets"));
    let mut sink = sink(&[&maps, &secrets]);
    let put = |resource: &Resource, name| event(resource, EventKind::Put, name, 7);
    let watch = maps.subscribe("", 0).unwrap();
    deliver(&mut sink, vec![put(&maps, "a"), put(&secrets, "s"), put(&maps, "b")], 7);
    let (items, revision) = maps.snapshot();
    assert_eq!((items.len(), revision, secrets.count()), (2, 7, 1));
    drop(watch);
}

#[tokio::test]
async fn a_reset_ends_watches_and_no_place_comes_twice() {
    let resource = resource("configmaps");
    let mut sink = sink(&[&resource]);
    deliver(&mut sink, vec![event(&resource, EventKind::Put, "a", 2)], 2);
    let mut watch = resource.subscribe("", 1).unwrap();
    let first = watch.next(ALL).await.unwrap();
    resource.reset(Vec::new(), 5);
    assert_eq!(watch.next(ALL).await.err().unwrap().oldest, 5);
    let mut watch = resource.subscribe("", 5).unwrap();
    deliver(&mut sink, vec![event(&resource, EventKind::Put, "a", 6)], 6);
    let second = watch.next(ALL).await.unwrap();
    assert!(second.from >= first.to);
}

struct NoTime;

impl Clock for NoTime {
    fn now_micros(&self) -> i64 {
        0
    }
}

#[tokio::test]
async fn a_closed_cache_lets_the_store_go() {
    let store: Arc<dyn Store> = Arc::new(rkube_store::Memory::new());
    let cache = Cache::start(store.clone(), vec![resource("configmaps")], Arc::new(NoTime)).await.unwrap();
    assert_eq!(cache.shared.ended.receiver_count(), 1);
    cache.close();
    store.shutdown().await;
    let gone = async {
        while cache.shared.ended.receiver_count() > 0 {
            tokio::time::sleep(REWATCH_DELAY / 10).await;
        }
    };
    // Only if it did not stop is this ever reached.
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
}
