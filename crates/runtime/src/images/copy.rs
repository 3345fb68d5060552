//! Puts layers into one directory by copying them, where they cannot be stacked.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown,
    fgetxattr, flistxattr, fsetxattr, futimens, linkat, mkdirat, mknodat, openat, readlinkat, statat, symlinkat,
    utimensat,
};
use rustix::io::Errno;

use super::Result;
use super::bounds::MAX_DEPTH;
use super::error::Doing;
use super::scratch::Space;
use super::unpack::{OPAQUE_NAME, OPAQUE_VALUE, is_whiteout, names, open_directory, remove_below};

/// Of all extended attributes of a file: their names, and a value.
const ATTRIBUTE_BYTES: usize = 64 << 10;

/// Copies layers, the highest first in the list, into an empty directory.
pub(super) fn copy_layers(layers: &[PathBuf], target: &Path) -> Result<()> {
    let open = |path: &Path| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).doing(|| format!("open {}", path.display()))
    };
    let root = open(target)?;
    for layer in layers.iter().rev() {
        let from = open(layer)?;
        let mut copy = Copy { root: root.as_fd(), links: HashMap::new(), path: Vec::new(), space: Space::of(target)? };
        copy.directory(&from, &root).doing(|| format!("copy {}", layer.display()))?;
    }
    Ok(())
}

struct Copy<'a> {
    root: BorrowedFd<'a>,
    /// Files with several names, and one of those that they have in the copy.
    links: HashMap<u64, Vec<u8>>,
    /// Where we are, below the root.
    path: Vec<Vec<u8>>,
    space: Space,
}

impl Copy<'_> {
    fn directory(&mut self, from: &OwnedFd, to: &OwnedFd) -> rustix::io::Result<()> {
        for name in names(from.as_fd())? {
            let name = name.to_bytes();
            let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if is_whiteout(&stat) {
                remove(to, name)?;
                continue;
            }
            self.path.push(name.to_vec());
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.below(from, to, name)?,
                FileType::RegularFile => self.file(from, to, name, &stat)?,
                FileType::Symlink => {
                    remove(to, name)?;
                    symlinkat(readlinkat(from, name, Vec::new())?.as_c_str(), to, name)?;
                    named(to, name, &stat)?;
                }
                kind => {
                    remove(to, name)?;
                    mknodat(to, name, kind, Mode::from_raw_mode(stat.st_mode & 0o7777), stat.st_rdev)?;
                    named(to, name, &stat)?;
                }
            }
            self.path.pop();
        }
        attributes(from.as_fd(), to.as_fd(), &rustix::fs::fstat(from)?)
    }

    fn below(&mut self, from: &OwnedFd, to: &OwnedFd, name: &[u8]) -> rustix::io::Result<()> {
        if self.path.len() > MAX_DEPTH {
            return Err(Errno::NAMETOOLONG);
        }
        let source = open_directory(from.as_fd(), name)?;
        let mut value = [0; 1];
        let opaque = fgetxattr(&source, OPAQUE_NAME, &mut value[..]).is_ok() && value == OPAQUE_VALUE;
        let there = statat(to, name, AtFlags::SYMLINK_NOFOLLOW);
        let merges = there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory) && !opaque;
        if !merges {
            remove(to, name)?;
            mkdirat(to, name, Mode::from_raw_mode(0o700))?;
        }
        self.directory(&source, &open_directory(to.as_fd(), name)?)
    }

    fn file(&mut self, from: &OwnedFd, to: &OwnedFd, name: &[u8], stat: &Stat) -> rustix::io::Result<()> {
        remove(to, name)?;
        if let Some(other) = self.links.get(&stat.st_ino) {
            return linkat(self.root, other.as_slice(), to, name, AtFlags::empty());
        }
        if stat.st_nlink > 1 {
            self.links.insert(stat.st_ino, self.path.join(&b'/'));
        }
        self.space.take(stat.st_size as u64).map_err(|_| Errno::NOSPC)?;
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut source = File::from(openat(from, name, flags | OFlags::RDONLY, Mode::empty())?);
        let made = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut target = File::from(openat(to, name, made, Mode::from_raw_mode(0o600))?);
        // The kernel does it, and shares the blocks where it can.
        std::io::copy(&mut source, &mut target).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        attributes(source.as_fd(), target.as_fd(), stat)
    }
}

fn remove(parent: &OwnedFd, name: &[u8]) -> rustix::io::Result<()> {
    remove_below(parent.as_fd(), name).map_err(|_| Errno::IO)
}

/// Owner first: changing it takes bits and attributes away; times last.
fn attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>, stat: &Stat) -> rustix::io::Result<()> {
    fchown(to, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
    fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let mut list = vec![0; ATTRIBUTE_BYTES];
    let length = flistxattr(from, list.as_mut_slice()).unwrap_or(0);
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if name.starts_with(b"trusted.") {
            continue;
        }
        let mut value = vec![0; ATTRIBUTE_BYTES];
        let length = fgetxattr(from, name, value.as_mut_slice())?;
        match fsetxattr(to, name, &value[..length], XattrFlags::empty()) {
            Err(Errno::NOTSUP | Errno::PERM) => {}
            other => other?,
        }
    }
    futimens(to, &times(stat))
}

/// Of what has no content to be opened for.
fn named(parent: &OwnedFd, name: &[u8], stat: &Stat) -> rustix::io::Result<()> {
    let (user, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        rustix::fs::chmodat(parent, name, Mode::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())?;
    }
    utimensat(parent, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)
}

fn times(stat: &Stat) -> Timestamps {
    let modified = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as i64 };
    Timestamps { last_access: modified, last_modification: modified }
}
