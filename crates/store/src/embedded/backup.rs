//! Backups: all keys as of one revision in one file with checksums, and the way back.
//!
//! The file is laid out as a snapshot is, see [the module](super). It is written under a temporary name and renamed
//! when it is durable, so a file that has the name is whole. Only its owner can read it. What had the name before is
//! replaced; if that was a symbolic link, what it leads to stays as it is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::disk::{Disk, DiskFile, RealDisk};
use super::format::FileKind;
use super::lock::{DirectoryLock, is_unused};
use super::log::Log;
use super::private;
use super::recover::{RESTORING, Recovered, TEMPORARY, is_ours, read_complete, recover};
use super::snapshot::FrameWriter;
use super::{OpenOptions, io_error, snapshot_name};
use crate::contract::{Error, KeyValue, LeaseId, RangeQuery, Result, Revision, Store};
use crate::memory::state::Item;

/// A restored store is so far ahead of the backup that no client has seen a revision of the lost future.
pub const RESTORE_REVISION_JUMP: Revision = 1_000_000;
/// The time to live of restored leases when the backup was taken from a running store, which does not tell it.
pub const RESTORED_LEASE_TTL_SECONDS: u64 = 3600;

/// Keys that are read at a time.
const PAGE_ITEMS: usize = 1000;
/// So many temporary files may lie about in a directory; with more, no backup is written there.
const TEMPORARY_NAMES_MAX: usize = 100;
/// Pages that wait for the disk; then reading waits.
const PAGES_MAX: usize = 4;

/// Writes a backup of a running store and returns its revision.
pub async fn save(store: &dyn Store, file: impl AsRef<Path>) -> Result<Revision> {
    let mut query = RangeQuery { limit: PAGE_ITEMS, ..RangeQuery::default() };
    let first = store.range(query.clone()).await?;
    let revision = first.revision;
    query.revision = Some(revision);
    let (pages, written) = mpsc::channel(PAGES_MAX);
    let target = Target::new(file.as_ref())?;
    let writer = spawn_blocking(move || write_pages(&target, revision, written));
    let mut next = first;
    let read = loop {
        let more = next.items.last().filter(|_| next.more).map(|last| after(&last.key));
        if pages.send(Page::Items(next.items)).await.is_err() {
            break Ok(()); // The writer failed, and says why.
        }
        let Some(start) = more else {
            // If it is not there to take this, it says why.
            let _ = pages.send(Page::End).await;
            break Ok(());
        };
        query.start = start;
        next = match store.range(query.clone()).await {
            Ok(range) => range,
            Err(error) => break Err(error),
        };
    };
    drop(pages);
    let written = writer.await.map_err(|error| Error::Unavailable(error.to_string()))?;
    read.and(written).map(|()| revision)
}

/// Writes a backup of a directory that no process has open, and returns its revision.
pub async fn save_directory(directory: impl AsRef<Path>, file: impl AsRef<Path>) -> Result<Revision> {
    let directory = directory.as_ref().to_owned();
    let target = Target::new(file.as_ref())?;
    on_blocking_thread(move || {
        if !directory.is_dir() {
            return Err(Error::Unavailable(format!("{} is not a directory", directory.display())));
        }
        let _lock = DirectoryLock::acquire(&directory, &format!("{}, saving a backup", OpenOptions::default().holder))?;
        let mut recovered = recover(&RealDisk::new(&directory))?;
        if recovered.log.is_none() {
            return Err(Error::Unavailable(format!("{} holds no store", directory.display())));
        }
        recovered.begin_leases(tokio::time::Instant::now());
        target.write(recovered.revision, recovered.last_lease, |writer| write_recovered(writer, &recovered))?;
        Ok(recovered.revision)
    })
    .await
}

/// Fills an empty or absent directory from a backup, and returns the revision that the store will begin at: that of
/// the backup and [`RESTORE_REVISION_JUMP`].
pub async fn restore(file: impl AsRef<Path>, directory: impl AsRef<Path>) -> Result<Revision> {
    let (file, directory) = (file.as_ref().to_owned(), directory.as_ref().to_owned());
    on_blocking_thread(move || restore_directory(&file, &directory)).await
}

fn restore_directory(file: &Path, directory: &Path) -> Result<Revision> {
    let mut recovered = read_backup(file)?;
    recovered.revision += RESTORE_REVISION_JUMP;
    let failed = |error| io_error(&directory.display().to_string(), error);
    private::own_directory(directory, is_ours).map_err(failed)?;
    let _lock = DirectoryLock::acquire(directory, &format!("{}, restoring a backup", OpenOptions::default().holder))?;
    if !is_unused(directory).map_err(failed)? {
        return Err(Error::Unavailable(format!(
            "{} is not empty: a backup is only restored into an empty directory",
            directory.display()
        )));
    }
    fill(Arc::new(RealDisk::new(directory)), &recovered).map_err(failed)?;
    Ok(recovered.revision)
}

/// The mark stands from before the first file until after the last: half a store is never taken for one.
pub(crate) fn fill(disk: Arc<dyn Disk>, recovered: &Recovered) -> io::Result<()> {
    disk.create(RESTORING)?.sync()?;
    disk.sync_directory()?;
    let (revision, last_lease) = (recovered.revision, recovered.last_lease);
    let name = snapshot_name(1);
    let mut writer = FrameWriter::create(&*disk, &name, FileKind::Snapshot, 1, revision, last_lease)?;
    write_recovered(&mut writer, recovered)?;
    writer.finish()?;
    Log::create(disk.clone(), revision, last_lease)?;
    disk.sync_directory()?;
    disk.remove(RESTORING)?;
    disk.sync_directory()
}

fn read_backup(file: &Path) -> Result<Recovered> {
    let target = Target::new(file)?;
    let directory = RealDisk::new(&target.directory);
    let length = std::fs::metadata(file).map_err(|error| io_error(&file.display().to_string(), error))?.len();
    let mut recovered = Recovered::new();
    read_complete(&directory, &target.name, length, FileKind::Backup, None, &mut recovered)?;
    let leased = recovered.items.values().filter_map(|item| item.lease);
    for id in leased {
        recovered.leases.entry(id).or_insert(RESTORED_LEASE_TTL_SECONDS);
        recovered.last_lease = recovered.last_lease.max(id);
    }
    Ok(recovered)
}

fn write_recovered(writer: &mut FrameWriter, recovered: &Recovered) -> io::Result<()> {
    let mut leases: Vec<_> = recovered.leases.iter().collect();
    leases.sort_unstable();
    for (id, ttl_seconds) in leases {
        writer.lease(*id, *ttl_seconds)?;
    }
    recovered.items.iter().try_for_each(|(key, item)| writer.item(key, item))
}

enum Page {
    Items(Vec<KeyValue>),
    /// There is no more; without it the reading failed.
    End,
}

fn write_pages(target: &Target, revision: Revision, mut pages: mpsc::Receiver<Page>) -> Result<()> {
    target.write(revision, 0, |writer| {
        loop {
            match pages.blocking_recv() {
                Some(Page::Items(items)) => {
                    for KeyValue { key, value, create_revision, mod_revision, lease, .. } in items {
                        writer.item(&key, &Item { value, create_revision, mod_revision, lease })?;
                    }
                }
                Some(Page::End) => return Ok(()),
                None => return Err(io::Error::other("the store could not be read")),
            }
        }
    })
}

/// Where a backup goes.
struct Target {
    directory: PathBuf,
    name: String,
}

impl Target {
    fn new(file: &Path) -> Result<Self> {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::Unavailable(format!("{} is not the name of a file", file.display())))?;
        let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Target { directory: directory.to_owned(), name: name.to_owned() })
    }

    fn write(
        &self,
        revision: Revision,
        last_lease: LeaseId,
        fill: impl FnOnce(&mut FrameWriter) -> io::Result<()>,
    ) -> Result<()> {
        let disk = RealDisk::new(&self.directory);
        let failed = |error| io_error(&self.directory.join(&self.name).display().to_string(), error);
        let (file, temporary) = self.create_temporary().map_err(failed)?;
        let written = FrameWriter::begin(file, FileKind::Backup, 0, revision, last_lease)
            .and_then(|mut writer| {
                fill(&mut writer)?;
                writer.finish()
            })
            .and_then(|_| {
                disk.rename(&temporary, &self.name)?;
                disk.sync_directory()
            });
        written.map_err(|error| {
            // A half of a backup is of no use to anybody.
            let _ = disk.remove(&temporary);
            failed(error)
        })
    }

    /// A new file beside the target. The directory may be one that others write to: whatever they have put there is
    /// neither opened nor removed.
    fn create_temporary(&self) -> io::Result<(Box<dyn DiskFile>, String)> {
        let mut attempt = 0;
        loop {
            let name = format!(".rkube-backup-{}-{attempt}{TEMPORARY}", std::process::id());
            match private::create_file(&self.directory.join(&name)) {
                Ok(file) => return Ok((Box::new(file), name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < TEMPORARY_NAMES_MAX => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The first key after `key`.
fn after(key: &str) -> String {
    format!("{key}\0")
}

async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(work).await.map_err(|error| Error::Unavailable(error.to_string()))?
}
