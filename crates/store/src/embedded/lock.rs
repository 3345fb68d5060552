//! One process per directory.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use super::private;
use crate::contract::{Error, Result};

pub(crate) const LOCK: &str = "lock";
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Holds a directory until it is dropped, or its process ends in whatever way.
pub(crate) struct DirectoryLock {
    file: File,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Said aloud: a child that another thread starts just now holds the file, too, until it runs its program.
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    /// As [`DirectoryLock::acquire`], trying again for about as long as `timeout`.
    pub(crate) fn acquire_within(timeout: Duration, directory: &Path, holder: &str) -> Result<Self> {
        let mut waited = Duration::ZERO;
        loop {
            match DirectoryLock::acquire(directory, holder) {
                Err(Error::Unavailable(_)) if waited < timeout => std::thread::sleep(RETRY_PAUSE),
                other => return other,
            }
            waited += RETRY_PAUSE;
        }
    }

    /// `holder` is what others are told who find the directory locked.
    pub(crate) fn acquire(directory: &Path, holder: &str) -> Result<Self> {
        let path = directory.join(LOCK);
        let unavailable = |error: std::io::Error| Error::Unavailable(format!("{}: {error}", path.display()));
        let mut file = private::open_file(&path).map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Who it is makes the message better, no more.
                let _ = file.read_to_string(&mut text);
                let holder = if text.is_empty() { "another process" } else { text.trim() };
                return Err(Error::Unavailable(format!("{} is in use by {holder}", directory.display())));
            }
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(holder.as_bytes()));
        if let Err(error) = written {
            // On a full disk the store must still open to be read.
            tracing::warn!(path = %path.display(), %error, "could not note who holds the directory");
        }
        Ok(DirectoryLock { file })
    }
}

/// Whether a directory holds nothing but, maybe, a lock.
pub(crate) fn is_unused(directory: &Path) -> std::io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        if name != LOCK && name != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}
