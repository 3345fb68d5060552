//! Paths inside a root that somebody else filled: links lead nowhere but inside it, and what is missing is made.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags};

/// As many links as the kernel follows in one path.
const LINKS_MAX: usize = 40;
/// No path has more parts, with those that its links bring along.
const PARTS_MAX: usize = 4096;

/// What to make where there is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Directory,
    File,
    /// Nothing: it is an error.
    Fail,
}

/// Opens a path below a root as a place: nothing is read or written by it. Every part is opened from the one before it and
/// no link is followed by the kernel, so that it does not matter who changes what meanwhile.
pub(super) fn resolve(root: BorrowedFd<'_>, path: &str, missing: Missing) -> io::Result<OwnedFd> {
    let mut walk = Walk { places: vec![root.try_clone_to_owned()?], parts: split(path), links: 0 };
    while let Some(part) = walk.parts.pop_front() {
        walk.step(&part, missing)?;
    }
    walk.places.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
}

struct Walk {
    /// The root first, and where we are last.
    places: Vec<OwnedFd>,
    parts: VecDeque<String>,
    links: usize,
}

impl Walk {
    fn step(&mut self, part: &str, missing: Missing) -> io::Result<()> {
        if part == ".." {
            if self.places.len() > 1 {
                self.places.pop();
            }
            return Ok(());
        }
        let here = self.places.last().ok_or(io::ErrorKind::NotFound)?;
        let place = match open_place(here.as_fd(), part) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && missing != Missing::Fail => {
                make(here.as_fd(), part, missing == Missing::File && self.parts.is_empty())?;
                open_place(here.as_fd(), part)?
            }
            result => result?,
        };
        if FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) == FileType::Symlink {
            return self.follow(&place);
        }
        self.places.push(place);
        Ok(())
    }

    fn follow(&mut self, link: &OwnedFd) -> io::Result<()> {
        self.links += 1;
        let target = rustix::fs::readlinkat(link, "", Vec::new())?;
        let target = target.into_string().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        if target.starts_with('/') {
            self.places.truncate(1);
        }
        for part in split(&target).into_iter().rev() {
            self.parts.push_front(part);
        }
        if self.links > LINKS_MAX || self.parts.len() > PARTS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        Ok(())
    }
}

fn split(path: &str) -> VecDeque<String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
}

fn open_place(directory: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

fn make(directory: BorrowedFd<'_>, name: &str, file: bool) -> io::Result<()> {
    let made = if file {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o644)).map(drop)
    } else {
        rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o755))
    };
    match made {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        result => Ok(result?),
    }
}

/// Whether a place is a directory.
pub(super) fn is_directory(place: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn path_of(place: &OwnedFd) -> PathBuf {
        use std::os::fd::AsRawFd;
        std::fs::read_link(format!("/proc/self/fd/{}", place.as_raw_fd())).unwrap()
    }

    #[test]
    fn links_stay_inside_and_what_is_missing_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let root_path = top.join("root");
        std::fs::create_dir_all(root_path.join("a/b")).unwrap();
        symlink("/outside", root_path.join("absolute")).unwrap();
        symlink("../../../../up", root_path.join("a/b/relative")).unwrap();
        symlink("loop", root_path.join("loop")).unwrap();
        let root = std::fs::File::open(&root_path).unwrap();
        let at = |path, missing| resolve(root.as_fd(), path, missing);
        let found = at("/absolute/x/file", Missing::File).unwrap();
        assert_eq!(path_of(&found), root_path.join("outside/x/file"));
        assert!(!is_directory(found.as_fd()).unwrap());
        let found = at("a/b/relative", Missing::Directory).unwrap();
        assert_eq!(path_of(&found), root_path.join("up"));
        let found = at("../../etc", Missing::Directory).unwrap();
        assert_eq!(path_of(&found), root_path.join("etc"));
        assert_eq!(at("loop", Missing::Directory).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(at("nothing", Missing::Fail).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!top.join("etc").exists() && !top.join("up").exists() && !top.join("outside").exists());
    }
}
