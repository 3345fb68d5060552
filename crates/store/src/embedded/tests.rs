//! The embedded store on a real directory.

use bytes::Bytes;

use super::*;
use crate::contract::{Batch, Change, Expect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_the_suite() {
    let root = tempfile::tempdir().unwrap();
    let count = std::sync::atomic::AtomicU32::new(0);
    crate::suite::run(async || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        open(&root.path().join(number.to_string())).await as Arc<dyn Store>
    })
    .await;
}

async fn open(directory: &Path) -> Arc<Embedded> {
    let options = OpenOptions { snapshot_dead_bytes_min: 1 << 16, ..OpenOptions::default() };
    Arc::new(Embedded::open(directory, options).await.unwrap())
}

async fn put(store: &dyn Store, key: &str, value: Bytes, lease: Option<LeaseId>) -> Revision {
    let change = Change::Put { value, lease, note: None };
    store.write(Write { key: key.into(), expect: Expect::Anything, change, guard: None }).await.unwrap()
}

async fn keys(store: &dyn Store) -> Vec<String> {
    let all = store.range(RangeQuery::default()).await.unwrap();
    all.items.iter().map(|item| item.key.to_string()).collect()
}

struct Nobody;

impl Sink for Nobody {
    fn deliver(&mut self, _: &Batch) {}
    fn end(&mut self, _: Error) {}
}

#[tokio::test]
async fn keeps_revision_and_leases_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    let short = store.grant_lease(1).await.unwrap();
    let long = store.grant_lease(1000).await.unwrap();
    put(&*store, "short", "1".into(), Some(short)).await;
    let first = put(&*store, "long", "1".into(), Some(long)).await;
    let last = put(&*store, "plain", "1".into(), None).await;
    store.shutdown().await;
    assert!(matches!(store.revision().await, Ok(revision) if revision == last), "reads go on");
    assert!(store.grant_lease(1).await.is_err());
    drop(store);

    let store = open(directory.path()).await;
    assert_eq!(store.revision().await.unwrap(), last);
    let found = store.get("long").await.unwrap().0.unwrap();
    assert_eq!((found.create_revision, found.mod_revision, found.lease), (first, first, Some(long)));
    let too_old = store.watch("", Some(last - 1), Box::new(Nobody)).await.err().unwrap();
    assert!(matches!(too_old, Error::Compacted { oldest, .. } if oldest == last), "{too_old}");
    store.watch("", Some(last), Box::new(Nobody)).await.unwrap();
    assert!(store.grant_lease(1).await.unwrap() > long, "ids are not given twice");
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(keys(&*store).await, ["long", "plain"], "the short one expired");
    store.renew_lease(long).await.unwrap();
    assert!(store.renew_lease(short).await.is_err());
}

#[tokio::test]
async fn a_second_one_is_told_who_holds_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { holder: "pid 7, listening on x".to_owned(), ..OpenOptions::default() };
    let store = Embedded::open(directory.path(), options).await.unwrap();
    let error = Embedded::open(directory.path(), OpenOptions::default()).await.err().unwrap();
    assert!(error.to_string().contains("in use by pid 7, listening on x"), "{error}");
    drop(store);
    open(directory.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stays_small() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).await;
    for round in 0..4000_u32 {
        let value = Bytes::from(round.to_le_bytes().repeat(250));
        put(&*store, &format!("key{}", round % 20), value, None).await;
    }
    assert!(store.size_on_disk().unwrap() < 1 << 20, "4 MB were written, {:?} are there", store.size_on_disk());
    let size = store.size_on_disk();
    drop(store);
    let files = RealDisk::new(directory.path()).list().unwrap();
    let total: u64 =
        files.iter().filter(|(name, _)| name != "lock" && name != "reserve").map(|(_, length)| length).sum();
    assert!(files.len() <= 8 && total <= size.unwrap() + (1 << 18), "{files:?}");
    // Starting again and again does not pile up files.
    for _ in 0..30 {
        let store = open(directory.path()).await;
        assert_eq!(keys(&*store).await.len(), 20);
        put(&*store, "key0", "1".into(), None).await;
    }
    assert!(RealDisk::new(directory.path()).list().unwrap().len() < 15);
}

#[tokio::test]
async fn backups_go_round() {
    let root = tempfile::tempdir().unwrap();
    let (from, to, file) = (root.path().join("from"), root.path().join("to"), root.path().join("backup"));
    let store = open(&from).await;
    let lease = store.grant_lease(77).await.unwrap();
    for index in 0..2500 {
        put(&*store, &format!("key{index:05}"), Bytes::from(vec![index as u8; 100]), (index == 3).then_some(lease))
            .await;
    }
    let revision = save(&*store, &file).await.unwrap();
    assert_eq!(revision, store.revision().await.unwrap());
    assert!(restore(&file, &from).await.is_err(), "in use");
    assert!(save_directory(&from, &file).await.is_err(), "in use");
    drop(store);
    assert!(restore(&file, &from).await.unwrap_err().to_string().contains("not empty"));

    for live in [true, false] {
        if !live {
            assert_eq!(save_directory(&from, &file).await.unwrap(), revision);
            std::fs::remove_dir_all(&to).unwrap();
        }
        assert_eq!(restore(&file, &to).await.unwrap(), revision + RESTORE_REVISION_JUMP);
        let store = open(&to).await;
        assert_eq!(store.revision().await.unwrap(), revision + RESTORE_REVISION_JUMP);
        let all = store.range(RangeQuery::default()).await.unwrap();
        assert_eq!(all.count, 2500);
        assert!(all.items.iter().enumerate().all(|(index, item)| item.value[..] == vec![index as u8; 100]));
        assert_eq!(all.items[3].lease, Some(lease));
        let ttl = store.inner.core.state.read().leases.list().0;
        assert_eq!(ttl, [(lease, if live { RESTORED_LEASE_TTL_SECONDS } else { 77 })]);
        assert!(put(&*store, "new", "1".into(), None).await > revision + RESTORE_REVISION_JUMP);
    }

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    std::fs::remove_dir_all(&to).unwrap();
    assert!(matches!(restore(&file, &to).await, Err(Error::Corrupt(_))));
    std::fs::write(&file, &bytes[..200]).unwrap();
    assert!(matches!(restore(&file, &to).await, Err(Error::Corrupt(_))));
    assert!(!to.exists(), "a bad backup leaves nothing behind");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join(recover::RESTORING), "").unwrap();
    let error = Embedded::open(&to, OpenOptions::default()).await.err().unwrap();
    assert!(error.to_string().contains("restore again"), "{error}");
}
