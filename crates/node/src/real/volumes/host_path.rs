//! `hostPath`: something of the host's own, which must be what the pod says that it is.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rkube_machinery::Value;

use super::{Content, Failure, Gather, Gathered, directory};

pub async fn gather(_: &Gather<'_>, volume: &Value) -> Result<Gathered, Failure> {
    Ok(Gathered::new(volume, content(volume.get("hostPath"))))
}

pub fn content(source: &Value) -> Content {
    Content::Host { path: PathBuf::from(source.str("path")), path_type: source.str("type").into() }
}

/// Checks that it is there, and makes what may be made.
pub fn check(path: &Path, path_type: &str) -> Result<(), String> {
    let shown = path.display();
    if path.components().any(|part| part == std::path::Component::ParentDir) {
        return Err(format!("invalid HostPath `{shown}`: must not contain '..'"));
    }
    // Links are followed.
    let found = fs::metadata(path).ok().map(|found| found.file_type());
    let wrong = |what: &str| Err(format!("hostPath type check failed: {shown} is not {what}"));
    match path_type {
        // Runtimes make a directory of what is not there.
        "" | "DirectoryOrCreate" if found.is_none() => make_directory(path).map_err(|error| error.to_string()),
        "" => Ok(()),
        "FileOrCreate" if found.is_none() => make_file(path).map_err(|error| error.to_string()),
        "Directory" | "DirectoryOrCreate" if !found.is_some_and(|found| found.is_dir()) => wrong("a directory"),
        "File" | "FileOrCreate" if !found.is_some_and(|found| found.is_file()) => wrong("a file"),
        "Socket" if !found.is_some_and(|found| found.is_socket()) => wrong("a socket file"),
        "CharDevice" if !found.is_some_and(|found| found.is_char_device()) => wrong("a character device"),
        "BlockDevice" if !found.is_some_and(|found| found.is_block_device()) => wrong("a block device"),
        "Directory" | "DirectoryOrCreate" | "File" | "FileOrCreate" | "Socket" | "CharDevice" | "BlockDevice" => Ok(()),
        other => Err(format!("{other} is an invalid volume type")),
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    directory::make(path, 0o755)
}

fn make_file(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;

    fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o644).open(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_checked() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::write(path("file"), b"").unwrap();
        fs::create_dir(path("directory")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let null = PathBuf::from("/dev/null");
        let fine = [
            (path("directory"), "Directory"),
            (path("directory"), "DirectoryOrCreate"),
            (path("new/deep"), "DirectoryOrCreate"),
            (path("unset"), ""),
            (path("file"), "File"),
            (path("file"), "FileOrCreate"),
            (path("new-file"), "FileOrCreate"),
            (path("socket"), "Socket"),
            (null.clone(), "CharDevice"),
        ];
        for (path, path_type) in fine {
            assert_eq!(check(&path, path_type), Ok(()), "{} {path_type}", path.display());
        }
        assert!(path("new/deep").is_dir() && path("new-file").is_file() && path("unset").is_dir());
        let wrong = [
            (path("none"), "Directory", "a directory"),
            (path("file"), "DirectoryOrCreate", "a directory"),
            (path("directory"), "File", "a file"),
            (path("directory"), "FileOrCreate", "a file"),
            (path("file"), "Socket", "a socket file"),
            (path("file"), "CharDevice", "a character device"),
            (null, "BlockDevice", "a block device"),
        ];
        for (path, path_type, what) in wrong {
            let expected = format!("hostPath type check failed: {} is not {what}", path.display());
            assert_eq!(check(&path, path_type), Err(expected));
        }
        assert_eq!(
            check(Path::new("/a/../b"), ""),
            Err("invalid HostPath `/a/../b`: must not contain '..'".to_owned())
        );
        assert_eq!(check(&path("file"), "Pipe"), Err("Pipe is an invalid volume type".to_owned()));
    }
}
