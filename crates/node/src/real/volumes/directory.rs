//! Where the things of a pod are on this machine, laid out as upstream's kubelet does.

use std::io;
use std::path::{Path, PathBuf};

/// `<root>/pods/<uid>`.
#[derive(Clone, Debug)]
pub struct PodDirectory {
    path: PathBuf,
}

impl PodDirectory {
    /// None for a uid that is no name of a directory: it must not lead elsewhere.
    pub fn new(root: &Path, uid: &str) -> Option<PodDirectory> {
        is_name(uid).then(|| PodDirectory { path: pods(root).join(uid) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a volume is. `plugin` is as `kubernetes.io~configmap`.
    pub fn volume(&self, plugin: &str, name: &str) -> io::Result<PathBuf> {
        Ok(self.path.join("volumes").join(plugin).join(checked(name)?))
    }

    /// Says that a volume was made, and is not to be made again.
    pub fn ready_marker(&self, name: &str) -> io::Result<PathBuf> {
        Ok(self.path.join("plugins/kubernetes.io~empty-dir").join(checked(name)?).join("ready"))
    }

    /// Where a part of a volume is mounted, for the mount of this number in a container.
    pub fn subpath(&self, volume: &str, container: &str, index: usize) -> io::Result<PathBuf> {
        Ok(self.path.join("volume-subpaths").join(checked(volume)?).join(checked(container)?).join(index.to_string()))
    }

    pub fn hosts_file(&self) -> PathBuf {
        self.path.join("etc-hosts")
    }
}

/// The directory of all pods.
pub fn pods(root: &Path) -> PathBuf {
    root.join("pods")
}

/// Whether this is a name and not a path.
pub fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn checked(name: &str) -> io::Result<&str> {
    match is_name(name) {
        true => Ok(name),
        false => Err(io::Error::other(format!("{name:?} is no name"))),
    }
}

/// Makes a directory and those above it; those that are new get this mode whatever the umask is.
pub fn make(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make(parent, mode)?;
    }
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_paths() {
        let root = Path::new("/r");
        assert!(PodDirectory::new(root, "..").is_none());
        assert!(PodDirectory::new(root, "a/b").is_none());
        let pod = PodDirectory::new(root, "u").unwrap();
        assert_eq!(
            pod.volume("kubernetes.io~secret", "v").unwrap(),
            Path::new("/r/pods/u/volumes/kubernetes.io~secret/v")
        );
        assert!(pod.volume("kubernetes.io~secret", "..").is_err());
        assert!(pod.subpath("v", "../x", 0).is_err());
    }
}
