//! Where things are made before they are complete, and where they go to be removed.
//!
//! A scratch directory is locked by whoever uses it, for as long as the process lives. One that nobody has locked was left
//! by a crash, and goes at the next start.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::bounds::{CHECK_SPACE_EVERY_BYTES, RESERVED_BYTES, RESERVED_SHARE};
use super::error::Doing;
use super::{Error, Result};

/// Below this name in a scratch directory something may be mounted.
pub(super) const MOUNT_NAME: &str = "merged";

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Removed with everything in it when it is dropped.
pub(super) struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// A new directory, below this one.
    pub(super) fn new(parent: &Path) -> Result<Scratch> {
        loop {
            let path = parent.join(format!("{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
            match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o700)) {
                // Of an earlier process with our number.
                Err(Errno::EXIST) => continue,
                other => other.doing(|| format!("make {}", path.display()))?,
            }
            match locked(&path)? {
                Some(lock) => return Ok(Scratch { path, _lock: lock }),
                // Somebody was just clearing up, and took it.
                None => continue,
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a file or directory of the same file system away, to be removed with this one.
    pub(super) fn discard(&self, path: &Path) -> Result<()> {
        let grave = self.path.join(format!("gone-{}", COUNTER.fetch_add(1, Ordering::Relaxed)));
        match rustix::fs::rename(path, &grave) {
            Err(Errno::NOENT) => Ok(()),
            other => other.doing(|| format!("remove {}", path.display())),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = clear(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a scratch directory was not removed");
        }
    }
}

/// Removes what processes that are gone have left.
pub(super) fn clear_abandoned(parent: &Path) -> Result<()> {
    for entry in std::fs::read_dir(parent).doing(|| format!("read {}", parent.display()))? {
        let path = entry.doing(|| format!("read {}", parent.display()))?.path();
        if let Ok(Some(_lock)) = locked(&path) {
            clear(&path)?;
        }
    }
    Ok(())
}

/// None: it is another's, or gone.
fn locked(path: &Path) -> Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.doing(|| format!("open {}", path.display()))?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(path.exists().then_some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(Error::Io(format!("lock {}", path.display()), error.into())),
    }
}

fn clear(path: &Path) -> Result<()> {
    let mounted = path.join(MOUNT_NAME);
    if mounted.exists() {
        // Not mounted: nothing to do.
        let _ = rustix::mount::unmount(&mounted, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
    crate::remove_tree(path).doing(|| format!("remove {}", path.display()))
}

/// How much may still be written to a file system.
pub(super) struct Space {
    path: PathBuf,
    unchecked: u64,
}

impl Space {
    pub(super) fn of(path: &Path) -> Result<Space> {
        let mut space = Space { path: path.to_owned(), unchecked: 0 };
        space.check()?;
        Ok(space)
    }

    /// So much is about to be written.
    pub(super) fn take(&mut self, bytes: u64) -> Result<()> {
        self.unchecked += bytes;
        if self.unchecked >= CHECK_SPACE_EVERY_BYTES {
            self.check()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<()> {
        self.unchecked = 0;
        let figures = rustix::fs::statvfs(&self.path).doing(|| format!("look at {}", self.path.display()))?;
        let reserved = RESERVED_BYTES.min(figures.f_blocks * figures.f_frsize / RESERVED_SHARE);
        if figures.f_bavail * figures.f_frsize < reserved + CHECK_SPACE_EVERY_BYTES {
            let full = io::Error::from(Errno::NOSPC);
            return Err(Error::Io(format!("unpack below {}", self.path.display()), full));
        }
        Ok(())
    }
}
