//! Takes away what is left of a pod. Blocks: it works on files and mounts.

use std::fs;
use std::io;
use std::path::Path;

use rkube_machinery::Text;

use super::directory::{self, PodDirectory};
use super::mounts;

/// Below these, nothing is mounted by us.
const MOUNT_LEVELS: usize = 3;

/// Takes away the pod's mounts and then its files. As long as something is mounted below its directory no file goes:
/// what is mounted is not the pod's own.
pub fn tear_down(root: &Path, uid: &str) -> io::Result<()> {
    let Some(pod) = PodDirectory::new(root, uid) else { return Ok(()) };
    if fs::symlink_metadata(pod.path()).is_err() {
        return Ok(());
    }
    mounts::take_away_below(pod.path())?;
    for path in [pod.path().join("volumes"), pod.path().join("volume-subpaths")] {
        check_unmounted(&path, MOUNT_LEVELS)?;
    }
    rkube_runtime::remove_tree(pod.path())
}

/// The kernel is asked once more, in another way: an error in what was mounted where would cost people their data.
fn check_unmounted(directory: &Path, levels: usize) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if mounts::is_mount_point(&entry.path())? {
            return Err(io::Error::other(format!("{} is still mounted", entry.path().display())));
        }
        if levels > 1 && entry.file_type()?.is_dir() {
            check_unmounted(&entry.path(), levels - 1)?;
        }
    }
    Ok(())
}

/// The uids of all pods that have a directory.
pub fn known_pods(root: &Path) -> Vec<Text> {
    let Ok(entries) = fs::read_dir(directory::pods(root)) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| Some(entry.file_name().to_str()?.into())).collect()
}
