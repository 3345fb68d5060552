//! What is not as it should be on disk is told apart from what may be.

use std::sync::Arc;

use bytes::Bytes;

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
    store.write(Write { key: "log".into(), expect: Expect::Anything, change, guard: None }).await.unwrap();
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

/// A directory with a snapshot and several logs, and what it holds.
async fn rich_directory() -> (SimulatedDisk, Vec<(String, Bytes)>) {
    let disk = SimulatedDisk::new();
    // When a snapshot is written, and what it then replaces, is up to its thread: until it has come out so.
    for life in 0..100 {
        let store = open(&disk).unwrap();
        let writes = if life % 3 == 2 { 1 } else { 20 };
        for number in 0..writes {
            put(&store, &format!("key{}", number % 9), &format!("{life} {number} ").repeat(60)).await.unwrap();
        }
        let all = content(&store).await;
        store.shutdown().await;
        let count = |prefix| disk.names().iter().filter(|name| name.starts_with(prefix)).count();
        if life > 3 && count("snapshot-") == 1 && count("log-") > 1 {
            return (disk, all);
        }
    }
    panic!("never a snapshot and two logs");
}

async fn content(store: &Embedded) -> Vec<(String, Bytes)> {
    let all = store.range(RangeQuery::default()).await.unwrap();
    all.items.into_iter().map(|item| (item.key.to_string(), item.value)).collect()
}

fn without(disk: &SimulatedDisk, names: &[&str]) -> SimulatedDisk {
    let copy = disk.after_crash(&mut Seed(0));
    names.iter().for_each(|name| copy.remove(name).unwrap());
    copy
}

#[tokio::test]
async fn a_missing_file_is_missed() {
    let (disk, all) = rich_directory().await;
    // The reserve is nothing but room.
    let names: Vec<_> = disk.names().into_iter().filter(|name| name != reserve::RESERVE).collect();
    let logs: Vec<_> = names.iter().filter(|name| name.starts_with("log-")).collect();
    assert_eq!(content(&open(&without(&disk, &[])).unwrap()).await, all);
    let newest = logs.last().unwrap().as_str();
    let mut losses: Vec<Vec<&str>> = names.iter().map(|name| vec![name.as_str()]).collect();
    losses.push(vec![newest, newest::NEWEST]);
    losses.push(names.iter().map(String::as_str).filter(|name| *name != newest::NEWEST).collect());
    for lost in losses {
        let Err(Error::Corrupt(what)) = open(&without(&disk, &lost)) else {
            panic!("nobody missed {lost:?}");
        };
        assert!(what.contains("missing") && what.contains("backup"), "{what}");
    }
    // The way out for who knows better: what the message says.
    let repaired = without(&disk, &[newest::NEWEST]);
    let what = open(&repaired).err().unwrap().to_string();
    assert!(what.contains(&format!("if {newest} is the newest, write that name into it")), "{what}");
    let mut file = repaired.create(newest::NEWEST).unwrap();
    file.append(newest.as_bytes()).unwrap();
    assert_eq!(content(&open(&repaired).unwrap()).await, all);
    for text in ["", "log-", "log-x", "nonsense", "log-00000000000000ff", "log-0000000000000001", "\u{fffd}"] {
        let damaged = without(&disk, &[]);
        damaged.damage(newest::NEWEST, |bytes| *bytes = text.as_bytes().to_vec());
        assert!(matches!(open(&damaged), Err(Error::Corrupt(_))), "{text:?}");
    }
}

/// A log that nothing was written to holds nothing that could be missed.
#[tokio::test]
async fn an_unused_log_may_go() {
    let (disk, all) = rich_directory().await;
    drop(open(&disk).unwrap());
    let unused = disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    assert_eq!(content(&open(&without(&disk, &[&unused])).unwrap()).await, all);
}

/// Directories of format 1 have no `newest`; they get one with the first write.
#[tokio::test]
async fn goes_on_with_format_1() {
    let disk = SimulatedDisk::new();
    let mut file = disk.create(&log_name(1)).unwrap();
    let mut header =
        format::Header { kind: format::FileKind::Log, number: 1, revision: 1, last_lease: 0, previous_length: 0 }
            .encode();
    header[8..12].copy_from_slice(&1_u32.to_le_bytes());
    let checksum = crc32fast::hash(&header[..44]).to_le_bytes();
    header[44..].copy_from_slice(&checksum);
    let mut length = header.len() as u64;
    file.append(&header).unwrap();
    for number in 2..5 {
        let mut frame = format::FrameBuffer::new();
        let value = number.to_string().into();
        frame.item("a", &crate::memory::state::Item { value, create_revision: 2, mod_revision: number, lease: None });
        let bytes = frame.finish(format::Origin::Begun, 1, length);
        file.append(bytes).unwrap();
        length += bytes.len() as u64;
    }
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    for _ in 0..2 {
        let store = open(&disk).unwrap();
        assert_eq!((value_at(&store, "a").await.unwrap(), store.revision().await.unwrap()), ("4".into(), 4));
        drop(store);
        assert!(!disk.names().contains(&newest::NEWEST.to_owned()));
    }
    put(&open(&disk).unwrap(), "a", "5").await.unwrap();
    let newest = disk.names().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    assert!(matches!(open(&without(&disk, &[&newest])), Err(Error::Corrupt(_))));
    assert_eq!(value_at(&open(&disk).unwrap(), "a").await.unwrap(), "5");
}
