//! Small files that are there whole or not at all.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("cannot make the directory {}", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
}

/// Who may read a file beside its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Mode 0600.
    Owner,
    /// Mode 0644.
    Everybody,
}

/// The rights of the group and of all others.
const OTHERS: u32 = 0o077;

/// Replaces the file in one step: a reader finds the old text or the new.
pub fn replace(path: &Path, text: &str, readers: Readers) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let directory = path.parent().unwrap_or(Path::new("."));
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::Everybody => 0o644,
    };
    let mut file = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(directory)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The file's text; `None` where there is no file, or an empty one, as a crash of the machine may leave behind.
pub fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}

/// The text of a file that only its owner may read, as [`read`]. One that others may read, as a careless copy leaves it,
/// is taken from them.
pub fn read_private(path: &Path) -> Result<Option<String>, Error> {
    keep_private(path);
    read(path)
}

pub fn others_may_read(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & OTHERS != 0)
}

/// Takes a file or a directory of ours from everybody but its owner.
pub fn keep_private(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let mode = metadata.permissions().mode();
    if metadata.is_symlink() || mode & OTHERS == 0 {
        return;
    }
    match fs::set_permissions(path, Permissions::from_mode(mode & 0o700)) {
        Ok(()) => tracing::info!(path = %path.display(), "others can no longer read it"),
        Err(error) => tracing::warn!(path = %path.display(), %error, "others can read it"),
    }
}

/// Makes a directory that only its owner may look into, and those above it. One that exists stays as it is.
pub fn make_private_directory(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Directory { path: path.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_replaced_with_their_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        make_private_directory(path.parent().unwrap()).unwrap();
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(read(&path).unwrap(), None);
        for (text, readers, expected) in [("one", Readers::Owner, 0o600), ("two", Readers::Everybody, 0o644)] {
            replace(&path, text, readers).unwrap();
            assert_eq!(read(&path).unwrap().as_deref(), Some(text));
            assert_eq!(mode(&path), expected);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn what_others_could_read_is_taken_from_them() {
        let directory = tempfile::tempdir().unwrap();
        let (file, folder) = (directory.path().join("key"), directory.path().join("pki"));
        fs::write(&file, "secret").unwrap();
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(read_private(&file).unwrap().as_deref(), Some("secret"));
        keep_private(&folder);
        assert_eq!((mode(&file), mode(&folder)), (0o600, 0o700));
    }

    #[test]
    fn errors_name_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let error = replace(&directory.path().join("absent/file"), "", Readers::Owner).unwrap_err();
        assert!(error.to_string().contains("absent/file"), "{error}");
    }
}
