//! A part of a volume, by a path inside of it.
//!
//! What holds: what is mounted is inside of the volume, also when somebody who can write there changes directories into
//! links at any moment. The kernel resolves the path beneath the volume and fails where a link leads out; what it found
//! is held by a descriptor, and that, not the path, is mounted.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, open, openat, openat2};
use rustix::io::Errno;

use super::ownership::descriptor_path;
use super::{directory, mounts};

/// The kernel gives up where something is renamed meanwhile; then it is asked again, so often.
const TRIES_MAX: usize = 64;

/// Has a part of a volume ready at `target`, and returns that. Directories that are not there are made, with the mode
/// of the volume.
pub fn bind(volume: &Path, path: &str, target: &Path) -> io::Result<PathBuf> {
    let part = open_or_make(volume, path)?;
    let found = fstat(&part)?;
    if mounts::is_mount_point(target)? {
        let there = rustix::fs::lstat(target)?;
        if (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino) {
            return Ok(target.to_owned());
        }
        mounts::take_away(target)?;
    }
    make_target(target, FileType::from_raw_mode(found.st_mode) == FileType::Directory)?;
    mounts::bind(Path::new(&descriptor_path(&part)), target, false)?;
    Ok(target.to_owned())
}

/// What is to be mounted over must be of the same kind.
fn make_target(target: &Path, is_directory: bool) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        directory::make(parent, 0o750)?;
    }
    if let Ok(there) = std::fs::symlink_metadata(target) {
        match (there.is_dir(), is_directory) {
            (true, true) | (false, false) => return Ok(()),
            (true, false) => std::fs::remove_dir(target)?,
            (false, true) => std::fs::remove_file(target)?,
        }
    }
    match is_directory {
        true => directory::make(target, 0o750),
        false => std::fs::write(target, b""),
    }
}

fn open_or_make(volume: &Path, path: &str) -> io::Result<OwnedFd> {
    let root = open(volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    match open_beneath(&root, path) {
        Err(Errno::NOENT) => {}
        done => return Ok(done?),
    }
    make_beneath(&root, path)?;
    Ok(open_beneath(&root, path)?)
}

fn open_beneath(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES_MAX {
        match openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

fn make_beneath(root: &OwnedFd, path: &str) -> io::Result<()> {
    let mode = Mode::from_raw_mode(fstat(root)?.st_mode & 0o7777);
    let mut made = String::new();
    let mut parent = open_beneath(root, ".")?;
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if !made.is_empty() {
            made.push('/');
        }
        made.push_str(part);
        parent = match open_beneath(root, &made) {
            Ok(there) => there,
            Err(Errno::NOENT) => make_one(&parent, part, mode)?,
            Err(error) => return Err(error.into()),
        };
    }
    Ok(())
}

/// Not through a link: what was put there meanwhile is refused.
fn make_one(parent: &OwnedFd, name: &str, mode: Mode) -> io::Result<OwnedFd> {
    let is_new = match mkdirat(parent, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty())?;
    if is_new {
        // The umask does not count.
        rustix::fs::fchmod(&directory, mode)?;
    }
    Ok(directory)
}
