//! Volumes that are mounted, and what is left of them.

use std::fs;
use std::path::Path;

use super::{Node, UID, group, is_root, mode};
use crate::real::volumes::directory::PodDirectory;
use crate::real::volumes::ownership::{ChangePolicy, give_to_group};
use crate::real::volumes::payload::{File, Payload};
use crate::real::volumes::{Content, Gathered, Medium, SetUp, known_pods, mounts, set_up, tear_down};

fn volume(content: Content) -> Gathered {
    Gathered { name: "v".into(), read_only: false, extra_group: None, content }
}

fn secret(text: &str) -> Gathered {
    let payload = Payload::from([("d/key".to_owned(), File::new(text, 0o400))]);
    volume(Content::Files { plugin: "kubernetes.io~secret", in_memory: true, payload })
}

#[test]
fn directories_of_a_pod_are_its_own() {
    let node = Node::new();
    let path = node.set_up(&volume(Content::Empty(Medium::Disk)), None, ChangePolicy::Always, "..2v1").unwrap();
    assert_eq!(path, node.root().join(format!("pods/{UID}/volumes/kubernetes.io~empty-dir/v")));
    assert_eq!(mode(&path), 0o777);
    assert_eq!(mode(&node.root().join("pods").join(UID)), 0o750);
    fs::write(path.join("kept"), b"x").unwrap();
    node.set_up(&volume(Content::Empty(Medium::Disk)), None, ChangePolicy::Always, "..2v1").unwrap();
    assert!(path.join("kept").exists());
    assert_eq!(known_pods(&node.root()), [UID]);
    tear_down(&node.root(), UID).unwrap();
    tear_down(&node.root(), UID).unwrap();
    assert!(known_pods(&node.root()).is_empty());
}

#[test]
fn memory_has_a_size_and_goes_with_the_pod() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let memory = volume(Content::Empty(Medium::Memory { size_bytes: 1 << 20 }));
    let path = node.set_up(&memory, Some(1234), ChangePolicy::Always, "..2v1").unwrap();
    let found = rustix::fs::statvfs(&path).unwrap();
    assert_eq!(found.f_blocks * found.f_frsize, 1 << 20);
    assert_eq!((mode(&path), group(&path)), (0o3777, 1234));
    fs::write(path.join("kept"), b"x").unwrap();
    node.set_up(&memory, Some(1234), ChangePolicy::Always, "..2v1").unwrap();
    assert!(path.join("kept").exists());
    assert_eq!(node.mounts(), [path]);
    tear_down(&node.root(), UID).unwrap();
    assert!(node.mounts().is_empty());
}

#[test]
fn secrets_are_in_memory_belong_to_the_group_and_are_updated() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let path = node.set_up(&secret("one"), Some(1234), ChangePolicy::Always, "..2v1").unwrap();
    assert!(mounts::is_mount_point(&path).unwrap());
    assert_eq!(mode(&path), 0o3777);
    let file = path.join("d/key").canonicalize().unwrap();
    assert_eq!((mode(&file), group(&file)), (0o440, 1234));
    assert_eq!(mode(file.parent().unwrap()), 0o2755);
    node.set_up(&secret("two"), Some(1234), ChangePolicy::Always, "..2v2").unwrap();
    assert_eq!(fs::read_to_string(path.join("d/key")).unwrap(), "two");
    assert_eq!(node.mounts().len(), 1);
    tear_down(&node.root(), UID).unwrap();
    assert!(node.mounts().is_empty());
}

#[test]
fn what_is_in_a_local_volume_outlives_the_pod() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let disk = tempfile::tempdir().unwrap();
    fs::create_dir(disk.path().join("deep")).unwrap();
    fs::write(disk.path().join("deep/data"), b"precious").unwrap();
    let local = volume(Content::Local { path: disk.path().to_owned() });
    let path = node.set_up(&local, Some(1234), ChangePolicy::Always, "..2v1").unwrap();
    assert_eq!(group(&disk.path().join("deep/data")), 1234);
    // Something that a container with bidirectional propagation left inside of it.
    fs::create_dir(disk.path().join("inner")).unwrap();
    mounts::mount_tmpfs(&path.join("inner"), 4096).unwrap();
    assert!(node.mounts().len() >= 2);
    tear_down(&node.root(), UID).unwrap();
    assert!(node.mounts().is_empty());
    assert_eq!(fs::read_to_string(disk.path().join("deep/data")).unwrap(), "precious");
    let _ = mounts::take_away_below(disk.path());
}

#[test]
fn who_has_a_local_volume_first_says_whose_it_is() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let disk = tempfile::tempdir().unwrap();
    let local = volume(Content::Local { path: disk.path().to_owned() });
    node.set_up(&local, Some(1234), ChangePolicy::Always, "..2v1").unwrap();
    let (other, pod) = (PodDirectory::new(&node.root(), "other").unwrap(), super::pod("{}"));
    let second = SetUp {
        pod: &pod,
        directory: &other,
        group: Some(4321),
        policy: ChangePolicy::Always,
        memory_bytes: 0,
        version: "..2v1",
    };
    set_up(&second, &local).unwrap();
    assert_eq!(group(disk.path()), 1234);
    tear_down(&node.root(), UID).unwrap();
    tear_down(&node.root(), "other").unwrap();
    set_up(&second, &local).unwrap();
    assert_eq!(group(disk.path()), 4321);
}

#[test]
fn a_local_volume_can_be_read_only_and_must_be_there() {
    if !is_root() {
        return;
    }
    let node = Node::new();
    let disk = tempfile::tempdir().unwrap();
    let local = Gathered { read_only: true, ..volume(Content::Local { path: disk.path().to_owned() }) };
    let path = node.set_up(&local, None, ChangePolicy::Always, "..2v1").unwrap();
    assert!(fs::write(path.join("x"), b"").is_err());
    tear_down(&node.root(), UID).unwrap();
    let none = volume(Content::Local { path: disk.path().join("none") });
    let expected = format!("path {:?} does not exist", disk.path().join("none").display().to_string());
    assert_eq!(node.set_up(&none, None, ChangePolicy::Always, "..2v1"), Err(expected));
}

#[test]
fn a_root_that_is_right_says_that_all_are() {
    if !is_root() {
        return;
    }
    let volume = tempfile::tempdir().unwrap();
    let file = volume.path().join("file");
    fs::write(&file, b"").unwrap();
    give_to_group(volume.path(), 1234, false, ChangePolicy::OnRootMismatch).unwrap();
    assert_eq!((group(volume.path()), group(&file)), (1234, 1234));
    std::os::unix::fs::chown(&file, None, Some(0)).unwrap();
    give_to_group(volume.path(), 1234, false, ChangePolicy::OnRootMismatch).unwrap();
    assert_eq!(group(&file), 0);
    give_to_group(volume.path(), 1234, false, ChangePolicy::Always).unwrap();
    assert_eq!(group(&file), 1234);
}

#[test]
fn links_in_a_volume_change_nothing_outside() {
    if !is_root() {
        return;
    }
    let (volume, host) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = host.path().join("file");
    fs::write(&file, b"").unwrap();
    let before = (mode(&file), group(&file), mode(host.path()));
    std::os::unix::fs::symlink(&file, volume.path().join("to-file")).unwrap();
    std::os::unix::fs::symlink(host.path(), volume.path().join("to-directory")).unwrap();
    give_to_group(volume.path(), 1234, false, ChangePolicy::Always).unwrap();
    assert_eq!((mode(&file), group(&file), mode(host.path())), before);
    assert_eq!(group(&volume.path().join("to-file")), 1234);
}

#[test]
fn uids_that_are_paths_are_nobodys() {
    let node = Node::new();
    fs::write(node.root().join("kept"), b"").unwrap();
    for uid in ["..", "../..", ".", "", "a/b"] {
        tear_down(&node.root(), uid).unwrap();
    }
    assert!(Path::new(&node.root().join("kept")).exists());
}
