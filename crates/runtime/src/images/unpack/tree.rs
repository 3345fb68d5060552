//! A directory as the root of everything that a layer names.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, makedev};
use rustix::io::Errno;

use crate::images::bounds::MAX_DEPTH;
use crate::images::error::Doing;
use crate::images::{Error, Result};

/// What tells overlayfs that a directory hides all of the same name below.
pub(in crate::images) const OPAQUE_NAME: &str = "trusted.overlay.opaque";
pub(in crate::images) const OPAQUE_VALUE: &[u8] = b"y";

/// A lookup is to be tried again when something was renamed meanwhile, anywhere on the machine.
const MAX_LOOKUPS: usize = 1_000;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

pub(super) struct Tree {
    root: OwnedFd,
    root_depth: usize,
    /// The directory that was looked up last: entries of one directory mostly follow each other.
    last: Option<(Vec<u8>, OwnedFd)>,
}

pub(super) enum Lookup {
    Found,
    Missing,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Result<Tree> {
        let root = rustix::fs::open(root, DIRECTORY, Mode::empty()).doing(|| format!("open {}", root.display()))?;
        let root_depth = depth(root.as_fd())?;
        Ok(Tree { root, root_depth, last: None })
    }

    /// Looks a directory up, so that [`Tree::directory`] gives it. The path has no `.`, `..` or empty names.
    pub(super) fn look_up(&mut self, path: &[u8]) -> Result<Lookup> {
        if path.is_empty() || self.last.as_ref().is_some_and(|(last, _)| last == path) {
            return Ok(Lookup::Found);
        }
        if path.iter().filter(|byte| **byte == b'/').count() >= MAX_DEPTH {
            return Err(too_deep());
        }
        match self.open(path) {
            Ok(directory) => {
                self.last = Some((path.to_vec(), directory));
                Ok(Lookup::Found)
            }
            Err(Errno::NOENT) => Ok(Lookup::Missing),
            Err(Errno::NOTDIR) => Err(Error::refused("is below something that is no directory")),
            Err(Errno::LOOP) => Err(Error::refused("is below a symbolic link that leads to itself")),
            Err(Errno::NAMETOOLONG) => Err(Error::refused("has a name that is too long")),
            Err(Errno::MLINK) => Err(too_deep()),
            Err(error) => Err(Error::Io("look up its directory".to_owned(), error.into())),
        }
    }

    /// What was looked up last; the root for an empty path.
    pub(super) fn directory(&self, path: &[u8]) -> BorrowedFd<'_> {
        match &self.last {
            Some((last, directory)) if last == path => directory.as_fd(),
            _ => self.root.as_fd(),
        }
    }

    /// To be called when something was removed that the last path may have led through.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// Makes the directories of this path that are not there. Which ones is told: by a directory and a name.
    pub(super) fn make(&mut self, path: &[u8], mut made: impl FnMut(BorrowedFd<'_>, &[u8])) -> Result<()> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(index, _)| index);
        let mut parent_end = 0;
        for end in ends.chain([path.len()]) {
            let (parent, name) = (&path[..parent_end], trim(&path[parent_end..end]));
            if let Lookup::Missing = self.look_up(&path[..end])? {
                if let Lookup::Missing = self.look_up(parent)? {
                    return Err(Error::refused("is below a symbolic link that leads nowhere"));
                }
                match rustix::fs::mkdirat(self.directory(parent), name, Mode::from_raw_mode(0o755)) {
                    Ok(()) => {
                        // Whatever our umask is.
                        let mode = Mode::from_raw_mode(0o755);
                        rustix::fs::chmodat(self.directory(parent), name, mode, AtFlags::empty())
                            .doing(|| "make its directory".to_owned())?;
                        made(self.directory(parent), name);
                    }
                    Err(Errno::EXIST) => return Err(Error::refused("is below a symbolic link that leads nowhere")),
                    Err(error) => return Err(Error::Io("make its directory".to_owned(), error.into())),
                }
            }
            parent_end = end;
        }
        match self.look_up(path)? {
            Lookup::Found => Ok(()),
            Lookup::Missing => Err(Error::refused("is below a symbolic link that leads nowhere")),
        }
    }

    /// [`Errno::MLINK`] stands for a depth that is too great.
    fn open(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let direct = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        match self.resolve(path, direct) {
            Err(Errno::LOOP) => {}
            other => return other,
        }
        let directory = self.resolve(path, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)?;
        // Through links a path leads deeper than it is long.
        match depth(directory.as_fd()) {
            Ok(depth) if depth <= self.root_depth + MAX_DEPTH => Ok(directory),
            _ => Err(Errno::MLINK),
        }
    }

    fn resolve(&self, path: &[u8], how: ResolveFlags) -> rustix::io::Result<OwnedFd> {
        for _ in 0..MAX_LOOKUPS {
            match rustix::fs::openat2(&self.root, path, DIRECTORY, Mode::empty(), how) {
                Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }
}

/// Where a directory is, whichever links led there.
pub(super) fn real_path(directory: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let path = rustix::fs::readlink(format!("/proc/self/fd/{}", directory.as_raw_fd()), Vec::new())
        .doing(|| "look up where a directory is".to_owned())?;
    Ok(path.into_bytes())
}

/// Of a directory below the root of the host.
fn depth(directory: BorrowedFd<'_>) -> Result<usize> {
    let path = real_path(directory)?;
    Ok(path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).count())
}

/// Removes a file, or a directory with everything in it. What is not there is removed already.
pub(in crate::images) fn remove_below(parent: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    remove_levels(parent, name, 0).doing(|| format!("remove {:?}", String::from_utf8_lossy(name)))
}

fn remove_levels(parent: BorrowedFd<'_>, name: &[u8], level: usize) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Err(Errno::NOENT) => return Ok(()),
        other => return other,
    }
    if level > MAX_DEPTH {
        return Err(Errno::MLINK);
    }
    let directory = open_directory(parent, name)?;
    for entry in names(directory.as_fd())? {
        remove_levels(directory.as_fd(), entry.to_bytes(), level + 1)?;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// What is in a directory, but for itself and its parent.
pub(in crate::images) fn names(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// A directory to be read and changed, and nothing that merely leads to one.
pub(in crate::images) fn open_directory(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// What overlayfs takes for a name that was removed.
pub(in crate::images) fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == makedev(0, 0)
}

fn trim(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"/").unwrap_or(name)
}

fn too_deep() -> Error {
    Error::refused(format_args!("lies more than {MAX_DEPTH} directories deep"))
}
