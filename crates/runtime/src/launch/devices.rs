//! Files of devices in a container, and who may open them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};

use super::resolve::{Missing, resolve};
use super::root::{attach, clone_tree};
use super::{Bundle, Failure};
use crate::cgroups::DeviceRule;

/// What every container has: name, major and minor number.
const STANDARD: &[(&str, u32, u32)] =
    &[("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
    ("core", "/proc/kcore"),
];
/// A host with more devices shows the first ones only to privileged containers.
const HOST_DEVICES_MAX: usize = 4096;
/// Of devices in directories: `/dev/snd/by-path/…` is as deep as it gets.
const HOST_DEPTH_MAX: usize = 4;
/// What has its own place in a container.
const NOT_THE_HOSTS: &[&str] = &["pts", "shm", "fd", "mqueue", "console", "ptmx", "tty"];

#[derive(Clone, Debug)]
struct Node {
    /// Relative to the container's root.
    path: String,
    kind: char,
    major: u32,
    minor: u32,
    mode: u32,
    user: u32,
    group: u32,
    access: String,
}

/// The rules for a container's devices; None: all are allowed.
pub fn device_rules(bundle: &Bundle) -> Result<Option<Vec<DeviceRule>>, Failure> {
    if bundle.security.privileged {
        return Ok(None);
    }
    let rule = |kind, major, minor, access: &str| DeviceRule { kind, major, minor, access: access.to_owned() };
    // Anybody may make any file of a device: opening it is what counts.
    let mut rules = vec![rule('c', None, None, "m"), rule('b', None, None, "m")];
    rules.extend(STANDARD.iter().map(|(_, major, minor)| rule('c', Some(*major), Some(*minor), "rwm")));
    rules.push(rule('c', Some(5), Some(2), "rwm"));
    rules.push(rule('c', Some(136), None, "rwm"));
    for node in given(bundle)? {
        rules.push(rule(node.kind, Some(node.major), Some(node.minor), &node.access));
    }
    Ok(Some(rules))
}

/// Makes the files. The host's `/dev` is still in sight.
pub(super) fn make_devices(root: BorrowedFd<'_>, bundle: &Bundle) -> Result<(), Failure> {
    for (name, major, minor) in STANDARD {
        let path = format!("/dev/{name}");
        let access = "rwm".to_owned();
        let node = Node { path, kind: 'c', major: *major, minor: *minor, mode: 0o666, user: 0, group: 0, access };
        make(root, &node)?;
    }
    let directory = resolve(root, "/dev", Missing::Fail).map_err(Failure::doing("open /dev of the container"))?;
    for (name, target) in LINKS {
        rustix::fs::symlinkat(*target, &directory, *name)
            .map_err(|error| Failure::doing(format_args!("link /dev/{name}"))(error.into()))?;
    }
    if bundle.security.privileged {
        let mut nodes = Vec::new();
        collect(Path::new("/dev"), 0, &mut nodes);
        for node in nodes {
            make(root, &node)?;
        }
    }
    for node in given(bundle)? {
        make(root, &node)?;
    }
    Ok(())
}

/// Those that the pod asks for.
fn given(bundle: &Bundle) -> Result<Vec<Node>, Failure> {
    let mut nodes = Vec::new();
    for device in &bundle.devices {
        let host = device.host_path.display();
        let mut node = node_of(&device.host_path)
            .map_err(Failure::doing(format_args!(
                "error gathering device information while adding custom device \"{host}\""
            )))?
            .ok_or_else(|| {
                Failure(format!(
                    "error gathering device information while adding custom device \"{host}\": not a device node"
                ))
            })?;
        node.path = device.container_path.clone();
        node.access = if device.permissions.is_empty() { "rwm".to_owned() } else { device.permissions.clone() };
        nodes.push(node);
    }
    Ok(nodes)
}

fn node_of(path: &Path) -> io::Result<Option<Node>> {
    let metadata = std::fs::metadata(path)?;
    let kind = match metadata.file_type() {
        kind if kind.is_char_device() => 'c',
        kind if kind.is_block_device() => 'b',
        _ => return Ok(None),
    };
    Ok(Some(Node {
        path: path.to_string_lossy().into_owned(),
        kind,
        major: rustix::fs::major(metadata.rdev()),
        minor: rustix::fs::minor(metadata.rdev()),
        mode: metadata.mode() & 0o7777,
        user: metadata.uid(),
        group: metadata.gid(),
        access: "rwm".to_owned(),
    }))
}

fn collect(directory: &Path, depth: usize, nodes: &mut Vec<Node>) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let own_place = depth == 0 && path.file_name().is_some_and(|name| NOT_THE_HOSTS.iter().any(|own| name == *own));
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if own_place || nodes.len() >= HOST_DEVICES_MAX || metadata.is_symlink() {
            continue;
        }
        if metadata.is_dir() {
            if depth < HOST_DEPTH_MAX {
                collect(&path, depth + 1, nodes);
            }
        } else if let Ok(Some(node)) = node_of(&path) {
            let standard = STANDARD.iter().any(|(name, ..)| node.path == format!("/dev/{name}"));
            nodes.extend((!standard).then_some(node));
        }
    }
}

fn make(root: BorrowedFd<'_>, node: &Node) -> Result<(), Failure> {
    let said = |error: io::Error| Failure::doing(format_args!("make the device {:?}", node.path))(error);
    let (directory, name) = node.path.rsplit_once('/').unwrap_or(("", &node.path));
    if name.is_empty() || name == "." || name == ".." {
        return Err(Failure(format!("{:?} is no path of a device", node.path)));
    }
    let directory = resolve(root, directory, Missing::Directory).map_err(said)?;
    let kind = if node.kind == 'c' { FileType::CharacterDevice } else { FileType::BlockDevice };
    let number = rustix::fs::makedev(node.major, node.minor);
    let mode = Mode::from_raw_mode(node.mode);
    match rustix::fs::mknodat(&directory, name, kind, mode, number) {
        Ok(()) => {
            let (user, group) = (rustix::fs::Uid::from_raw(node.user), rustix::fs::Gid::from_raw(node.group));
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&directory, name, Some(user), Some(group), flags).map_err(|error| said(error.into()))
        }
        Err(rustix::io::Errno::EXIST) => Ok(()),
        // Where devices cannot be made, as in a container that runs rkube, the host's own is shown.
        Err(rustix::io::Errno::PERM) => bind(&directory, name, &node.path).map_err(said),
        Err(error) => Err(said(error.into())),
    }
}

fn bind(directory: &OwnedFd, name: &str, host: &str) -> io::Result<()> {
    let place = resolve(directory.as_fd(), name, Missing::File)?;
    let tree = clone_tree(CWD, host, false)?;
    attach(tree.as_fd(), place.as_fd())
}
