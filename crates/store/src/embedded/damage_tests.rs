//! What is not as it should be on disk is told apart from what may be.

use std::sync::Arc;

use super::crash_tests::{open, put, value_at, value_of};
use super::disk::Disk;
use super::simulated_disk::{Seed, SimulatedDisk};
use super::*;
use crate::contract::{Change, Expect};

#[tokio::test]
async fn tells_damage_from_a_torn_end() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    for number in 0..20 {
        put(&store, &format!("key{number}"), &"value".repeat(20)).await.unwrap();
    }
    drop(store);
    let log = log_name(1);
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let copy = disk.after_crash(&mut Seed(0));
        copy.damage(&log, change);
        open(&copy)
    };
    let length = |store: &Embedded| store.inner.core.range(&RangeQuery::default()).unwrap().count;
    for cut in 1..130 {
        let torn = damaged(&|bytes| bytes.truncate(bytes.len() - cut)).unwrap();
        assert_eq!(length(&torn), 19, "cut by {cut}");
    }
    assert_eq!(length(&damaged(&|bytes| bytes.extend([0; 5000])).unwrap()), 20, "zeros behind the end");
    assert_eq!(length(&damaged(&|bytes| *bytes.last_mut().unwrap() ^= 1).unwrap()), 19, "a torn last write");
    for position in [48, 52, 57, 70, 300, 1000] {
        let Err(Error::Corrupt(what)) = damaged(&|bytes| bytes[position] ^= 0x10) else {
            panic!("damage at {position} was not noticed");
        };
        assert!(what.contains(&log) && what.contains("byte") && what.contains("backup"), "{what}");
    }
    let Err(Error::Corrupt(what)) = damaged(&|bytes| bytes[8] = 9) else { panic!("a newer format was read") };
    assert!(what.contains("format 9") && what.contains("newer"), "{what}");
    assert!(matches!(damaged(&|bytes| bytes[0] = b'x'), Err(Error::Corrupt(_))));
}

#[tokio::test]
async fn a_log_inside_a_value_is_not_taken_for_one() {
    let disk = SimulatedDisk::new();
    let store = open(&disk).unwrap();
    put(&store, "a", "1").await.unwrap();
    put(&store, "b", "2").await.unwrap();
    let mut log = Vec::new();
    io::Read::read_to_end(&mut disk.read(&log_name(1)).unwrap(), &mut log).unwrap();
    let change = Change::Put { value: log.into(), lease: None, note: None };
    store.write(Write { key: "log".into(), expect: Expect::Anything, change }).await.unwrap();
    drop(store);
    let torn = disk.after_crash(&mut Seed(0));
    torn.damage(&log_name(1), |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert!(value_at(&open(&torn).unwrap(), "log").await.is_none());
}

/// A restore that was cut short is not taken for a store.
#[tokio::test]
async fn half_a_restore_is_refused() {
    let mut backup = recover::Recovered::new();
    backup.revision = 1_000_777;
    for number in 0..50 {
        let value = value_of(number).into();
        let item = crate::memory::state::Item { value, create_revision: 2, mod_revision: number + 2, lease: None };
        backup.items.insert(format!("key{number}").into(), item);
    }
    let whole = SimulatedDisk::new();
    backup::fill(Arc::new(whole.clone()), &backup).unwrap();
    for crash in 0..=whole.operations() {
        for variant in 0..10 {
            let disk = SimulatedDisk::new();
            disk.crash_after(crash);
            let filled = backup::fill(Arc::new(disk.clone()), &backup);
            let disk = disk.after_crash(&mut Seed(crash * 100 + variant));
            match open(&disk) {
                Ok(store) => {
                    let revision = store.revision().await.unwrap();
                    let nothing_yet = filled.is_err() && revision == 1;
                    assert!(nothing_yet || (revision, store.inner.core.state.read().items.len()) == (1_000_777, 50));
                }
                Err(Error::Corrupt(what)) => {
                    assert!(filled.is_err() && what.contains("restore"), "{what}")
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
