//! Files and directories that only their owner can read: the store holds every secret of the cluster.
//!
//! Whatever the umask, and also where an older version or somebody else made them with more rights. Nothing here
//! follows a symbolic link in the last part of a path to a file.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// The bits that say who may do what.
const MODE_BITS: u32 = 0o7777;

/// A new file to append to. That there is none of the name is the caller's business.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create_new(true).mode(FILE_MODE).open(path)?;
    // The umask can only have taken rights away, but that may have been our own.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// A file to read and write, which is created if need be.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let no_links = OFlags::NOFOLLOW.bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(no_links);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.permissions().mode() & MODE_BITS != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Makes the directory if need be, with those above it that are missing, and takes from others what they may do to it
/// and to the files in it that `is_ours`. Directories that were there above it stay as they are.
pub(crate) fn own_directory(path: &Path, is_ours: impl Fn(&str) -> bool) -> io::Result<()> {
    create_directory(path)?;
    if let Err(error) = close_directory(path, is_ours) {
        // It may belong to somebody else who lets us in, or lie where there are no such rights.
        tracing::warn!(path = %path.display(), %error, "others may be able to read the store");
    }
    Ok(())
}

fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_directory(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)),
    }
}

fn close_directory(path: &Path, is_ours: impl Fn(&str) -> bool) -> io::Result<()> {
    let is_open = |metadata: &fs::Metadata, mode: u32| metadata.permissions().mode() & MODE_BITS != mode;
    if is_open(&fs::metadata(path)?, DIRECTORY_MODE) {
        fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))?;
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let is_ours = entry.file_name().to_str().is_some_and(&is_ours);
        if is_ours && metadata.is_file() && is_open(&metadata, FILE_MODE) {
            fs::set_permissions(entry.path(), Permissions::from_mode(FILE_MODE))?;
        }
    }
    Ok(())
}
