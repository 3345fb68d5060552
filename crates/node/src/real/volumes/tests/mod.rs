//! Volumes on a real file system. Those that mount need root and skip without; all that they mount is below a directory
//! of their own, and goes with it.

mod atomic;
mod mounted;
mod parts;

use std::path::{Path, PathBuf};

use rkube_machinery::{Value, json};

use super::directory::PodDirectory;
use super::ownership::ChangePolicy;
use super::{Gathered, SetUp, mounts, set_up};

const UID: &str = "11111111-2222-3333-4444-555555555555";

/// A node's directory that leaves no mount behind.
struct Node {
    directory: tempfile::TempDir,
}

impl Node {
    fn new() -> Node {
        Node { directory: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn pod(&self) -> PodDirectory {
        PodDirectory::new(&self.root(), UID).unwrap()
    }

    fn set_up(
        &self,
        volume: &Gathered,
        group: Option<u32>,
        policy: ChangePolicy,
        version: &str,
    ) -> Result<PathBuf, String> {
        let pod = pod("{}");
        let context = SetUp { pod: &pod, directory: &self.pod(), group, policy, memory_bytes: 1 << 20, version };
        set_up(&context, volume)
    }

    fn mounts(&self) -> Vec<PathBuf> {
        let root = self.root();
        mounts::all().unwrap().into_iter().filter(|point| point.starts_with(&root)).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = mounts::take_away_below(&self.root());
    }
}

fn pod(spec: &str) -> Value {
    json::parse(format!(r#"{{"metadata":{{"name":"p","namespace":"n","uid":"{UID}"}},"spec":{spec}}}"#).as_bytes())
        .unwrap()
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: not root");
    }
    is_root
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn group(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::symlink_metadata(path).unwrap().gid()
}
