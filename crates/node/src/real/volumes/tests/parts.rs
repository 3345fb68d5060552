//! Parts of volumes, also with somebody who wants out.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Node, UID, is_root, mode};
use crate::real::volumes::directory::PodDirectory;
use crate::real::volumes::{mounts, subpath, tear_down};

struct Volume {
    node: Node,
    directory: tempfile::TempDir,
}

impl Volume {
    fn new() -> Volume {
        Volume { node: Node::new(), directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn pod(&self) -> PodDirectory {
        self.node.pod()
    }

    fn bind(&self, part: &str, index: usize) -> std::io::Result<std::path::PathBuf> {
        subpath::bind(self.directory.path(), part, &self.pod().subpath("v", "c", index).unwrap())
    }
}

#[test]
fn parts_are_mounted_and_made_where_they_are_missing() {
    if !is_root() {
        return;
    }
    let volume = Volume::new();
    fs::set_permissions(volume.directory.path(), fs::Permissions::from_mode(0o2770)).unwrap();
    fs::write(volume.path("file"), b"text").unwrap();
    let file = volume.bind("file", 0).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    assert!(file.ends_with(format!("{UID}/volume-subpaths/v/c/0")));
    let made = volume.bind("a/./b//c", 1).unwrap();
    assert!(made.is_dir());
    assert_eq!((mode(&volume.path("a")), mode(&volume.path("a/b/c"))), (0o2770, 0o2770));
    fs::write(made.join("inside"), b"").unwrap();
    assert!(volume.path("a/b/c/inside").exists());
    // Again, and after the file was replaced by another one.
    assert_eq!(volume.bind("file", 0).unwrap(), file);
    fs::remove_file(volume.path("file")).unwrap();
    fs::create_dir(volume.path("file")).unwrap();
    assert!(volume.bind("file", 0).unwrap().is_dir());
    tear_down(&volume.node.root(), UID).unwrap();
    assert!(volume.node.mounts().is_empty());
    assert!(volume.path("a/b/c/inside").exists());
}

#[test]
fn links_stay_inside() {
    if !is_root() {
        return;
    }
    let volume = Volume::new();
    let host = tempfile::tempdir().unwrap();
    fs::create_dir(volume.path("real")).unwrap();
    symlink("real", volume.path("inside")).unwrap();
    symlink(host.path(), volume.path("outside")).unwrap();
    symlink("../../../../../etc", volume.path("up")).unwrap();
    symlink("/proc/self/root", volume.path("magic")).unwrap();
    assert!(volume.bind("inside", 0).is_ok());
    for part in ["outside", "outside/new", "up", "up/passwd", "magic", "magic/etc", "../x"] {
        assert!(volume.bind(part, 1).is_err(), "{part}");
    }
    assert_eq!(fs::read_dir(host.path()).unwrap().count(), 0);
    assert_eq!(volume.node.mounts().len(), 1);
}

/// Changes a directory into a link that leads out, and back, as fast as it can.
struct Attacker {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Attacker {
    fn start(volume: Arc<Volume>) -> Attacker {
        use rustix::fs::{CWD, RenameFlags, renameat_with};

        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, volume.path("real"), CWD, volume.path("link"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        Attacker { stop, thread: Some(thread) }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn a_link_that_comes_meanwhile_leads_nowhere() {
    const ROUNDS: usize = 2000;
    /// A busy machine may hold the attacker up while the link is there: then the rounds go on until it was away once.
    const ROUNDS_MAX: usize = 100 * ROUNDS;
    if !is_root() {
        return;
    }
    let volume = Arc::new(Volume::new());
    let host = tempfile::tempdir().unwrap();
    let outside = fs::metadata(host.path()).unwrap();
    fs::create_dir(volume.path("real")).unwrap();
    fs::create_dir(volume.path("real/sub")).unwrap();
    fs::create_dir(host.path().join("sub")).unwrap();
    let outside_part = fs::metadata(host.path().join("sub")).unwrap();
    symlink(host.path(), volume.path("link")).unwrap();
    let attacker = Attacker::start(volume.clone());
    let mut bound = 0;
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && bound > 0 {
            break;
        }
        let part = ["real", "real/sub", "real/new"][round % 3];
        let target = volume.pod().subpath("v", "c", 0).unwrap();
        if let Ok(path) = subpath::bind(volume.directory.path(), part, &target) {
            let found = fs::metadata(&path).unwrap();
            assert_ne!((found.dev(), found.ino()), (outside.dev(), outside.ino()));
            assert_ne!((found.dev(), found.ino()), (outside_part.dev(), outside_part.ino()));
            bound += 1;
        }
        mounts::take_away(&target).unwrap();
    }
    drop(attacker);
    // It is fair to fail, but not always.
    assert!(bound > 0);
    assert!(!host.path().join("new").exists(), "something was made outside");
}
