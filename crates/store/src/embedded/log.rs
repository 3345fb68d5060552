//! The log that is being written: appending frames durably, and moving on to a new file.
//!
//! What holds: `length` bytes of the file are good, and durable if the file is trusted. When an append fails, the file
//! is cut back to them. When that fails too, or when a sync fails, the file is not written to any more: what it holds
//! beyond `length` is anybody's guess, and a later sync that succeeds proves nothing. The next append then begins a
//! new file, whose header says how much of the old one counts; as long as none can be begun, every append fails.
//!
//! A log that was read back from disk is not trusted either. The process before may have died after a sync of its
//! last frame had failed: then the frame can be read, from the kernel's memory, but is not on the disk. So the new file
//! begins with a copy of that frame, and what counts of the old one ends before it.

use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile};
use super::format::{FileKind, FrameBuffer, HEADER_LENGTH, Header, Origin};
use super::log_name;
use super::newest::name_newest;
use super::recover::{LastLog, TEMPORARY};
use crate::contract::{LeaseId, Revision};

pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    /// Where there is a file to be trusted with more.
    file: Option<Box<dyn DiskFile>>,
    number: u64,
    length: u64,
    previous_length: u64,
    /// The log that was last named the newest. Nothing is appended to another.
    named: u64,
    /// The last frame of a log that was read back.
    carried: Option<LastFrame>,
    /// A sync failed, and what it was to make durable may be there after a restart.
    unsure: bool,
}

/// The last frame of a log.
pub(crate) struct LastFrame {
    pub offset: u64,
    pub payload: Vec<u8>,
}

impl Log {
    /// The first log of a directory.
    pub(crate) fn create(disk: Arc<dyn Disk>, revision: Revision, last_lease: LeaseId) -> io::Result<Log> {
        let header = Header { kind: FileKind::Log, number: 1, revision, last_lease, previous_length: 0 };
        let (file, length) = begin_file(&*disk, &header, None)?;
        Ok(Log {
            disk,
            file: Some(file),
            number: 1,
            length,
            previous_length: 0,
            named: 0,
            carried: None,
            unsure: false,
        })
    }

    /// A log that was read back. It must be rotated before anything is appended.
    pub(crate) fn resume(disk: Arc<dyn Disk>, last: LastLog) -> Log {
        let LastLog { number, length, previous_length, last_frame, named } = last;
        Log { disk, file: None, number, length, previous_length, named, carried: last_frame, unsure: false }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether the file can be written to; if not, [`Log::rotate`] is what helps.
    pub(crate) fn is_trusted(&self) -> bool {
        self.file.is_some()
    }

    /// Whether what an append has failed to write may nevertheless be there after a restart.
    pub(crate) fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Appends the frame and makes it durable. After an error it is as if it had not been tried, except that a frame
    /// whose sync failed may be there after a restart if no later append succeeds.
    pub(crate) fn append(&mut self, frame: &mut FrameBuffer) -> io::Result<()> {
        let Some(file) = self.file.as_mut() else {
            return Err(io::Error::other("the log failed before, and no new one could be begun"));
        };
        if self.named != self.number {
            name_newest(&*self.disk, self.number)?;
            self.named = self.number;
        }
        let bytes = frame.finish(Origin::Appended, self.number, self.length);
        if let Err(error) = file.append(bytes) {
            if file.truncate(self.length).is_err() {
                self.file = None;
            }
            return Err(error);
        }
        if let Err(error) = file.sync() {
            self.file = None;
            self.unsure = true;
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Begins a new file. Returns the length of the one before, or 0 if that was empty and was replaced.
    pub(crate) fn rotate(&mut self, revision: Revision, last_lease: LeaseId) -> io::Result<u64> {
        let replaces = self.length == HEADER_LENGTH;
        let counts = self.carried.as_ref().map_or(self.length, |frame| frame.offset);
        let (number, previous_length) =
            if replaces { (self.number, self.previous_length) } else { (self.number + 1, counts) };
        let header = Header { kind: FileKind::Log, number, revision, last_lease, previous_length };
        match begin_file(&*self.disk, &header, self.carried.as_ref()) {
            Ok((file, length)) => {
                let previous = if replaces { 0 } else { self.length };
                self.file = Some(file);
                self.number = number;
                self.length = length;
                self.previous_length = previous_length;
                self.carried = None;
                self.unsure = false;
                Ok(previous)
            }
            Err(error) => {
                // The new file must be known to be gone: if it were found after a crash, its header would cut off
                // what is appended to the old one from now on.
                if replaces || !self.is_gone(number) {
                    self.file = None;
                }
                Err(error)
            }
        }
    }

    /// Removes a log that could not be begun.
    fn is_gone(&self, number: u64) -> bool {
        match self.disk.remove(&log_name(number)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => false,
            _ => self.disk.sync_directory().is_ok(),
        }
    }
}

/// A file gets its name when its beginning is durable: a log never lacks it.
fn begin_file(disk: &dyn Disk, header: &Header, carried: Option<&LastFrame>) -> io::Result<(Box<dyn DiskFile>, u64)> {
    let name = log_name(header.number);
    let temporary = format!("{name}{TEMPORARY}");
    let begun = write_beginning(disk, &temporary, header, carried);
    if begun.is_err() {
        // It would take room on a disk that may have none. If this fails as well, the next attempt replaces it.
        let _ = disk.remove(&temporary);
    }
    let begun = begun?;
    disk.rename(&temporary, &name)?;
    disk.sync_directory()?;
    Ok(begun)
}

fn write_beginning(
    disk: &dyn Disk,
    name: &str,
    header: &Header,
    carried: Option<&LastFrame>,
) -> io::Result<(Box<dyn DiskFile>, u64)> {
    let mut file = disk.create(name)?;
    file.append(&header.encode())?;
    let mut length = HEADER_LENGTH;
    if let Some(frame) = carried {
        let mut copy = FrameBuffer::with_payload(&frame.payload);
        let bytes = copy.finish(Origin::Begun, header.number, length);
        file.append(bytes)?;
        length += bytes.len() as u64;
    }
    file.sync()?;
    Ok((file, length))
}
