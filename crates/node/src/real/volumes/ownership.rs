//! Has the files of a volume belong to a pod's group.
//!
//! What holds: nothing outside of the volume is changed, whatever is renamed or linked meanwhile by those who use it
//! already. Every file is held by a descriptor that no link was followed for, and changed by that.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, chownat, fstat, open, openat};

const READ_WRITE: u32 = 0o660;
const READ_ONLY: u32 = 0o440;
const EXECUTE: u32 = 0o110;
const SET_GROUP: u32 = 0o2000;
/// Directories deeper than this are refused: each level holds a descriptor.
const DEPTH_MAX: usize = 200;

/// When files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangePolicy {
    Always,
    /// Only if the volume's own directory is not as it should be.
    OnRootMismatch,
}

/// `read_only`: the group gets no right to write.
pub fn give_to_group(volume: &Path, group: u32, read_only: bool, policy: ChangePolicy) -> io::Result<()> {
    let root = open(volume, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if policy == ChangePolicy::OnRootMismatch && is_right(&root, group, read_only)? {
        return Ok(());
    }
    walk(&root, group, read_only, 0)
}

fn is_right(root: &OwnedFd, group: u32, read_only: bool) -> io::Result<bool> {
    let found = fstat(root)?;
    let wanted = EXECUTE | SET_GROUP | if read_only { READ_ONLY } else { READ_WRITE };
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    Ok(is_directory && found.st_gid == group && found.st_mode & wanted == wanted)
}

/// Children first, so that a root that is right says that all are.
fn walk(entry: &OwnedFd, group: u32, read_only: bool, depth: usize) -> io::Result<()> {
    let found = fstat(entry)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    if kind == FileType::Directory {
        if depth >= DEPTH_MAX {
            return Err(io::Error::other(format!("directories are nested more than {DEPTH_MAX} levels deep")));
        }
        let readable = openat(entry, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for name in Dir::read_from(&readable)? {
            let name = name?;
            if matches!(name.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&readable, name.file_name(), flags, Mode::empty()) {
                Ok(child) => walk(&child, group, read_only, depth + 1)?,
                // It went meanwhile.
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    change(entry, kind, found.st_mode & 0o7777, group, read_only);
    Ok(())
}

/// What cannot be changed is logged, as upstream does: a file system may have no owners.
fn change(entry: &OwnedFd, kind: FileType, mode: u32, group: u32, read_only: bool) {
    if let Err(error) = chownat(entry, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH) {
        tracing::warn!(%error, "a file of a volume cannot be given to the pod's group");
    }
    // The mode of a link means nothing.
    if kind == FileType::Symlink {
        return;
    }
    let mut mode = mode | if read_only { READ_ONLY } else { READ_WRITE };
    if kind == FileType::Directory {
        mode |= EXECUTE | SET_GROUP;
    }
    if let Err(error) = set_mode(entry, mode) {
        tracing::warn!(%error, "the mode of a file of a volume cannot be changed");
    }
}

/// Through the process's own list of descriptors: one that was only looked up cannot be changed otherwise.
fn set_mode(entry: &OwnedFd, mode: u32) -> io::Result<()> {
    let path = descriptor_path(entry);
    Ok(rustix::fs::chmod(path, Mode::from_raw_mode(mode))?)
}

/// A path by which the kernel finds exactly what the descriptor stands for.
pub fn descriptor_path(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
