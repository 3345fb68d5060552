//! The embedded store over a disk that forgets: whatever was acknowledged is there after a crash, whatever was not
//! is there whole or not at all.
//!
//! Each writer has its own keys and one write under way at a time, so what a key may hold after a crash is what was
//! last acknowledged or the one write after it that was not.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use super::simulated_disk::{Seed, SimulatedDisk};
use super::*;
use crate::contract::{Change, Expect};

const WRITERS: usize = 6;
const KEYS: usize = 4;

/// What is known of a key: its value, or that it is not there.
type Value = Option<Bytes>;

#[derive(Default, Clone)]
pub(crate) struct Known {
    acknowledged: Value,
    /// Written, and never heard of since.
    unknown: Vec<Value>,
}

pub(crate) type Model = HashMap<String, Known>;

fn options() -> OpenOptions {
    OpenOptions {
        snapshot_dead_bytes_min: 4096,
        reserve_bytes: 4096,
        look_for_room_every: Duration::ZERO,
        ..OpenOptions::default()
    }
}

pub(crate) fn open(disk: &SimulatedDisk) -> Result<Embedded> {
    Embedded::open_on(Arc::new(disk.clone()), None, &options())
}

/// Recognisable bytes, so that a mixture of two values is none.
fn value(seed: &mut Seed) -> Bytes {
    let fill = seed.next() as u8;
    vec![fill; seed.below(700)].into()
}

pub(crate) async fn write_until_it_fails(
    store: &Embedded,
    writer: usize,
    mut seed: Seed,
    mut model: Model,
    rounds: usize,
) -> Model {
    for _ in 0..rounds {
        let key = format!("writer{writer}/key{}", seed.below(KEYS));
        let wanted = if seed.one_in(4) { None } else { Some(value(&mut seed)) };
        let known = model.entry(key.clone()).or_default();
        let change = match wanted.clone() {
            Some(value) => Change::Put { value, lease: None, note: None },
            None => Change::Delete,
        };
        match store.write(Write { key: key.as_str().into(), expect: Expect::Anything, change, guard: None }).await {
            Ok(_) => *known = Known { acknowledged: wanted, unknown: Vec::new() },
            Err(Error::Conflict { current: None }) => {}
            Err(Error::NoSpace(_)) => tokio::task::yield_now().await,
            Err(_) => {
                known.unknown.push(wanted);
                break;
            }
        }
    }
    model
}

/// Checks the store against what is known, and returns what is known now.
pub(crate) async fn check(store: &Embedded, models: Vec<Model>, acknowledged: Revision, context: &str) -> Vec<Model> {
    let revision = store.revision().await.unwrap();
    assert!(revision >= acknowledged, "{context}: revision {acknowledged} was acknowledged, now it is {revision}");
    let all = store.range(RangeQuery::default()).await.unwrap();
    let found: HashMap<_, _> = all.items.iter().map(|item| (item.key.to_string(), item.value.clone())).collect();
    let known_keys: usize =
        models.iter().map(|model| model.keys().filter(|key| found.contains_key(*key)).count()).sum();
    assert_eq!(known_keys, found.len(), "{context}: keys that nobody wrote");
    let mut next = Vec::new();
    for model in models {
        let mut settled = Model::new();
        for (key, known) in model {
            let now = found.get(&key).cloned();
            let may_be = now == known.acknowledged || known.unknown.contains(&now);
            assert!(may_be, "{context}: {key} holds {:?}", now.map(|value| value.len()));
            settled.insert(key, Known { acknowledged: now, unknown: Vec::new() });
        }
        next.push(settled);
    }
    next
}

async fn run(seed: u64) {
    let mut seed = Seed(seed);
    let mut disk = SimulatedDisk::new();
    let mut models = vec![Model::new(); WRITERS];
    for life in 0..6 {
        let context = format!("life {life} before seed {}", seed.0);
        disk.crash_after(1 + seed.below(160) as u64);
        match seed.below(5) {
            0 => {
                disk.set_capacity(Some(10_000 + seed.below(20_000)));
                if seed.one_in(2) {
                    disk.find_out_late();
                }
            }
            1 => disk.fail_syncs(1 + seed.below(3)),
            2 => disk.break_after(seed.below(80) as u64),
            _ => {}
        }
        let mut acknowledged = 0;
        // A crash while it is being opened is one as well.
        if let Ok(store) = open(&disk) {
            let writers = models.iter().enumerate().map(|(writer, model)| {
                let seed = Seed(seed.next());
                write_until_it_fails(&store, writer, seed, model.clone(), 60)
            });
            models = join_all(writers).await;
            acknowledged = store.revision().await.unwrap();
            if seed.one_in(3) {
                store.shutdown().await;
            }
        }
        // Either the machine loses power, or only the process dies and what the kernel buffered stays, for now.
        let capacity = disk.capacity();
        disk = if seed.one_in(2) { disk.after_crash(&mut seed) } else { disk.restarted() };
        // A full disk may still be full. What is read there need not be durable yet: it is once a log could be begun.
        if capacity.is_some() && acknowledged > 0 {
            disk.set_capacity(capacity);
            let store = open(&disk).unwrap_or_else(|error| panic!("{context}: {error}\n{:?}", disk.names()));
            check(&store, models.clone(), acknowledged, &context).await;
            drop(store);
            disk.set_capacity(None);
        }
        let store = open(&disk).unwrap_or_else(|error| panic!("{context}: {error}\n{:?}", disk.names()));
        models = check(&store, models, acknowledged, &context).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive() {
    let seeds = std::env::var("RKUBE_CRASH_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    for seed in 0..seeds {
        run(seed * 1_000_003).await;
    }
}

/// The power goes at each single operation of a history with a snapshot in it.
#[tokio::test]
async fn survives_a_crash_at_every_operation() {
    let whole = SimulatedDisk::new();
    history(&whole).await;
    let operations = whole.operations();
    assert!(whole.names().iter().any(|name| name.starts_with("snapshot-")), "{:?}", whole.names());
    for crash in 0..operations {
        for variant in 0..8 {
            let disk = SimulatedDisk::new();
            disk.crash_after(crash);
            let acknowledged = history(&disk).await;
            let mut seed = Seed(crash * 7 + variant);
            // In half of the cases the process alone dies first, and the power goes while the next one opens.
            let disk = if variant % 2 == 0 {
                disk
            } else {
                let restarted = disk.restarted();
                restarted.crash_after(1 + seed.below(12) as u64);
                drop(open(&restarted));
                restarted
            };
            let disk = disk.after_crash(&mut seed);
            let store =
                open(&disk).unwrap_or_else(|error| panic!("crash {crash}.{variant}: {error} {:?}", disk.names()));
            let revision = store.revision().await.unwrap();
            assert!(revision >= acknowledged, "crash {crash}.{variant}: {revision} < {acknowledged}");
            // Write number n puts n under key n % 5: what is there is what the revision says.
            for item in store.range(RangeQuery::default()).await.unwrap().items {
                let number = item.mod_revision - 1;
                assert_eq!((&*item.key, &item.value[..]), (&*key_of(number), &*value_of(number)));
            }
        }
    }
}

fn key_of(number: u64) -> String {
    format!("key{}", number % 5)
}

pub(crate) fn value_of(number: u64) -> Vec<u8> {
    number.to_string().repeat(100).into_bytes()
}

/// Writes one after the other until the end or the crash; returns the last revision that was acknowledged.
async fn history(disk: &SimulatedDisk) -> Revision {
    let Ok(store) = open(disk) else { return 0 };
    let mut last = 0;
    for number in 1..60 {
        let change = Change::Put { value: value_of(number).into(), lease: None, note: None };
        let write = Write { key: key_of(number).as_str().into(), expect: Expect::Anything, change, guard: None };
        match store.write(write).await {
            Ok(revision) => last = revision,
            Err(_) => break,
        }
    }
    last
}

pub(crate) async fn put(store: &Embedded, key: &str, value: &str) -> Result<Revision> {
    let change = Change::Put { value: Bytes::copy_from_slice(value.as_bytes()), lease: None, note: None };
    store.write(Write { key: key.into(), expect: Expect::Anything, change, guard: None }).await
}

pub(crate) async fn value_at(store: &Embedded, key: &str) -> Option<Bytes> {
    store.get(key).await.unwrap().0.map(|found| found.value)
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    let before = put(&store, "a", "1").await.unwrap();
    disk.set_capacity(Some(200));
    for _ in 0..3 {
        assert!(matches!(put(&store, "a", &"x".repeat(500)).await, Err(Error::NoSpace(_))));
    }
    assert_eq!((value_at(&store, "a").await.unwrap(), store.revision().await.unwrap()), ("1".into(), before));
    disk.set_capacity(None);
    assert_eq!(put(&store, "a", "2").await.unwrap(), before + 1);
    drop(store);
    let store = open(&disk.after_crash(&mut Seed(1))).unwrap();
    assert_eq!(value_at(&store, "a").await.unwrap(), "2");
}

#[tokio::test]
async fn a_file_that_failed_is_not_written_to_again() {
    for (syncs, truncates, capacity) in [(1, 0, None), (2, 0, None), (5, 0, None), (0, 1, Some(180)), (0, 3, Some(180))]
    {
        let disk = SimulatedDisk::new();
        let store = open(&disk).unwrap();
        put(&store, "a", "1").await.unwrap();
        disk.fail_syncs(syncs);
        disk.fail_truncates(truncates);
        disk.set_capacity(capacity);
        assert!(put(&store, "a", &"lost".repeat(40)).await.is_err());
        assert_eq!(value_at(&store, "a").await.unwrap(), "1", "reads go on with what is there");
        disk.set_capacity(None);
        let mut last = 0;
        for attempt in 0..10 {
            if let Ok(revision) = put(&store, "b", &attempt.to_string()).await {
                last = revision;
            }
        }
        assert!(last > 0, "it recovers by itself");
        assert!(disk.names().contains(&log_name(2)), "in a new file");
        drop(store);
        for seed in 0..20 {
            let store = open(&disk.after_crash(&mut Seed(seed))).unwrap();
            assert_eq!(store.revision().await.unwrap(), last);
            assert_eq!(
                (value_at(&store, "a").await.unwrap(), value_at(&store, "b").await.unwrap()),
                ("1".into(), "9".into())
            );
        }
    }
}

/// The process dies between naming a snapshot and syncing the name, and the power goes while the next one tidies up:
/// the old files must not go before the new name is there for good.
#[tokio::test]
async fn tidies_up_only_behind_what_is_durable() {
    let disk = SimulatedDisk::new();
    disk.crash_at_name("snapshot-");
    let acknowledged = history(&disk).await;
    let restarted = disk.restarted();
    let names = restarted.names();
    assert!(names.contains(&snapshot_name(2)) && names.contains(&log_name(1)), "{names:?}");
    for (operations, seed) in (1..8).flat_map(|operations| (0..20).map(move |seed| (operations, seed))) {
        let disk = restarted.copy();
        disk.crash_after(operations);
        drop(open(&disk));
        let disk = disk.after_crash(&mut Seed(seed));
        let store = open(&disk).unwrap_or_else(|error| panic!("{error} {:?}", disk.names()));
        assert!(store.revision().await.unwrap() >= acknowledged);
    }
}
