//! A full disk: deletions go on, puts come back when there is room, and nothing that was acknowledged is lost.

use std::os::unix::fs::MetadataExt;

use futures::future::join_all;

use super::crash_tests::{Model, check, open, put, value_at, write_until_it_fails};
use super::reserve::RESERVE;
use super::simulated_disk::{Seed, SimulatedDisk};
use super::*;
use crate::contract::{Change, Expect};

const KEYS: usize = 20;
/// Nothing takes so many attempts; it only guards against hanging.
const ATTEMPTS_MAX: usize = 10_000;

async fn delete(store: &Embedded, key: &str) -> Result<Revision> {
    store.write(Write { key: key.into(), expect: Expect::Anything, change: Change::Delete, guard: None }).await
}

fn key(number: usize) -> String {
    format!("key{number}")
}

/// A store with some keys, and no room.
async fn on_a_full_disk(finds_out_late: bool) -> (SimulatedDisk, Embedded) {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    for number in 0..KEYS {
        put(&store, &key(number), &"v".repeat(500)).await.unwrap();
    }
    if finds_out_late {
        disk.find_out_late();
    }
    disk.fill_up_to(0);
    (disk, store)
}

async fn assert_refused(store: &Embedded) {
    let error = put(store, "new", &"x".repeat(400)).await.unwrap_err();
    assert!(matches!(&error, Error::NoSpace(what) if what.contains("the disk is full") && what.contains("delete")));
    assert!(matches!(store.grant_lease(10).await, Err(Error::NoSpace(_))));
}

#[tokio::test]
async fn deletions_go_on() {
    for finds_out_late in [false, true] {
        let (disk, store) = on_a_full_disk(finds_out_late).await;
        assert_refused(&store).await;
        // A failed sync needs a new log at once.
        assert!(finds_out_late || disk.length(RESERVE) > 0, "it is kept until a deletion needs it");
        delete(&store, "key0").await.unwrap();
        assert_eq!(disk.length(RESERVE), 0);
        assert_refused(&store).await;
        assert!(matches!(delete(&store, "key0").await, Err(Error::Conflict { current: None })));
        drop(store);

        let store = open(&disk).unwrap();
        assert!(value_at(&store, "key0").await.is_none() && value_at(&store, "key1").await.is_some());
        assert_refused(&store).await;
        delete(&store, "key1").await.unwrap();
        drop(store);
        for seed in 0..20 {
            let store = open(&disk.after_crash(&mut Seed(seed))).unwrap();
            assert!(value_at(&store, "key1").await.is_none() && value_at(&store, "key2").await.is_some());
            assert!(value_at(&store, "new").await.is_none(), "it was refused");
        }

        disk.set_capacity(None);
        let store = open(&disk).unwrap();
        put(&store, "new", "1").await.unwrap();
        assert!(disk.length(RESERVE) > 0, "it was taken again");
    }
}

/// The reserve is untouched when the process ends, and the disk is full when the next one begins.
#[tokio::test]
async fn a_start_on_a_full_disk_can_delete() {
    for finds_out_late in [false, true] {
        let (disk, store) = on_a_full_disk(finds_out_late).await;
        drop(store);
        let store = open(&disk).unwrap();
        assert_refused(&store).await;
        for number in 0..5 {
            delete(&store, &key(number)).await.unwrap();
        }
        drop(store);
        let store = open(&disk).unwrap();
        assert_eq!(store.range(RangeQuery::default()).await.unwrap().count, KEYS - 5);
    }
}

#[tokio::test]
async fn the_end_of_a_lease_is_a_deletion() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    let lease = store.grant_lease(1000).await.unwrap();
    let change = Change::Put { value: "1".into(), lease: Some(lease), note: None };
    store.write(Write { key: "a".into(), expect: Expect::Anything, change, guard: None }).await.unwrap();
    disk.fill_up_to(0);
    assert_refused(&store).await;
    store.revoke_lease(lease).await.unwrap();
    assert!(value_at(&store, "a").await.is_none());
}

#[tokio::test]
async fn deletions_do_not_share_the_fate_of_puts() {
    for _ in 0..20 {
        let (_disk, store) = on_a_full_disk(false).await;
        let large = "x".repeat(400);
        let puts = (0..KEYS).map(|number| {
            let (store, large) = (&store, &large);
            async move {
                assert!(matches!(put(store, &format!("new{number}"), large).await, Err(Error::NoSpace(_))));
            }
        });
        let deletions = (0..KEYS).map(|number| {
            let store = &store;
            async move {
                delete(store, &key(number)).await.unwrap();
            }
        });
        tokio::join!(join_all(puts), join_all(deletions));
        assert_eq!(store.range(RangeQuery::default()).await.unwrap().count, 0);
    }
}

#[tokio::test]
async fn what_is_deleted_makes_room() {
    for finds_out_late in [false, true] {
        let (disk, store) = on_a_full_disk(finds_out_late).await;
        assert_refused(&store).await;
        for number in 1..KEYS {
            delete(&store, &key(number)).await.unwrap();
        }
        let mut attempts = 0;
        while put(&store, "new", &"x".repeat(400)).await.is_err() {
            attempts += 1;
            assert!(attempts < ATTEMPTS_MAX, "{:?}", disk.names());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(disk.length(RESERVE) > 0);
        drop(store);
        let store = open(&disk).unwrap();
        assert!(value_at(&store, "new").await.is_some() && value_at(&store, "key0").await.is_some());
        assert_eq!(store.range(RangeQuery::default()).await.unwrap().count, 2);
    }
}

#[tokio::test]
async fn a_disk_too_small_for_a_reserve_is_used_nevertheless() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(3000));
    let store = open(&disk).unwrap();
    put(&store, "a", &"1".repeat(1000)).await.unwrap();
    assert!(put(&store, "b", &"2".repeat(2000)).await.is_err());
    put(&store, "c", &"3".repeat(500)).await.unwrap();
    drop(store);
    let store = open(&disk).unwrap();
    delete(&store, "a").await.unwrap();
    assert!(!disk.names().iter().any(|name| name.starts_with(RESERVE)), "{:?}", disk.names());
}

/// The disk is full from each single operation on, and the power goes at any later one.
#[tokio::test]
async fn a_disk_that_gets_full_at_every_point_loses_nothing() {
    for (capacity, variant) in (300..16_000).step_by(157).flat_map(|capacity| (0..12).map(move |it| (capacity, it))) {
        let mut seed = Seed(capacity as u64 * 31 + variant);
        let context = format!("capacity {capacity}.{variant}");
        let disk = SimulatedDisk::new();
        disk.set_capacity(Some(capacity));
        disk.crash_after(1 + seed.below(250) as u64);
        if variant % 2 == 0 {
            disk.find_out_late();
        }
        let mut models = vec![Model::new()];
        let mut acknowledged = 0;
        if let Ok(store) = open(&disk) {
            models = vec![write_until_it_fails(&store, 0, Seed(seed.next()), Model::new(), 80).await];
            acknowledged = store.revision().await.unwrap();
        }
        let disk = if seed.one_in(2) { disk.after_crash(&mut seed) } else { disk.restarted() };
        // A disk that was full when the first log was to be begun has no store.
        disk.set_capacity((acknowledged > 0).then_some(capacity));
        let store = open(&disk).unwrap_or_else(|error| panic!("{context}: {error} {:?}", disk.names()));
        models = check(&store, models, acknowledged, &context).await;
        let more = models.remove(0);
        let models = vec![write_until_it_fails(&store, 0, Seed(seed.next()), more, 20).await];
        let acknowledged = store.revision().await.unwrap();
        drop(store);
        disk.set_capacity(None);
        let store = open(&disk).unwrap_or_else(|error| panic!("{context}, later: {error} {:?}", disk.names()));
        check(&store, models, acknowledged, &context).await;
        put(&store, "writer0/key0", "there is room").await.unwrap();
    }
}

#[tokio::test]
async fn the_reserve_is_allocated() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join(RESERVE);
    let length = || std::fs::metadata(&path).unwrap().len();
    let store = Embedded::open(root.path(), OpenOptions::default()).await.unwrap();
    assert_eq!(length(), OpenOptions::default().reserve_bytes);
    drop(store);
    // As a copy of the directory may have it.
    std::fs::remove_file(&path).unwrap();
    std::fs::File::create(&path).unwrap().set_len(OpenOptions::default().reserve_bytes).unwrap();
    drop(Embedded::open(root.path(), OpenOptions::default()).await.unwrap());
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (OpenOptions::default().reserve_bytes, 0o600));
    let other = std::fs::File::create(root.path().join("other")).unwrap();
    if rustix::fs::fallocate(&other, rustix::fs::FallocateFlags::empty(), 0, 1).is_ok() {
        assert!(metadata.blocks() * 512 >= metadata.len(), "{} blocks", metadata.blocks());
    }
    let disk = RealDisk::new(root.path());
    disk.allocate(RESERVE, 0).unwrap();
    assert_eq!(length(), 0);
    drop(Embedded::open(root.path(), OpenOptions::default()).await.unwrap());
    assert_eq!(length(), OpenOptions::default().reserve_bytes, "taken again");
}
