//! The store on the local disk: the state machine of [`crate::memory`] behind an append-only log.
//!
//! All values are in memory; the disk holds what a restart needs, which is the latest values, the revision and the
//! leases, and no history. After a restart everything older than the revision is too old, and at the revision a
//! watch resumes. Leases begin a restart with their full time to live.
//!
//! # Writing
//!
//! Writers put their write into a bounded queue ([`QUEUE_MAX`], then they wait) and one thread takes all that are
//! queued, checks them in order, appends them as one frame, syncs once, applies, delivers and answers. Reads and
//! [`Store::revision`] never wait for the disk.
//!
//! When the disk refuses (full, broken), the writes of the batch fail with [`Error::NoSpace`] or
//! [`Error::Unavailable`], nothing changes, reads go on, and later writes are tried again. A file on which a sync has
//! failed is never written to again.
//!
//! When the disk is full, puts are refused and deletions go on, out of a reserve of
//! [`OpenOptions::reserve_bytes`] that is allocated beforehand. What they free is had by a snapshot, which needs room
//! for all live values until it is done; so deletions alone make room again if what is left fits into the reserve and
//! what else is free. As soon as there is room for the reserve and a little more, it is taken again and puts are
//! accepted. On a disk too small for a reserve there is none, and every write is tried.
//!
//! When more of the disk is dead than alive, and at least [`OpenOptions::snapshot_dead_bytes_min`], a new log is begun
//! and a thread of its own writes the live values to a snapshot; then the logs before it are removed.
//!
//! # Why a log of our own
//!
//! The write pattern of a cluster, measured by `benches/engines` (64 writers, 100,000 keys, values of 1 kB, every write
//! synced, concurrent writes sharing a sync; 2 busy virtual CPUs, ext4 on a virtual disk; figures compare engines, not
//! machines):
//!
//! | engine | creations/s | p99 | overwrites and deletions/s | p99 | on disk | CPU per write | open again |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | our log | 14285 | 16.1 ms | 13814 | 16.4 ms | 111 MB | 16 µs | 0.23 s |
//! | redb 4.4 | 5774 | 30.1 ms | 3713 | 49.8 ms | 269 MB | 49 µs | 0.04 s |
//! | fjall 3.1 | 4632 | 41.2 ms | 9876 | 56.1 ms | 235 MB | 20 µs | 0.22 s |
//!
//! Our figures are those of the whole store with its checks, state and history, the others' of the engine alone behind
//! the same queue. An engine earns its keep by reading from disk what does not fit into memory; here everything is in
//! memory anyway, for the watch cache, and its trees are only in the way: a commit of ours is one append and one sync.
//! What it costs is a start that reads everything, a quarter of a second for 100 MB. CPU per write includes the
//! benchmark's own work of making keys and values and switching tasks.
//!
//! # On disk
//!
//! A directory holds `lock` (who has it open), `log-N` and `snapshot-N` with `N` as 16 hexadecimal digits, and
//! `*.tmp` for what is being written. Snapshot `N` stands for all logs before `N`; the logs from `N` on, without a
//! gap, are replayed over it. Without a snapshot the logs begin at 1. A file `restoring` means that a restore did
//! not finish. `newest` is a line of text: the name of the newest log that was written to (until the first write there
//! is none), without which a log that is missing at the end would not be missed. `reserve` holds nothing but room; it is
//! empty while the disk is full. Numbers are little-endian.
//!
//! Every file begins with a header of 48 bytes:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0–7 | `rkubelog`, `rkubesnp` or `rkubebak` (a backup) |
//! | 8–11 | version of the format: of logs 2 (1 if an older program wrote it), of the others 1 |
//! | 12–19 | the file's number, as in its name |
//! | 20–27 | the revision when it was begun |
//! | 28–35 | the highest lease id given by then |
//! | 36–43 | of a log: how many bytes of the log before it count; otherwise 0 |
//! | 44–47 | CRC-32 of bytes 0–43 |
//!
//! Frames follow. In a log each is one batch of writes; it is there whole or not at all.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0–3 | `rkF` and the byte 2 if it was appended to a log that `newest` named, otherwise 1 (in version 1: always) |
//! | 4–7 | length of the payload |
//! | 8–11 | CRC-32 of byte 3 if it is 2, the file's number (8 bytes), the frame's offset (8), the length (4) and the payload |
//! | 12– | the payload: records, one after the other |
//!
//! | record | bytes |
//! | --- | --- |
//! | put | 1; revision (8); revision of creation (8); lease or 0 (8); length of the key (4), of the value (4); key; value |
//! | delete | 2; revision (8); length of the key (4); key |
//! | grant of a lease | 3; id (8); time to live in seconds (8) |
//! | end of a lease | 4; id (8) |
//! | end of a snapshot or backup | 5; how many puts it holds (8) |
//!
//! Every start goes on in a new log, which begins with a copy of the last frame of the one before, unless that one is
//! empty. A file gets its name when its beginning is durable.
//!
//! A frame at the end of the newest log that is cut short or fails its checksum was being written when the power
//! went, and does not count. The same anywhere else, or with a good frame behind it, is damage, and refused
//! ([`Error::Corrupt`]); so is a file that is missing, `newest` too. A last frame that was good once and rotted cannot be told from a torn one.

mod backup;
mod committer;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
mod disk;
mod find;
mod format;
mod full_disk;
#[cfg(test)]
mod full_disk_tests;
mod lock;
mod log;
mod newest;
mod private;
mod recover;
mod reserve;
#[cfg(test)]
mod simulated_disk;
mod snapshot;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use self::committer::{Command, Committer, Size};
use self::disk::{Disk, RealDisk};
use self::lock::DirectoryLock;
use self::log::Log;
use self::recover::recover;
use crate::contract::{Error, KeyValue, LeaseId, Range, RangeQuery, Result, Revision, Sink, Store, WatchHandle, Write};
use crate::memory::core::{Core, closed};
use crate::memory::expiry::{Expire, expire_leases};

pub use self::backup::{RESTORE_REVISION_JUMP, RESTORED_LEASE_TTL_SECONDS, restore, save, save_directory};

/// At most so many writes wait for the committer; further writers wait for a place.
pub const QUEUE_MAX: usize = 4096;
/// How far the committer steps back behind the threads that answer requests.
const COMMITTER_NICENESS: i32 = 3;
/// Larger keys and values are refused, so that lengths fit the format with room to spare.
pub const WRITE_BYTES_MAX: usize = 256 << 20;

/// How to open a directory.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Who this is, for whoever finds the directory in use: "pid 17, listening on 127.0.0.1:6443".
    pub holder: String,
    /// Logs are shortened only when so many of their bytes are dead.
    pub snapshot_dead_bytes_min: u64,
    /// How much of the disk is kept for deletions when it is full; 0: nothing. The default has room for the largest
    /// frame that a batch makes, since a start may have to copy one.
    pub reserve_bytes: u64,
    /// How often, at most, a store on a full disk looks whether there is room again.
    pub look_for_room_every: Duration,
    /// Whether writes wait for the disk. Without it they survive the end of the process, not that of the machine.
    pub is_synced: bool,
    /// How long to wait for whoever holds the directory to let go of it.
    pub lock_timeout: Duration,
}

impl Default for OpenOptions {
    fn default() -> Self {
        let holder = format!("pid {}", std::process::id());
        OpenOptions {
            holder,
            snapshot_dead_bytes_min: 16 << 20,
            reserve_bytes: 8 << 20,
            look_for_room_every: Duration::from_secs(1),
            is_synced: true,
            lock_timeout: Duration::ZERO,
        }
    }
}

/// The store in a directory of the local disk.
pub struct Embedded {
    inner: Arc<Inner>,
    size: Arc<Size>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

struct Inner {
    core: Arc<Core>,
    queue: mpsc::Sender<Command>,
    /// Told when the committer is gone and the directory is free.
    stopped: futures::future::Shared<BoxFuture<'static, ()>>,
}

impl Embedded {
    /// Opens the directory, which is created if need be. Must be called on a tokio runtime; the reading is done on
    /// its blocking threads.
    pub async fn open(directory: impl AsRef<Path>, options: OpenOptions) -> Result<Embedded> {
        let directory = directory.as_ref().to_owned();
        let opened = tokio::task::spawn_blocking(move || open_directory(&directory, options)).await;
        opened.map_err(|error| Error::Unavailable(format!("opening failed: {error}")))?
    }

    /// Must be called on a tokio runtime, which will run the expiry of leases.
    fn open_on(disk: Arc<dyn Disk>, lock: Option<DirectoryLock>, options: &OpenOptions) -> Result<Embedded> {
        let mut recovered = recover(&*disk)?;
        let opening = |error| io_error("opening the log", error);
        if !recovered.obsolete.is_empty() {
            // The process before may have died between a rename and its sync: what replaces the old files must be
            // durable before they go.
            disk.sync_directory().map_err(opening)?;
        }
        for name in &recovered.obsolete {
            disk.remove(name).map_err(opening)?;
        }
        let last_lease = recovered.last_lease;
        let log = match recovered.log.take() {
            None => Log::create(disk.clone(), recovered.revision, last_lease).map_err(opening)?,
            Some(last) => Log::resume(disk.clone(), last),
        };
        let leases = recovered.begin_leases(Instant::now());
        let core = Arc::new(Core::new(recovered.items, recovered.revision, leases));
        let size = Arc::new(Size::new(recovered.settled_bytes, log.length()));
        let mut committer = Committer::new(core.clone(), disk, log, size.clone(), options);
        committer.begin(recovered.logs);
        let (queue, commands) = mpsc::channel(QUEUE_MAX);
        let (stopped_sender, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("store-committer".to_owned()).spawn(move || {
            // It wakes up often. Where all cores are busy with requests, taking a core from one of them each time costs
            // more than it gains: what waits a little longer is written together. Not being allowed to step back is
            // no failure.
            let _ = rustix::process::nice(COMMITTER_NICENESS);
            committer.run(commands);
            drop(lock);
            drop(stopped_sender);
        });
        let thread = thread.map_err(opening)?;
        let stopped = stopped.map(|_| ()).boxed().shared();
        let inner = Arc::new(Inner { core, queue, stopped });
        tokio::spawn(expire_leases(Arc::downgrade(&inner)));
        Ok(Embedded { inner, size, committer: Mutex::new(Some(thread)) })
    }
}

impl Drop for Embedded {
    /// Waits for the writes under way, so that the directory is free when the store is gone.
    fn drop(&mut self) {
        // Nobody is left to write, so a full queue is one that empties.
        while let Err(mpsc::error::TrySendError::Full(_)) = self.inner.queue.try_send(Command::Shutdown) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let thread = self.committer.lock().take();
        // The last one to drop the store may be a watch's sink, on the very thread that would be waited for.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// Queues a command and waits for its answer.
    async fn ask<T>(&self, command: Command, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        self.queue.send(command).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn end_lease(&self, lease: LeaseId, expired_at: Option<Instant>) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.ask(Command::EndLease { lease, expired_at, now: Instant::now(), reply }, answer).await
    }
}

impl Expire for Inner {
    fn core(&self) -> &Core {
        &self.core
    }

    fn expire(&self, lease: LeaseId, now: Instant) -> BoxFuture<'_, Result<()>> {
        self.end_lease(lease, Some(now)).boxed()
    }
}

impl Store for Embedded {
    fn revision(&self) -> BoxFuture<'_, Result<Revision>> {
        std::future::ready(Ok(self.inner.core.revision())).boxed()
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision)>> {
        async move { Ok(self.inner.core.get(key)) }.boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range>> {
        async move { self.inner.core.range(&query) }.boxed()
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision>> {
        async move {
            check_size(&write)?;
            let (reply, answer) = oneshot::channel();
            self.inner.ask(Command::Write { write, reply }, answer).await
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: Option<Revision>, sink: Box<dyn Sink>) -> BoxFuture<'_, Result<WatchHandle>> {
        let prefix = prefix.to_owned();
        async move { self.inner.core.watch(&prefix, after, sink) }.boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<()>> {
        async move { self.inner.core.compact(revision) }.boxed()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId>> {
        async move {
            let (reply, answer) = oneshot::channel();
            self.inner.ask(Command::Grant { ttl_seconds, now: Instant::now(), reply }, answer).await
        }
        .boxed()
    }

    fn renew_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        async move { self.inner.core.renew_lease(lease, Instant::now()) }.boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<()>> {
        self.inner.end_lease(lease, None).boxed()
    }

    fn size_on_disk(&self) -> Option<u64> {
        Some(self.size.total())
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async move {
            // If it is gone already, so much the better.
            let _ = self.inner.queue.send(Command::Shutdown).await;
            self.inner.stopped.clone().await;
        }
        .boxed()
    }
}

fn open_directory(directory: &PathBuf, options: OpenOptions) -> Result<Embedded> {
    let path = directory.display();
    private::own_directory(directory, recover::is_ours).map_err(|error| io_error(&path.to_string(), error))?;
    let lock = DirectoryLock::acquire_within(options.lock_timeout, directory, &options.holder)?;
    let disk = if options.is_synced { RealDisk::new(directory) } else { RealDisk::unsynced(directory) };
    let disk = Arc::new(disk);
    Embedded::open_on(disk, Some(lock), &options).map_err(|error| match error {
        Error::Corrupt(what) => Error::Corrupt(format!("{path}/{what}")),
        Error::Unavailable(what) => Error::Unavailable(format!("{path}: {what}")),
        other => other,
    })
}

fn check_size(write: &Write) -> Result<()> {
    let value = match &write.change {
        crate::contract::Change::Put { value, .. } => value.len(),
        crate::contract::Change::Delete => 0,
    };
    if write.key.len().saturating_add(value) > WRITE_BYTES_MAX {
        return Err(Error::NoSpace(format!("a value may have up to {WRITE_BYTES_MAX} bytes")));
    }
    Ok(())
}

/// The contract's error for one of the operating system.
fn io_error(what: &str, error: io::Error) -> Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let text = format!("{what}: {error}");
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::NoSpace(text),
        _ => Error::Unavailable(text),
    }
}

fn log_name(number: u64) -> String {
    format!("log-{number:016x}")
}

fn snapshot_name(number: u64) -> String {
    format!("snapshot-{number:016x}")
}
