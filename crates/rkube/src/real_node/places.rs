//! Where a node on this machine keeps what it has: images, containers and volumes in the data directory; what is gone
//! after a restart of the machine in `/run`, under a name of the data directory's own.

use std::path::{Path, PathBuf};

/// Sockets are here, whose paths may not be long: data directories may be anywhere.
const RUN: &str = "/run/rkube";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    pub images: PathBuf,
    pub containers: PathBuf,
    /// The kubelet's root: volumes of pods, profiles.
    pub kubelet: PathBuf,
    /// What claims hold that are directories of this machine. It outlives pods.
    pub volumes: PathBuf,
    pub network: PathBuf,
    pub run: PathBuf,
}

impl Places {
    /// `directory`: the data directory, as an absolute path.
    pub fn of(directory: &Path) -> Places {
        let run = Path::new(RUN).join(short_name(directory));
        Places {
            images: directory.join("images"),
            containers: directory.join("containers"),
            kubelet: directory.join("kubelet"),
            volumes: directory.join("volumes"),
            network: run.join("network"),
            run,
        }
    }
}

/// The same for the same path, and most likely another for another one.
fn short_name(path: &Path) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = path.as_os_str().as_encoded_bytes();
    let hash = bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_directory_has_its_own_places() {
        let (one, other) = (Places::of(Path::new("/a/b")), Places::of(Path::new("/a/c")));
        assert_eq!(one, Places::of(Path::new("/a/b")));
        assert_ne!(one.run, other.run);
        assert!(one.run.as_os_str().len() < 40 && one.images.starts_with("/a/b"));
    }
}
