//! One process per data directory, whatever store it uses: certificates and kubeconfig are its own too.
//!
//! The lock is the kernel's, on `DIR/lock`: it ends with the process, however that ends. The file's text says who
//! holds it, for whoever comes second.

use std::fs::{File, OpenOptions, TryLockError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{} is in use by another rkube ({holder}): stop that one, or choose another directory with --data-dir DIR",
        directory.display()
    )]
    Held { directory: PathBuf, holder: String },
    #[error("{} is a symbolic link: remove it", path.display())]
    Symlink { path: PathBuf },
    #[error("cannot lock {}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// The lock on a data directory, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    pub fn take(directory: &Path) -> Result<Lock, Error> {
        let path = directory.join("lock");
        let failed = |source| Error::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // Whoever can put a link there must not choose the file that is written.
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(&path).map_err(|source| match is_symlink(&path) {
            true => Error::Symlink { path: path.clone() },
            false => failed(source),
        })?;
        match file.try_lock() {
            Ok(()) => {
                let mut lock = Lock { path, file };
                lock.say(&format!("pid {}", std::process::id()));
                Ok(lock)
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(failed)?;
                let holder = if holder.is_empty() { "just starting".to_owned() } else { holder };
                Err(Error::Held { directory: directory.to_owned(), holder })
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// What the next one to come is told: process and address.
    pub fn serving_at(&mut self, url: &str) {
        self.say(&format!("pid {}, {url}", std::process::id()));
    }

    /// Who holds it, for as long as this system runs: no other process can be the same, and whoever holds it next is. So a
    /// control plane that was killed and is started again has at once what was its own. None: that cannot be told.
    pub fn identity(&self, host_name: &str) -> Option<String> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let metadata = self.file.metadata().ok()?;
        let part = |seed: u8| {
            let mut hasher = DefaultHasher::new();
            (seed, boot.trim(), metadata.dev(), metadata.ino(), &self.path).hash(&mut hasher);
            hasher.finish()
        };
        let (high, low) = (part(0), part(1));
        Some(format!(
            "{host_name}_{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 50),
            low & 0xffff_ffff_ffff
        ))
    }

    /// The lock holds without its text: a full disk is no reason not to start.
    fn say(&mut self, text: &str) {
        let write = |file: &mut File| {
            file.rewind()?;
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)
        };
        if let Err(error) = write(&mut self.file) {
            tracing::warn!(path = %self.path.display(), %error, "cannot write who holds the data directory");
        }
    }
}

fn is_symlink(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Said aloud: a child that another thread starts just now holds the file, too, until it runs its program.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_holds_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut lock = Lock::take(directory.path()).unwrap();
        lock.serving_at("https://127.0.0.1:6443");
        let error = Lock::take(directory.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("(pid {}, https://127.0.0.1:6443)", std::process::id())), "{error}");
        drop(lock);
        Lock::take(directory.path()).unwrap();
    }

    #[test]
    fn the_same_again_is_who_held_it_before() {
        let (one, another) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let identity = |directory: &Path| Lock::take(directory).unwrap().identity("host").unwrap();
        assert_eq!(identity(one.path()), identity(one.path()));
        assert_ne!(identity(one.path()), identity(another.path()));
        assert_eq!(identity(one.path()).len(), "host_".len() + 36);
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "precious").unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.path().join("lock")).unwrap();
        let error = Lock::take(directory.path()).unwrap_err();
        assert!(matches!(error, Error::Symlink { .. }), "{error}");
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "precious");
    }
}
