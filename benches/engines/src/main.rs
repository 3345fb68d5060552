//! Which engine fits the store's write pattern: 64 writers at once, values of 1 kB, 100,000 keys, creations, then a
//! mix of overwrites and deletions, every write synced to disk before it is acknowledged, concurrent writes sharing a
//! sync.
//!
//! `cargo run --release [-- DIRECTORY]`; the directory should be on the disk that is meant. Our store is measured
//! whole, through its contract: with its checks, its state in memory and its history. The others get the same queue and
//! the same group commit, and do nothing but write: no compare-and-swap, no revisions, no watch.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rkube_store::embedded::OpenOptions;
use rkube_store::{Change, Embedded, Error, Expect, Store, Write};
use tokio::sync::{mpsc, oneshot};

const WRITERS: usize = 64;
const KEYS: usize = 100_000;
const MIXED: usize = 100_000;
const VALUE_BYTES: usize = 1024;

type Pair = (String, Option<Bytes>);

/// Something that takes writes; `None` deletes.
trait Engine: Send + Sync + 'static {
    fn write(&self, pair: Pair) -> impl Future<Output = ()> + Send;
}

#[tokio::main]
async fn main() {
    let root = std::env::args()
        .nth(1)
        .map_or(std::env::temp_dir(), Into::into);
    println!(
        "| engine | creations/s | p99 | overwrites and deletions/s | p99 | on disk | CPU per write | open again |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let directory = tempfile::tempdir_in(&root).expect("a directory");
    let open = async || {
        Log(Embedded::open(directory.path(), OpenOptions::default())
            .await
            .expect("open"))
    };
    measure("our log", directory.path(), open).await;
    let directory = tempfile::tempdir_in(&root).expect("a directory");
    measure("redb", directory.path(), async || {
        Queue::start(redb_writer(directory.path()))
    })
    .await;
    let directory = tempfile::tempdir_in(&root).expect("a directory");
    measure("fjall", directory.path(), async || {
        Queue::start(fjall_writer(directory.path()))
    })
    .await;
}

async fn measure<E: Engine>(name: &str, directory: &Path, open: impl AsyncFn() -> E) {
    let engine = Arc::new(open().await);
    let cpu = cpu_time();
    let creations = run(&engine, KEYS, |index| (key(index), Some(value(index)))).await;
    let mixed = run(&engine, MIXED, |index| {
        let mixed = (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let (target, action) = ((mixed as usize) % KEYS, (mixed >> 30) % 10);
        (key(target), (action > 0).then(|| value(index)))
    })
    .await;
    let cpu = (cpu_time() - cpu) / (KEYS + MIXED) as u32;
    drop(engine);
    let size = size_of(directory) as f64 / 1e6;
    let begun = Instant::now();
    drop(open().await);
    println!(
        "| {name} | {:.0} | {:.1} ms | {:.0} | {:.1} ms | {size:.0} MB | {} µs | {:.2} s |",
        creations.0,
        creations.1.as_secs_f64() * 1e3,
        mixed.0,
        mixed.1.as_secs_f64() * 1e3,
        cpu.as_micros(),
        begun.elapsed().as_secs_f64()
    );
}

/// Writes per second, and the latency that one in a hundred exceeds.
async fn run<E: Engine>(engine: &Arc<E>, count: usize, make: fn(usize) -> Pair) -> (f64, Duration) {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (engine, next) = (engine.clone(), next.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return latencies;
                    }
                    let begun = Instant::now();
                    engine.write(make(index)).await;
                    latencies.push(begun.elapsed());
                }
            })
        })
        .collect();
    let mut latencies = Vec::with_capacity(count);
    for writer in writers {
        latencies.extend(writer.await.expect("a writer"));
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    latencies.sort_unstable();
    (rate, latencies[count * 99 / 100])
}

fn key(index: usize) -> String {
    format!("/registry/pods/namespace-{:03}/pod-{index:06}", index % 100)
}

fn value(index: usize) -> Bytes {
    let mut state = index as u64 + 1;
    let byte = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        b'a' + (state >> 59) as u8
    };
    (0..VALUE_BYTES).map(byte).collect::<Vec<_>>().into()
}

struct Log(Embedded);

impl Engine for Log {
    async fn write(&self, (key, value): Pair) {
        let change = match value {
            Some(value) => Change::Put {
                value,
                lease: None,
                note: None,
            },
            None => Change::Delete,
        };
        match self
            .0
            .write(Write {
                key: key.into(),
                expect: Expect::Anything,
                change,
            })
            .await
        {
            // What is gone already counts as deleted.
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The queue and the group commit that our store has, in front of another engine.
struct Queue {
    sender: Option<mpsc::Sender<(Pair, oneshot::Sender<()>)>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Queue {
    fn start(mut commit: impl FnMut(&[Pair]) + Send + 'static) -> Self {
        let (sender, mut receiver) = mpsc::channel::<(Pair, oneshot::Sender<()>)>(4096);
        let thread = std::thread::spawn(move || {
            while let Some((pair, reply)) = receiver.blocking_recv() {
                let (mut pairs, mut replies) = (vec![pair], vec![reply]);
                while let Ok((pair, reply)) = receiver.try_recv() {
                    pairs.push(pair);
                    replies.push(reply);
                }
                commit(&pairs);
                for reply in replies {
                    reply.send(()).expect("a writer waits");
                }
            }
        });
        Queue {
            sender: Some(sender),
            thread: Some(thread),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.sender = None;
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

impl Engine for Queue {
    async fn write(&self, pair: Pair) {
        let (reply, answer) = oneshot::channel();
        let sender = self.sender.as_ref().expect("open");
        assert!(sender.send((pair, reply)).await.is_ok());
        answer.await.expect("an answer");
    }
}

fn redb_writer(directory: &Path) -> impl FnMut(&[Pair]) + Send + 'static {
    const TABLE: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("values");
    let database = redb::Database::create(directory.join("redb")).expect("redb");
    move |pairs| {
        let transaction = database.begin_write().expect("begin");
        {
            let mut table = transaction.open_table(TABLE).expect("table");
            for (key, value) in pairs {
                match value {
                    Some(value) => drop(table.insert(key.as_str(), &value[..]).expect("insert")),
                    None => drop(table.remove(key.as_str()).expect("remove")),
                }
            }
        }
        transaction.commit().expect("commit");
    }
}

fn fjall_writer(directory: &Path) -> impl FnMut(&[Pair]) + Send + 'static {
    let database = fjall::Database::builder(directory.join("fjall"))
        .open()
        .expect("fjall");
    let keyspace = database
        .keyspace("values", fjall::KeyspaceCreateOptions::default)
        .expect("keyspace");
    move |pairs| {
        let mut batch = database.batch();
        for (key, value) in pairs {
            match value {
                Some(value) => batch.insert(&keyspace, key.as_str(), &value[..]),
                None => batch.remove(&keyspace, key.as_str()),
            }
        }
        batch.commit().expect("commit");
        database
            .persist(fjall::PersistMode::SyncData)
            .expect("sync");
    }
}

fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries
        .map(|entry| {
            let metadata = entry
                .as_ref()
                .expect("an entry")
                .metadata()
                .expect("metadata");
            if metadata.is_dir() {
                size_of(&entry.expect("an entry").path())
            } else {
                metadata.len()
            }
        })
        .sum()
}

/// User and system time of this process, from the kernel's clock ticks of 10 ms.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(") ").next().unwrap_or_default();
    let ticks: u64 = after_name
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}
