//! How much of the disk a directory takes. Blocks: it walks.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Blocks are counted in these, whatever the file system uses.
const BLOCK_BYTES: u64 = 512;
/// A file of several names counts once, as long as there are no more such files than these.
const LINKED_MAX: usize = 100_000;

/// What is used, as `du` counts it: on this file system only, links not followed.
pub fn used_bytes(directory: &Path) -> io::Result<u64> {
    let root = fs::symlink_metadata(directory)?;
    let mut used = root.blocks() * BLOCK_BYTES;
    let mut linked = HashSet::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            // It went meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let Ok(entry) = entry else { continue };
            let Ok(found) = entry.metadata() else { continue };
            if found.dev() != root.dev() {
                continue;
            }
            let is_linked = found.nlink() > 1 && !found.is_dir();
            if is_linked && linked.len() < LINKED_MAX && !linked.insert(found.ino()) {
                continue;
            }
            used = used.saturating_add(found.blocks().saturating_mul(BLOCK_BYTES));
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_once_and_links_lead_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let empty = used_bytes(directory.path()).unwrap();
        fs::create_dir(path("d")).unwrap();
        fs::write(path("d/file"), vec![1; 1 << 20]).unwrap();
        let one = used_bytes(directory.path()).unwrap();
        assert!(one >= empty + (1 << 20), "{one} {empty}");
        fs::hard_link(path("d/file"), path("again")).unwrap();
        std::os::unix::fs::symlink("/usr", path("link")).unwrap();
        let two = used_bytes(directory.path()).unwrap();
        assert!(two < one + (1 << 18), "{two} {one}");
    }
}
