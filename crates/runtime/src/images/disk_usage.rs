//! How much of the disk a directory takes that containers write to.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::Result;
use super::error::Doing;
use super::unpack::{names, open_directory};

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub bytes: u64,
    pub inodes: u64,
}

/// Adds up what is below a directory, however deep, without leaving its file system, with two open files. Others may
/// change it meanwhile: where the way back up is lost, what was counted so far is the answer.
pub fn disk_usage(directory: &Path) -> Result<Usage> {
    let doing = || format!("measure {}", directory.display());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut current = rustix::fs::open(directory, flags, Mode::empty()).doing(doing)?;
    let mut usage = Usage { bytes: 0, inodes: 1 };
    let stat = rustix::fs::fstat(&current).doing(doing)?;
    usage.bytes += stat.st_blocks as u64 * 512;
    let (device, mut inode) = (stat.st_dev, stat.st_ino);
    let mut pending = vec![(inode, count(current.as_fd(), device, &mut usage).doing(doing)?)];
    while let Some((_, directories)) = pending.last_mut() {
        if let Some(name) = directories.pop() {
            let Ok(next) = open_directory(current.as_fd(), name.to_bytes()) else {
                continue;
            };
            inode = rustix::fs::fstat(&next).doing(doing)?.st_ino;
            let below = count(next.as_fd(), device, &mut usage).doing(doing)?;
            pending.push((inode, below));
            current = next;
            continue;
        }
        pending.pop();
        match pending.last() {
            Some((expected, _)) => match up(&current, *expected) {
                Some(parent) => current = parent,
                None => break,
            },
            None => break,
        }
    }
    Ok(usage)
}

fn up(current: &OwnedFd, expected: u64) -> Option<OwnedFd> {
    let parent = open_directory(current.as_fd(), b"..").ok()?;
    (rustix::fs::fstat(&parent).ok()?.st_ino == expected).then_some(parent)
}

/// Counts what is in one directory, and says which directories are.
fn count(directory: BorrowedFd<'_>, device: u64, usage: &mut Usage) -> rustix::io::Result<Vec<CString>> {
    let mut directories = Vec::new();
    for name in names(directory)? {
        let stat = match rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            other => other?,
        };
        if stat.st_dev != device {
            continue;
        }
        usage.inodes += 1;
        // A file with several names counts once for all of them together.
        usage.bytes += stat.st_blocks as u64 * 512
            / stat.st_nlink.max(1).min(if is_directory(stat.st_mode) { 1 } else { u64::MAX });
        if is_directory(stat.st_mode) {
            directories.push(name);
        }
    }
    Ok(directories)
}

fn is_directory(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::Directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_once_and_links_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let used = || disk_usage(directory.path()).unwrap();
        let empty = used();
        std::fs::create_dir(path("d")).unwrap();
        std::fs::write(path("d/file"), vec![1; 1 << 20]).unwrap();
        let one = used();
        assert!(one.bytes >= empty.bytes + (1 << 20) && one.inodes == empty.inodes + 2, "{one:?} {empty:?}");
        std::fs::hard_link(path("d/file"), path("again")).unwrap();
        std::os::unix::fs::symlink("/usr", path("link")).unwrap();
        assert!(used().bytes < one.bytes + (1 << 18), "{:?} {one:?}", used());
    }

    #[test]
    fn nothing_hides_behind_a_path_that_is_too_long() {
        let directory = tempfile::tempdir().unwrap();
        let mut current = open_directory_at(directory.path());
        let name = "d".repeat(200);
        for _ in 0..100 {
            rustix::fs::mkdirat(&current, &name, Mode::RWXU).unwrap();
            current = open_directory(current.as_fd(), name.as_bytes()).unwrap();
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = rustix::fs::openat(&current, "file", flags, Mode::RUSR).unwrap();
        rustix::io::write(&file, &vec![1; 1 << 20]).unwrap();
        let used = disk_usage(directory.path()).unwrap();
        assert!(used.bytes >= 1 << 20 && used.inodes == 102, "{used:?}");
        crate::remove_tree(&directory.path().join(&name)).unwrap();
    }

    fn open_directory_at(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }
}
