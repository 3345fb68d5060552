//! What is mounted below a directory.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::mount::{UnmountFlags, unmount};

const MOUNTS: &str = "/proc/self/mountinfo";
/// One thing may be mounted over another; each look finds those on top.
const ROUNDS_MAX: usize = 8;

/// The places of mounts below a directory, not at it, the latest last.
pub fn below(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let text = std::fs::read(MOUNTS).with_context(|| format!("cannot read {MOUNTS}"))?;
    // Mounts are named by paths without links.
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    Ok(points(&text).into_iter().filter(|point| point.starts_with(&directory) && *point != directory).collect())
}

/// Takes away all that is mounted below a directory. What is still used goes when nobody uses it any more.
pub fn unmount_below(directory: &Path) -> anyhow::Result<()> {
    for _ in 0..ROUNDS_MAX {
        let points = below(directory)?;
        if points.is_empty() {
            return Ok(());
        }
        for point in points.iter().rev() {
            // Nobody is to be led elsewhere by a link.
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            match unmount(point, flags) {
                // With the one above it.
                Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot unmount {}", point.display())),
            }
        }
    }
    Ok(())
}

/// Deletes a directory with all that is in it, unless something is mounted there. Of a link only the link goes.
pub fn remove_tree(directory: &Path) -> anyhow::Result<()> {
    if directory.is_symlink() {
        return std::fs::remove_file(directory).with_context(|| format!("cannot remove {}", directory.display()));
    }
    let mounted: Vec<PathBuf> = below(directory)?;
    if let Some(first) = mounted.first() {
        bail!("{} stays: {} is still mounted", directory.display(), first.display());
    }
    match rkube_runtime::remove_tree(directory) {
        // It is itself where a disk is mounted: all that was in it is gone.
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(()),
        result => result.with_context(|| format!("cannot remove {}", directory.display())),
    }
}

/// The fifth column of each line, in which spaces and the like are octal.
fn points(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(|point| unescape(point).into()).collect()
}

fn unescape(text: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text = b"22 1 0:21 / /proc rw - proc proc rw\n23 1 0:4 / /a\\040b\\134c rw shared:1 - tmpfs x rw\nbroken\n";
        assert_eq!(points(text), [Path::new("/proc"), Path::new("/a b\\c")]);
        assert_eq!(unescape(b"\\04"), "\\04");
    }

    #[test]
    fn links_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let (victim, tree) = (root.path().join("victim"), root.path().join("tree"));
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("file"), "").unwrap();
        std::fs::create_dir(&tree).unwrap();
        std::os::unix::fs::symlink(&victim, tree.join("inside")).unwrap();
        remove_tree(&tree).unwrap();
        std::os::unix::fs::symlink(&victim, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.is_symlink() && victim.join("file").is_file());
        // What is gone is gone.
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn what_is_beside_is_not_below() {
        assert!(below(Path::new("/")).unwrap().iter().any(|point| point == Path::new("/proc")));
        assert_eq!(below(Path::new("/proc-like")).unwrap(), Vec::<PathBuf>::new());
    }
}
