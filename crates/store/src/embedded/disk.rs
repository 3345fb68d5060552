//! The few file operations that the embedded store uses.
//!
//! Everything it does to its directory goes through [`Disk`], so that tests can put a disk below it that loses what
//! was not synced, tears writes, and runs full.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::private;

/// What the number of a file's blocks counts.
const BLOCK_BYTES: u64 = 512;

/// One directory.
pub(crate) trait Disk: Send + Sync + 'static {
    /// The files with their lengths.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>>;
    /// A new, empty file to append to. One of that name is replaced.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file blocks for so many bytes, and takes those beyond from it. Its content means nothing. It is made if
    /// need be; after an error it is as long as it was. Blocks that it gives back can be used at once.
    fn allocate(&self, name: &str, bytes: u64) -> io::Result<()>;
    /// Makes creations, renames and removals durable.
    fn sync_directory(&self) -> io::Result<()>;
}

/// A file that grows at its end.
pub(crate) trait DiskFile: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts off what lies after `length`.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Makes the content durable, though not the file's name.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory of the operating system. Its files are for their owner only.
pub(crate) struct RealDisk {
    directory: PathBuf,
    /// Whether anybody waits for it.
    is_synced: bool,
}

impl RealDisk {
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        RealDisk { directory: directory.into(), is_synced: true }
    }

    /// One that the operating system writes when it likes.
    pub(crate) fn unsynced(directory: impl Into<PathBuf>) -> Self {
        RealDisk { directory: directory.into(), is_synced: false }
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                files.push((name, metadata.len()));
            }
        }
        Ok(files)
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.directory.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.directory.join(name);
        // A new inode: one on which a sync has failed is not to be trusted again.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = private::create_file(&path)?;
        Ok(if self.is_synced { Box::new(file) } else { Box::new(Unsynced(file)) })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn allocate(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = private::open_file(&self.directory.join(name))?;
        let metadata = file.metadata()?;
        let (length, allocated) = (metadata.len(), metadata.blocks() * BLOCK_BYTES);
        if bytes > length.min(allocated)
            && let Err(error) = fill(&file, length, bytes)
        {
            file.set_len(length)?;
            return Err(error);
        }
        if bytes < length {
            file.set_len(bytes)?;
            // File systems with a journal give blocks away again only once it says that they are free.
            file.sync_all()?;
        }
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        if self.is_synced { File::open(&self.directory)?.sync_all() } else { Ok(()) }
    }
}

/// Allocates the file's blocks up to `bytes`. Where the file system cannot do that, zeros are written.
fn fill(mut file: &File, length: u64, bytes: u64) -> io::Result<()> {
    let allocated = retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, bytes));
    match allocated {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
        other => return Ok(other?),
    }
    file.seek(SeekFrom::Start(length))?;
    io::copy(&mut io::repeat(0).take(bytes.saturating_sub(length)), &mut file)?;
    // Some file systems look for blocks only now.
    file.sync_all()
}

impl DiskFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file that nobody waits for.
struct Unsynced(File);

impl DiskFile for Unsynced {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.append(bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.truncate(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
