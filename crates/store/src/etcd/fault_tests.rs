//! An etcd that others write to, that forgets, that stops, and that cannot be reached.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::compact::{COMPACT_KEY, Round};
use super::tests::Server;
use super::*;
use crate::contract::{Batch, EventKind};

/// Guards against hanging only.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a watch has been told.
#[derive(Clone, Default)]
struct Seen {
    /// The revisions of the events, batch by batch.
    batches: Arc<Mutex<Vec<Vec<Revision>>>>,
    reached: Arc<watch::Sender<Revision>>,
    deleted: Arc<watch::Sender<usize>>,
    ended: Arc<watch::Sender<Option<Error>>>,
}

impl Sink for Seen {
    fn deliver(&mut self, batch: &Batch) {
        let revisions: Vec<_> = batch.events.iter().map(|event| event.current.mod_revision).collect();
        assert!(revisions.is_sorted() && revisions.last().is_none_or(|last| *last <= batch.revision));
        assert!(batch.revision >= *self.reached.borrow());
        if !revisions.is_empty() {
            self.batches.lock().push(revisions);
        }
        let deleted = batch.events.iter().filter(|event| matches!(event.kind, EventKind::Delete)).count();
        self.deleted.send_modify(|count| *count += deleted);
        self.reached.send_replace(batch.revision);
    }

    fn end(&mut self, why: Error) {
        self.ended.send_replace(Some(why));
    }
}

impl Seen {
    async fn reaches(&self, revision: Revision) {
        let mut reached = self.reached.subscribe();
        let waiting = reached.wait_for(|reached| *reached >= revision);
        timeout(PATIENCE, waiting).await.expect("the watch does not get there").unwrap();
    }

    async fn ends(&self) -> Error {
        let mut ended = self.ended.subscribe();
        let waiting = ended.wait_for(Option::is_some);
        timeout(PATIENCE, waiting).await.expect("the watch does not end").unwrap().clone().unwrap()
    }
}

/// Stands before an etcd, and lets nobody through when it is told so.
struct Proxy {
    address: String,
    open: watch::Sender<bool>,
}

impl Proxy {
    async fn start(to: &str) -> Proxy {
        let to: SocketAddr = to.trim_start_matches("http://").parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, to, is_open.clone()));
            }
        });
        Proxy { address, open }
    }
}

async fn forward(mut client: TcpStream, to: SocketAddr, mut is_open: watch::Receiver<bool>) {
    if !*is_open.borrow() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
        _ = is_open.wait_for(|open| !open) => {}
    }
}

fn options(endpoint: &str) -> EtcdOptions {
    // Compaction only where the test asks for it.
    let compaction_interval = Duration::ZERO;
    EtcdOptions { endpoints: vec![endpoint.to_owned()], compaction_interval, ..EtcdOptions::default() }
}

async fn put(store: &Etcd, key: &str, lease: Option<LeaseId>) -> Revision {
    let change = Change::Put { value: "1".into(), lease, note: None };
    store.write(Write { key: key.into(), expect: Expect::Anything, change, guard: None }).await.unwrap()
}

async fn delete(store: &Etcd, key: &str) -> Revision {
    let write = Write { key: key.into(), expect: Expect::Anything, change: Change::Delete, guard: None };
    store.write(write).await.unwrap()
}

/// Somebody else writes to the etcd: what a reader then waits for is reached at once, long before etcd's own notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_is_progress() {
    let Some(server) = Server::start_with("10m") else {
        return;
    };
    let (store, stranger) = (server.connect().await, server.connect().await);
    let seen = Seen::default();
    let _watch = store.watch("/ours/", None, Box::new(seen.clone())).await.unwrap();
    for round in 0..5 {
        put(&stranger, &format!("/theirs/{round}"), None).await;
        seen.reaches(store.revision().await.unwrap()).await;
        delete(&stranger, &format!("/theirs/{round}")).await;
        seen.reaches(store.revision().await.unwrap()).await;
    }
    assert!(seen.batches.lock().is_empty(), "they are not ours");
    let ours = put(&store, "/ours/a", None).await;
    seen.reaches(ours).await;
    assert_eq!(*seen.batches.lock(), [[ours]]);
}

/// While others write, no progress overtakes an event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_overtakes_nothing() {
    let Some(server) = Server::start_with("10m") else {
        return;
    };
    let (store, stranger) = (server.connect().await, server.connect().await);
    let seen = Seen::default();
    let _watch = store.watch("/ours/", None, Box::new(seen.clone())).await.unwrap();
    let ours = async {
        let mut written = Vec::new();
        for round in 0..100 {
            written.push(put(&store, &format!("/ours/{round}"), None).await);
        }
        written
    };
    let theirs = async {
        for round in 0..100 {
            put(&stranger, &format!("/theirs/{round}"), None).await;
        }
    };
    let (written, ()) = tokio::join!(ours, theirs);
    seen.reaches(store.revision().await.unwrap()).await;
    assert_eq!(seen.batches.lock().concat(), written);
}

/// What goes with a lease goes at one revision, and a batch that claims the revision has all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revision_is_never_split() {
    let Some(server) = Server::start() else {
        return;
    };
    let proxy = Proxy::start(&server.client).await;
    let (store, other) = (server.connect_with(&options(&proxy.address)).await, server.connect().await);
    let seen = Seen::default();
    let lease = other.grant_lease(1000).await.unwrap();
    for index in 0..900 {
        put(&other, &format!("/ours/{index}"), Some(lease)).await;
    }
    let start = other.revision().await.unwrap();
    let _watch = store.watch("/ours/", Some(start), Box::new(seen.clone())).await.unwrap();
    other.revoke_lease(lease).await.unwrap();
    seen.reaches(start + 1).await;
    assert_eq!(*seen.batches.lock(), [vec![start + 1; 900]]);

    // The same while the watch catches up.
    let lease = other.grant_lease(1000).await.unwrap();
    for index in 0..900 {
        put(&other, &format!("/ours/{index}"), Some(lease)).await;
    }
    let start = other.revision().await.unwrap();
    seen.reaches(start).await;
    proxy.open.send_replace(false);
    seen.batches.lock().clear();
    other.revoke_lease(lease).await.unwrap();
    proxy.open.send_replace(true);
    seen.reaches(start + 1).await;
    assert_eq!(*seen.batches.lock(), [vec![start + 1; 900]]);
}

/// A long list is read in pages, all of one revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_long_lists_in_pages() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = server.connect_with(&options(&server.client)).await;
    let count = 2 * PAGE_ITEMS + 7;
    let puts = (0..count).map(|index| {
        let store = &store;
        async move { put(store, &format!("/a/{index:05}"), None).await }
    });
    futures::future::join_all(puts).await;
    let revision = store.revision().await.unwrap();
    put(&store, "/a/later", None).await;
    for (limit, asked) in [(0, None), (PAGE_ITEMS + 1, None), (count, Some(revision)), (3, Some(revision))] {
        let query = RangeQuery { limit, revision: asked, ..RangeQuery::prefix("/a/") };
        let all = store.range(query).await.unwrap();
        let total = if asked.is_some() { count } else { count + 1 };
        let expected = if limit == 0 { total } else { limit };
        assert_eq!((all.items.len(), all.count, all.more), (expected, total, expected < total), "limit {limit}");
        assert_eq!(all.revision, asked.unwrap_or(revision + 1));
        assert!(all.items.is_sorted_by(|one, next| one.key < next.key));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_compacts() {
    let Some(server) = Server::start() else {
        return;
    };
    let store = server.connect_with(&options(&server.client)).await;
    let (mut first, mut second) = (Round::default(), Round::default());
    let old = put(&store, "/a", None).await;
    assert_eq!(first.compact(&store.client).await.unwrap(), None, "nothing is known of the past yet");
    assert_eq!(second.compact(&store.client).await.unwrap(), None);
    let before = store.revision().await.unwrap();
    let newer = put(&store, "/a", None).await;
    assert_eq!(first.compact(&store.client).await.unwrap(), Some(before), "up to where it was a round ago");
    assert_eq!(second.compact(&store.client).await.unwrap(), None, "the first was quicker");
    let Err(Error::Compacted { .. }) = store.watch("/", Some(old), Box::new(Seen::default())).await else {
        panic!("the past is still there");
    };
    store.watch("/", Some(newer), Box::new(Seen::default())).await.unwrap();
    // The first one is gone: the second takes over.
    let before = second.compact(&store.client).await.unwrap().expect("its turn");
    assert!(before > newer);
    // Somebody tidied up too much.
    delete(&store, COMPACT_KEY).await;
    for _ in 0..2 {
        second.compact(&store.client).await.unwrap();
    }
    assert!(store.get(COMPACT_KEY).await.unwrap().0.is_some());
}

/// It happens by itself, ends with the store, and a live watch does not mind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compacts_by_itself() {
    let Some(server) = Server::start() else {
        return;
    };
    let compaction_interval = Duration::from_millis(100);
    let store = server.connect_with(&EtcdOptions { compaction_interval, ..options(&server.client) }).await;
    let seen = Seen::default();
    let _watch = store.watch("/", None, Box::new(seen.clone())).await.unwrap();
    let old = put(&store, "/a", None).await;
    put(&store, "/a", None).await;
    let is_gone = async {
        while store.range(RangeQuery { revision: Some(old), ..RangeQuery::prefix("/") }).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, is_gone).await.expect("nothing was compacted");
    seen.reaches(put(&store, "/a", None).await).await;
    assert!(seen.ended.borrow().is_none());
    store.shutdown().await;
    assert!(matches!(seen.ends().await, Error::Unavailable(_)));
    let other = server.connect_with(&options(&server.client)).await;
    // One may have been under way.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (after, _) = other.get(COMPACT_KEY).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (later, _) = other.get(COMPACT_KEY).await.unwrap();
    assert_eq!(later.unwrap().mod_revision, after.unwrap().mod_revision);
}

/// A watch that was away while its past was compacted ends, and its owner reads anew. When the compaction is at the
/// very next revision, etcd before 3.4.34 and 3.5.16 would go on without the deletion there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_behind_a_compaction_ends() {
    let Some(server) = Server::start() else {
        return;
    };
    for writes in [1, 5] {
        let proxy = Proxy::start(&server.client).await;
        let store = server.connect_with(&options(&proxy.address)).await;
        let other = server.connect_with(&options(&server.client)).await;
        let seen = Seen::default();
        let _watch = store.watch("/", None, Box::new(seen.clone())).await.unwrap();
        seen.reaches(put(&store, "/a", None).await).await;
        proxy.open.send_replace(false);
        for _ in 1..writes {
            put(&other, "/a", None).await;
        }
        let deleted = delete(&other, "/a").await;
        other.compact(deleted).await.unwrap();
        put(&other, "/b", None).await;
        proxy.open.send_replace(true);
        assert!(matches!(seen.ends().await, Error::Compacted { oldest, .. } if oldest == deleted));
    }
}

/// Whoever asks an etcd that does not answer is told so, and all goes on when etcd does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_etcd_keeps_nobody() {
    let Some(server) = Server::start() else {
        return;
    };
    let call_timeout = Duration::from_secs(2);
    let store = server.connect_with(&EtcdOptions { call_timeout, ..options(&server.client) }).await;
    let seen = Seen::default();
    let _watch = store.watch("/", None, Box::new(seen.clone())).await.unwrap();
    let lease = store.grant_lease(1000).await.unwrap();
    signal(&server, "-STOP");
    let change = Change::Put { value: "1".into(), lease: None, note: None };
    let write = Write { key: "/a".into(), expect: Expect::Anything, change, guard: None };
    let asked = async {
        tokio::join!(
            async { store.revision().await.is_err() },
            async { store.get("/a").await.is_err() },
            async { store.range(RangeQuery::default()).await.is_err() },
            async { store.write(write).await.is_err() },
            async { store.watch("/", None, Box::new(Seen::default())).await.is_err() },
            async { store.compact(1).await.is_err() },
            async { store.grant_lease(5).await.is_err() },
            async { store.renew_lease(lease).await.is_err() },
            async { store.revoke_lease(lease).await.is_err() },
        )
    };
    let refused = timeout(PATIENCE, asked).await.expect("somebody waits for ever");
    assert_eq!(refused, (true, true, true, true, true, true, true, true, true));
    signal(&server, "-CONT");
    let revision = loop {
        match store.revision().await {
            Ok(revision) => break revision,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    seen.reaches(revision).await;
    seen.reaches(put(&store, "/b", None).await).await;

    signal(&server, "-STOP");
    let stopped = timeout(PATIENCE, store.shutdown()).await;
    signal(&server, "-CONT");
    stopped.expect("the end waits for etcd");
    assert!(matches!(seen.ends().await, Error::Unavailable(_)));
}

fn signal(server: &Server, signal: &str) {
    let process = server.child.id();
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
    // Whoever is told to stop does so a little later, one thread after the other.
    while signal == "-STOP" && !is_stopped(process) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let mut states = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")));
    // The state follows the name, which is in brackets.
    states.all(|state| state.is_ok_and(|state| state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))))
}

/// The end of a store does not wait for an etcd that is being looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_while_it_connects() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let store = server.connect_with(&options(&server.client)).await;
    let seen = Seen::default();
    let _watch = store.watch("/", None, Box::new(seen.clone())).await.unwrap();
    seen.reaches(put(&store, "/a", None).await).await;
    server.kill();
    // Accepts, and never says a word.
    let address = server.client.trim_start_matches("http://");
    let _silent = std::net::TcpListener::bind(address).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    timeout(PATIENCE / 3, store.shutdown()).await.expect("the end waits for etcd");
    assert!(matches!(seen.ends().await, Error::Unavailable(_)));
}
