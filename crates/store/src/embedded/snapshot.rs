//! Writing the live values to a new file, so that the logs before it can go.
//!
//! The writer of a snapshot walks the state in small steps while commits go on, so nobody waits for it. What it
//! writes is therefore not the state at one revision: early keys are older than late ones. That is enough, because
//! the log that was begun before the walk says everything that happened since, and replaying it over the snapshot
//! leads to the same end whatever of it the snapshot already holds.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::disk::{Disk, DiskFile};
use super::format::{FileKind, FrameBuffer, HEADER_LENGTH, Header, Origin};
use super::recover::TEMPORARY;
use super::{log_name, snapshot_name};
use crate::contract::{LeaseId, Revision};
use crate::memory::core::Core;
use crate::memory::state::{Item, Op};

/// At most so many keys are visited while the state's lock is held.
const STEP_ITEMS: usize = 512;
/// A frame is written once it holds so many bytes.
const FRAME_BYTES: usize = 1 << 20;
/// Synced after so many bytes, so that the commits that go on never wait behind one great sync.
const SYNC_BYTES: u64 = 8 << 20;

/// Writes snapshot `number`, which stands for every log before that number, then removes what it replaces. Returns
/// its length. `stop` makes it give up.
pub(crate) fn write_snapshot(disk: &dyn Disk, core: &Core, number: u64, stop: &AtomicBool) -> io::Result<u64> {
    let temporary = format!("{}{TEMPORARY}", snapshot_name(number));
    let written = write_temporary(disk, core, number, &temporary, stop).and_then(|length| {
        disk.rename(&temporary, &snapshot_name(number))?;
        disk.sync_directory()?;
        Ok(length)
    });
    if written.is_err() {
        // If this fails as well, the next start removes it.
        let _ = disk.remove(&temporary);
        return written;
    }
    remove_older(disk, number)?;
    written
}

fn write_temporary(disk: &dyn Disk, core: &Core, number: u64, name: &str, stop: &AtomicBool) -> io::Result<u64> {
    let (revision, (leases, last_lease)) = {
        let state = core.state.read();
        (state.revision, state.leases.list())
    };
    let mut writer = FrameWriter::create(disk, name, FileKind::Snapshot, number, revision, last_lease)?;
    for (id, ttl_seconds) in leases {
        writer.lease(id, ttl_seconds)?;
    }
    let mut last: Option<Arc<str>> = None;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("the store is shutting down"));
        }
        let step = next_step(core, last.as_ref());
        let Some((key, _)) = step.last() else { break };
        last = Some(key.clone());
        for (key, item) in &step {
            writer.item(key, item)?;
        }
    }
    writer.finish()
}

fn next_step(core: &Core, last: Option<&Arc<str>>) -> Vec<(Arc<str>, Item)> {
    let state = core.state.read();
    let start = last.map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
    let rest = state.items.range::<str, _>((start, Bound::Unbounded));
    rest.take(STEP_ITEMS).map(|(key, item)| (key.clone(), item.clone())).collect()
}

fn remove_older(disk: &dyn Disk, number: u64) -> io::Result<()> {
    for (name, _) in disk.list()? {
        let older = |prefix: &str, limit: String| name.starts_with(prefix) && name.len() == limit.len() && name < limit;
        if older("snapshot-", snapshot_name(number)) || older("log-", log_name(number)) {
            disk.remove(&name)?;
        }
    }
    Ok(())
}

/// Writes a snapshot or a backup: a header, frames of items, an end.
pub(crate) struct FrameWriter {
    file: Box<dyn DiskFile>,
    buffer: FrameBuffer,
    number: u64,
    length: u64,
    synced: u64,
    items: u64,
}

impl FrameWriter {
    pub(crate) fn create(
        disk: &dyn Disk,
        name: &str,
        kind: FileKind,
        number: u64,
        revision: Revision,
        last_lease: LeaseId,
    ) -> io::Result<Self> {
        Self::begin(disk.create(name)?, kind, number, revision, last_lease)
    }

    /// `file` is new and empty.
    pub(crate) fn begin(
        mut file: Box<dyn DiskFile>,
        kind: FileKind,
        number: u64,
        revision: Revision,
        last_lease: LeaseId,
    ) -> io::Result<Self> {
        file.append(&Header { kind, number, revision, last_lease, previous_length: 0 }.encode())?;
        Ok(FrameWriter { file, buffer: FrameBuffer::new(), number, length: HEADER_LENGTH, synced: 0, items: 0 })
    }

    pub(crate) fn lease(&mut self, id: LeaseId, ttl_seconds: u64) -> io::Result<()> {
        self.buffer.op(&Op::Grant { id, ttl_seconds });
        self.flush_if(FRAME_BYTES)
    }

    pub(crate) fn item(&mut self, key: &str, item: &Item) -> io::Result<()> {
        self.items += 1;
        self.buffer.item(key, item);
        self.flush_if(FRAME_BYTES)
    }

    /// Makes the file durable, though not its name, and returns its length.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.buffer.end(self.items);
        self.flush_if(0)?;
        self.file.sync()?;
        Ok(self.length)
    }

    fn flush_if(&mut self, more_than: usize) -> io::Result<()> {
        if self.buffer.is_empty() || self.buffer.len() <= more_than {
            return Ok(());
        }
        let frame = self.buffer.finish(Origin::Begun, self.number, self.length);
        self.file.append(frame)?;
        self.length += frame.len() as u64;
        self.buffer.clear(2 * FRAME_BYTES);
        if self.length - self.synced > SYNC_BYTES {
            self.file.sync()?;
            self.synced = self.length;
        }
        Ok(())
    }
}
