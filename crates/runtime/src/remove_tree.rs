//! Removes directories that containers wrote to: what is in them may be nested deeper than a stack, or the list of open
//! files, could follow.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// So many names are held at a time.
const NAMES_MAX: usize = 4096;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Removes a directory, however deep, with two open files: directories in it are moved up into it before they are emptied.
/// No link is followed, and of what is no directory the name is removed. What is not there is removed already.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    let top = rustix::fs::open(path, FLAGS, Mode::empty())?;
    while let Some(names) = some_names(&top)? {
        for name in names {
            remove(&top, &name)?;
        }
    }
    Ok(rustix::fs::rmdir(path)?)
}

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What is deeper than one level is among the names in `top` afterwards.
fn remove(top: &OwnedFd, name: &CString) -> rustix::io::Result<()> {
    if is_gone(top, name)? {
        return Ok(());
    }
    let directory = rustix::fs::openat(top, name, FLAGS, Mode::empty())?;
    while let Some(names) = some_names(&directory)? {
        for name in names {
            if !is_gone(&directory, &name)? {
                move_up(&directory, &name, top)?;
            }
        }
    }
    rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR)
}

/// Files and empty directories go at once.
fn is_gone(parent: &OwnedFd, name: &CString) -> rustix::io::Result<bool> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Err(Errno::NOENT) => return Ok(true),
        other => return other.map(|()| true),
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY) => Ok(false),
        other => other.map(|()| true),
    }
}

/// To a name that nobody has.
fn move_up(parent: &OwnedFd, name: &CString, top: &OwnedFd) -> rustix::io::Result<()> {
    loop {
        let new = format!(".removed-{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        match rustix::fs::renameat_with(parent, name, top, new, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
}

/// None: it is empty.
fn some_names(directory: &OwnedFd) -> rustix::io::Result<Option<Vec<CString>>> {
    let entries = Dir::read_from(directory)?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    let real = names.filter(|name| !matches!(name.as_ref().map(|name| name.to_bytes()), Ok(b"." | b"..")));
    let names: Vec<CString> = real.take(NAMES_MAX).collect::<Result<_, _>>()?;
    Ok((!names.is_empty()).then_some(names))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Each directory is in the one before.
    fn make_deep(path: &Path, depth: usize) {
        std::fs::create_dir(path).unwrap();
        let mut current = rustix::fs::open(path, FLAGS, Mode::empty()).unwrap();
        for _ in 0..depth {
            rustix::fs::mkdirat(&current, "d", Mode::RWXU).unwrap();
            current = rustix::fs::openat(&current, "d", FLAGS, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn no_tree_is_too_deep() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("tree");
        make_deep(&tree, 30_000);
        // A name that is taken.
        std::fs::write(tree.join(format!(".removed-{}", COUNTER.load(Ordering::Relaxed))), "").unwrap();
        remove_tree(&tree).unwrap();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_lead_nowhere_and_what_is_gone_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let (victim, tree) = (root.path().join("victim"), root.path().join("tree"));
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("file"), "").unwrap();
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        for number in 0..NAMES_MAX + 3 {
            std::fs::write(tree.join(format!("a/{number}")), "").unwrap();
        }
        symlink(&victim, tree.join("link")).unwrap();
        symlink(&victim, tree.join("a/link")).unwrap();
        remove_tree(&tree).unwrap();
        symlink(&victim, &tree).unwrap();
        remove_tree(&tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.is_symlink() && victim.join("file").is_file());
    }
}
