//! Makes the files, directories and links of a layer.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, makedev};
use rustix::io::Errno;

use super::Onto;
use super::tree::{
    Lookup, OPAQUE_NAME, OPAQUE_VALUE, Tree, is_whiteout, names, open_directory, real_path, remove_below,
};
use crate::images::error::Doing;
use crate::images::scratch::Space;
use crate::images::tar::{Entry, Kind};
use crate::images::{Error, Result};

/// A name with this in front says that the name behind it is removed; so do the names below of whole directories.
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What an old storage driver kept beside the files.
const METADATA: &[u8] = b".wh..wh.";

/// Content is copied in pieces of this size.
const BUFFER_BYTES: usize = 256 << 10;

pub(super) struct Extractor {
    tree: Tree,
    onto: Onto,
    space: Space,
    /// Directories get their times at the end: what is made in them changes these.
    directories: Vec<(Vec<u8>, Timestamps)>,
    /// With [`Onto::Merged`], the real paths of what this layer has made: it removes only what others did.
    made: HashSet<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Extractor {
    pub(super) fn new(root: &Path, onto: Onto) -> Result<Extractor> {
        Ok(Extractor {
            tree: Tree::new(root)?,
            onto,
            space: Space::of(root)?,
            directories: Vec::new(),
            made: HashSet::new(),
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Whether it could be made without what is below the layer.
    pub(super) fn extract(&mut self, entry: &Entry, content: &mut impl Read) -> Result<bool> {
        let path = clean(&entry.path)?;
        let (parent, name) = split(&path);
        if name.starts_with(METADATA) && name != OPAQUE || path.starts_with(METADATA) && path != OPAQUE {
            return Ok(true);
        }
        if name.is_empty() {
            self.root(entry)?;
            return Ok(true);
        }
        if entry.kind == Kind::Device && !name.starts_with(WHITEOUT) {
            return match path.starts_with(b"dev/") {
                true => Ok(true),
                false => Err(Error::refused("is a device")),
            };
        }
        if !self.has_directory(parent)? {
            return Ok(false);
        }
        if path == OPAQUE && self.onto == Onto::Separate {
            // Roots are always put on top of each other: what is below has to be removed name by name.
            return Ok(false);
        }
        if name == OPAQUE {
            return hidden(self.hide_all(parent));
        } else if let Some(name) = name.strip_prefix(WHITEOUT) {
            return hidden(self.hide(parent, name));
        } else {
            if !self.make(entry, parent, name, content)? {
                return Ok(false);
            }
            if self.onto == Onto::Merged {
                let made = self.place(parent, name)?;
                self.made.insert(made);
            }
            if entry.kind == Kind::Directory {
                self.directories.push((path, times(entry)));
            }
        }
        Ok(true)
    }

    pub(super) fn finish(mut self) -> Result<()> {
        for (path, times) in std::mem::take(&mut self.directories).into_iter().rev() {
            let (parent, name) = split(&path);
            // It may have been replaced by something else since.
            if let Lookup::Found = self.tree.look_up(parent)? {
                let directory = self.tree.directory(parent);
                match rustix::fs::utimensat(directory, name_or_self(name), &times, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(Error::Io("set times".to_owned(), error.into())),
                }
            }
        }
        Ok(())
    }

    /// The layer's own root: it is there, and has the owner and modes of the entry.
    fn root(&mut self, entry: &Entry) -> Result<()> {
        if entry.kind != Kind::Directory {
            return Err(Error::refused("stands for the root and is no directory"));
        }
        let root = self.open(b"")?;
        own(root.as_fd(), entry)?;
        self.directories.push((Vec::new(), times(entry)));
        Ok(())
    }

    fn has_directory(&mut self, path: &[u8]) -> Result<bool> {
        if let Lookup::Found = self.tree.look_up(path)? {
            return Ok(true);
        }
        if self.onto == Onto::Separate {
            return Ok(false);
        }
        let mut made = Vec::new();
        self.tree.make(path, |parent, name| made.push(real_path(parent).map(|parent| join(&parent, name))))?;
        for path in made {
            self.made.insert(path?);
        }
        Ok(true)
    }

    fn make(&mut self, entry: &Entry, parent: &[u8], name: &[u8], content: &mut impl Read) -> Result<bool> {
        match entry.kind {
            Kind::File => self.file(entry, parent, name, content)?,
            Kind::Directory => self.make_directory(entry, parent, name)?,
            Kind::HardLink => return self.hard_link(entry, parent, name),
            Kind::Symlink => self
                .special(entry, parent, name, |parent| rustix::fs::symlinkat(entry.target.as_slice(), parent, name))?,
            Kind::Fifo => self.special(entry, parent, name, |parent| {
                rustix::fs::mknodat(parent, name, FileType::Fifo, Mode::from_raw_mode(entry.mode), 0)?;
                rustix::fs::chmodat(parent, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())
            })?,
            Kind::Device => return Err(Error::refused("is a device")),
        }
        Ok(true)
    }

    fn file(&mut self, entry: &Entry, parent: &[u8], name: &[u8], content: &mut impl Read) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            self.replacing(parent, name, |parent| rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600)))?;
        let mut file = File::from(file);
        let mut left = entry.size;
        while left > 0 {
            let wanted = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = content.read(&mut self.buffer[..wanted]).map_err(Error::reading)?;
            if count == 0 {
                return Err(Error::corrupt("the archive ends within it"));
            }
            self.space.take(count as u64)?;
            file.write_all(&self.buffer[..count]).doing(|| "write".to_owned())?;
            left -= count as u64;
        }
        own(file.as_fd(), entry)?;
        rustix::fs::futimens(&file, &times(entry)).doing(|| "set times".to_owned())
    }

    fn make_directory(&mut self, entry: &Entry, parent: &[u8], name: &[u8]) -> Result<()> {
        let directory = self.tree.directory(parent);
        let mut removed_before = false;
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {}
            found => {
                if let Ok(stat) = found {
                    removed_before = self.onto != Onto::Merged && is_whiteout(&stat);
                    remove_below(directory, name)?;
                    self.tree.forget();
                    self.has_directory(parent)?;
                }
                rustix::fs::mkdirat(self.tree.directory(parent), name, Mode::from_raw_mode(0o700))
                    .doing(|| "make".to_owned())?;
            }
        }
        let made = open_directory(self.tree.directory(parent), name).doing(|| "open".to_owned())?;
        if removed_before {
            set_opaque(made.as_fd())?;
        }
        own(made.as_fd(), entry)
    }

    /// Whether what it links to is in this layer.
    fn hard_link(&mut self, entry: &Entry, parent: &[u8], name: &[u8]) -> Result<bool> {
        let target = clean(&entry.target)?;
        let (target_parent, target_name) = split(&target);
        if (target_parent, target_name) == (parent, name) {
            return Ok(true);
        }
        let missing = |onto: Onto| match onto {
            Onto::Separate => Ok(false),
            _ => {
                Err(Error::corrupt(format_args!("links to {:?}, which is not there", String::from_utf8_lossy(&target))))
            }
        };
        if let Lookup::Missing = self.tree.look_up(target_parent)? {
            return missing(self.onto);
        }
        let from =
            rustix::io::fcntl_dupfd_cloexec(self.tree.directory(target_parent), 0).doing(|| "link".to_owned())?;
        match rustix::fs::statat(&from, target_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_whiteout(&stat) => return Err(Error::corrupt("links to what its layer removes")),
            Ok(_) => {}
            Err(Errno::NOENT) => return missing(self.onto),
            Err(error) => return Err(Error::Io("link".to_owned(), error.into())),
        }
        self.has_directory(parent)?;
        self.replacing(parent, name, |parent| rustix::fs::linkat(&from, target_name, parent, name, AtFlags::empty()))?;
        Ok(true)
    }

    /// What is made by its name alone.
    fn special(
        &mut self,
        entry: &Entry,
        parent: &[u8],
        name: &[u8],
        make: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<()>,
    ) -> Result<()> {
        self.replacing(parent, name, make)?;
        let directory = self.tree.directory(parent);
        let (user, group) = owner(entry);
        rustix::fs::chownat(directory, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
            .doing(|| "change owner".to_owned())?;
        rustix::fs::utimensat(directory, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)
            .doing(|| "set times".to_owned())?;
        for (attribute, value) in entry.attributes.iter().filter(|(attribute, _)| attribute.starts_with(b"security.")) {
            let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
            path.extend_from_slice(name);
            supported(rustix::fs::lsetxattr(path, attribute.as_slice(), value, XattrFlags::empty()))?;
        }
        Ok(())
    }

    /// Makes something in the place of whatever has the name.
    fn replacing<T>(
        &mut self,
        parent: &[u8],
        name: &[u8],
        make: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<T>,
    ) -> Result<T> {
        match make(self.tree.directory(parent)) {
            Err(Errno::EXIST) => {}
            Err(Errno::NAMETOOLONG) => return Err(Error::refused("has a name that is too long")),
            other => return other.doing(|| "make".to_owned()),
        }
        remove_below(self.tree.directory(parent), name)?;
        self.tree.forget();
        self.has_directory(parent)?;
        make(self.tree.directory(parent)).doing(|| "make".to_owned())
    }

    /// What has this name in layers below is gone; what this layer has made of it stays, whichever came first.
    fn hide(&mut self, parent: &[u8], name: &[u8]) -> Result<()> {
        if matches!(name, b"" | b"." | b"..") {
            return Err(Error::refused("removes what is no name"));
        }
        let directory = self.tree.directory(parent);
        match self.onto {
            Onto::Lowest => Ok(()),
            Onto::Merged if self.made.contains(&self.place(parent, name)?) => match open_directory(directory, name) {
                Ok(made) => self.hide_others(made),
                Err(_) => Ok(()),
            },
            Onto::Merged => {
                remove_below(directory, name)?;
                self.tree.forget();
                Ok(())
            }
            Onto::Separate => {
                match rustix::fs::mknodat(directory, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)) {
                    Ok(()) => return Ok(()),
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(Error::Io("remove".to_owned(), error.into())),
                }
                match open_directory(directory, name) {
                    Ok(made) => set_opaque(made.as_fd()),
                    Err(_) => Ok(()),
                }
            }
        }
    }

    /// All that a directory has in layers below is gone.
    fn hide_all(&mut self, path: &[u8]) -> Result<()> {
        match self.onto {
            Onto::Lowest => Ok(()),
            Onto::Separate => set_opaque(self.open(path)?.as_fd()),
            Onto::Merged => {
                let directory = self.open(path)?;
                self.hide_others(directory)
            }
        }
    }

    /// What was looked up, to be read.
    fn open(&self, path: &[u8]) -> Result<OwnedFd> {
        open_directory(self.tree.directory(path), b".").doing(|| "open".to_owned())
    }

    fn place(&self, parent: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        Ok(join(&real_path(self.tree.directory(parent))?, name))
    }

    /// Removes from a directory what this layer has not made.
    fn hide_others(&mut self, directory: OwnedFd) -> Result<()> {
        let path = real_path(directory.as_fd())?;
        for name in names(directory.as_fd()).doing(|| "read".to_owned())? {
            if !self.made.contains(&join(&path, name.to_bytes())) {
                remove_below(directory.as_fd(), name.to_bytes())?;
            } else if let Ok(below) = open_directory(directory.as_fd(), name.to_bytes()) {
                self.hide_others(below)?;
            }
        }
        self.tree.forget();
        Ok(())
    }
}

/// Not every file system can have written down what is removed: there it has to be removed in fact.
fn hidden(result: Result<()>) -> Result<bool> {
    match result {
        Err(Error::Io(_, error))
            if [Errno::PERM, Errno::NOTSUP].contains(&Errno::from_io_error(&error).unwrap_or(Errno::IO)) =>
        {
            Ok(false)
        }
        other => other.map(|()| true),
    }
}

/// Owner first: changing it takes bits and attributes away.
fn own(file: BorrowedFd<'_>, entry: &Entry) -> Result<()> {
    let (user, group) = owner(entry);
    rustix::fs::fchown(file, Some(user), Some(group)).doing(|| "change owner".to_owned())?;
    rustix::fs::fchmod(file, Mode::from_raw_mode(entry.mode)).doing(|| "change mode".to_owned())?;
    for (name, value) in entry.attributes.iter().filter(|(name, _)| !name.starts_with(b"trusted.")) {
        supported(rustix::fs::fsetxattr(file, name.as_slice(), value, XattrFlags::empty()))?;
    }
    Ok(())
}

fn owner(entry: &Entry) -> (Uid, Gid) {
    (Uid::from_raw(entry.user), Gid::from_raw(entry.group))
}

/// A file system without attributes of this kind is none for them, and none to refuse the image for.
fn supported(result: rustix::io::Result<()>) -> Result<()> {
    match result {
        Err(Errno::NOTSUP | Errno::PERM | Errno::INVAL) => Ok(()),
        other => other.doing(|| "set an attribute".to_owned()),
    }
}

fn set_opaque(directory: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::fsetxattr(directory, OPAQUE_NAME, OPAQUE_VALUE, XattrFlags::empty())
        .doing(|| "hide what is below".to_owned())
}

fn times(entry: &Entry) -> Timestamps {
    let modified = Timespec { tv_sec: entry.modified_seconds, tv_nsec: entry.modified_nanos.into() };
    Timestamps { last_access: modified, last_modification: modified }
}

/// A path from the layer's root, without `.` and empty names. One with `..` is refused: no builder writes it.
fn clean(path: &[u8]) -> Result<Vec<u8>> {
    let mut cleaned = Vec::with_capacity(path.len());
    for name in path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
        if name == b".." {
            return Err(Error::refused(format_args!("{:?} leads out of the layer", String::from_utf8_lossy(path))));
        }
        if !cleaned.is_empty() {
            cleaned.push(b'/');
        }
        cleaned.extend_from_slice(name);
    }
    Ok(cleaned)
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() }
}

fn name_or_self(name: &[u8]) -> &[u8] {
    if name.is_empty() { b"." } else { name }
}
