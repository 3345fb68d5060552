//! Mounts of this machine: made, looked for and taken away.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

/// What is mounted over a place is taken away so often at most: then something mounts faster than we unmount.
const LAYERS_MAX: usize = 64;

/// Whether something is mounted exactly here. Links are not followed.
pub fn is_mount_point(path: &Path) -> io::Result<bool> {
    let found = match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, StatxFlags::empty()) {
        Ok(found) => found,
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    match found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
        true => Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        // A kernel before 5.8.
        false => Ok(all()?.iter().any(|point| point == path)),
    }
}

/// Memory as a file system, of which nothing gets into swap where the kernel knows how.
pub fn mount_tmpfs(target: &Path, size_bytes: u64) -> io::Result<()> {
    let size = if size_bytes > 0 { format!("size={size_bytes}") } else { String::new() };
    let options = [&size, "noswap"].iter().filter(|option| !option.is_empty()).copied().collect::<Vec<_>>().join(",");
    match tmpfs(target, &options) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => tmpfs(target, &size),
        done => done,
    }
}

fn tmpfs(target: &Path, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(mount("tmpfs", target, "tmpfs", MountFlags::empty(), options.as_c_str())?)
}

/// Huge pages of this size (`2Mi`) as a file system.
pub fn mount_huge_pages(target: &Path, page_size: &str) -> io::Result<()> {
    let options = CString::new(format!("pagesize={page_size}"))?;
    Ok(mount("nodev", target, "hugetlbfs", MountFlags::empty(), options.as_c_str())?)
}

pub fn bind(source: &Path, target: &Path, read_only: bool) -> io::Result<()> {
    mount_bind(source, target)?;
    if !read_only {
        return Ok(());
    }
    let remounted = mount_remount(target, MountFlags::BIND | MountFlags::RDONLY, "");
    remounted.map_err(|error| {
        let _ = take_away(target);
        error.into()
    })
}

/// Takes away all that is mounted here, however often. One that is still in use goes when that ends.
pub fn take_away(target: &Path) -> io::Result<()> {
    for _ in 0..LAYERS_MAX {
        if !is_mount_point(target)? {
            return Ok(());
        }
        match unmount(target, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(rustix::io::Errno::BUSY) => unmount(target, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?,
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other(format!("{} is mounted again and again", target.display())))
}

/// Takes away all that is mounted below a directory, the innermost first.
pub fn take_away_below(directory: &Path) -> io::Result<()> {
    for _ in 0..LAYERS_MAX {
        let mut points: Vec<PathBuf> = all()?.into_iter().filter(|point| point.starts_with(directory)).collect();
        if points.is_empty() {
            return Ok(());
        }
        // Later ones may be mounted over or inside of earlier ones.
        points.reverse();
        for point in points {
            match unmount(&point, UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                Err(rustix::io::Errno::BUSY) => unmount(&point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?,
                // It went with another one.
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Err(io::Error::other(format!("something below {} is mounted again and again", directory.display())))
}

/// Where else below a directory the same thing is mounted as at this point.
pub fn also_mounted(point: &Path, below: &Path) -> io::Result<bool> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    let mounts: Vec<MountLine<'_>> = text.split(|byte| *byte == b'\n').filter_map(line_of).collect();
    let Some(own) = mounts.iter().find(|mount| mount.point == point) else { return Ok(false) };
    let is_same = |mount: &&MountLine<'_>| (mount.device, mount.root) == (own.device, own.root);
    Ok(mounts.iter().filter(is_same).any(|mount| mount.point != point && mount.point.starts_with(below)))
}

/// Where something is mounted, in the order in which it was.
pub fn all() -> io::Result<Vec<PathBuf>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(line_of).map(|mount| mount.point).collect())
}

/// What is to be known of a mount.
struct MountLine<'a> {
    device: &'a [u8],
    /// Which part of the device is mounted.
    root: &'a [u8],
    point: PathBuf,
}

fn line_of(line: &[u8]) -> Option<MountLine<'_>> {
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    let (device, root, point) = (words.next()?, words.next()?, words.next()?);
    Some(MountLine { device, root, point: PathBuf::from(std::ffi::OsString::from_vec(unescape(point))) })
}

/// Spaces and the like are written as three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let digits =
            after.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match digits {
            Some(digits) => {
                plain.push(digits.iter().fold(0u8, |sum, digit| sum.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read() {
        let line = b"36 35 98:0 /mnt1 /a\\040b\\134c rw,noatime master:1 - ext3 /dev/root rw";
        let found = line_of(line).unwrap();
        assert_eq!((found.device, found.root, found.point), (&b"98:0"[..], &b"/mnt1"[..], PathBuf::from("/a b\\c")));
        assert!(line_of(b"").is_none());
    }
}
