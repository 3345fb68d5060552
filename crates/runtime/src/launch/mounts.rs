//! What is mounted in a container: the kernel's own file systems, and the volumes of its pod.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::MountAttrFlags;

use super::resolve::{Missing, is_directory, resolve};
use super::root::{attach, clone_tree, new_mount};
use super::{Bundle, Failure};
use crate::api::{Mount, Propagation};
use crate::cgroups::Hierarchies;
use crate::sys::{self, MountChange};

/// A copy of a volume's mount that is mounted nowhere yet.
pub(super) struct Volume {
    mount: OwnedFd,
    target: String,
    directory: bool,
}

/// Takes hold of all volumes, in the mount namespace of the host: from here on no path of it counts any more.
pub(super) fn open_volumes(mounts: &[Mount]) -> Result<Vec<Volume>, Failure> {
    mounts.iter().map(open_volume).collect()
}

fn open_volume(mount: &Mount) -> Result<Volume, Failure> {
    let said = |error: io::Error| {
        Failure::doing(format_args!(
            "error mounting {:?} to rootfs at {:?}",
            mount.host_path.display().to_string(),
            mount.container_path
        ))(error)
    };
    let source = rustix::fs::open(&mount.host_path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| said(error.into()))?;
    check_propagation(mount, source.as_fd())?;
    let tree = clone_tree(source.as_fd(), "", true).map_err(said)?;
    let propagation = match mount.propagation {
        Propagation::Private => sys::PROPAGATE_PRIVATE,
        Propagation::HostToContainer => sys::PROPAGATE_SLAVE,
        Propagation::Bidirectional => sys::PROPAGATE_SHARED,
    };
    sys::change_mount(&tree, MountChange { propagation, recursive: true, ..Default::default() }).map_err(said)?;
    if mount.read_only || mount.recursive_read_only {
        let set = sys::MOUNT_READ_ONLY;
        let change = MountChange { set, recursive: mount.recursive_read_only, ..Default::default() };
        sys::change_mount(&tree, change).map_err(said)?;
    }
    let directory = is_directory(source.as_fd()).map_err(said)?;
    Ok(Volume { mount: tree, target: mount.container_path.clone(), directory })
}

/// What is to travel between host and container needs a mount on the host that lets it.
fn check_propagation(mount: &Mount, source: BorrowedFd<'_>) -> Result<(), Failure> {
    let (fields, wanted): (&[&str], &str) = match mount.propagation {
        Propagation::Private => return Ok(()),
        Propagation::HostToContainer => (&["shared:", "master:"], "shared or slave"),
        Propagation::Bidirectional => (&["shared:"], "shared"),
    };
    let (place, options) = mount_of(source).map_err(Failure::doing("look for a volume's mount"))?;
    if options.split(' ').any(|option| fields.iter().any(|field| option.starts_with(field))) {
        return Ok(());
    }
    let path = mount.host_path.display();
    Err(Failure(format!("path \"{path}\" is mounted on {place:?} but it is not a {wanted} mount")))
}

/// Where the mount of a descriptor is, and its optional fields.
fn mount_of(source: BorrowedFd<'_>) -> io::Result<(String, String)> {
    let information = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", source.as_raw_fd()))?;
    let id =
        information.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim).unwrap_or_default().to_owned();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(id.as_str())).unwrap_or_default();
    let before = line.split(" - ").next().unwrap_or_default();
    let words: Vec<&str> = before.split(' ').collect();
    let place = words.get(4).copied().unwrap_or_default().to_owned();
    Ok((place, words.get(6..).unwrap_or_default().join(" ")))
}

/// Mounts volumes in their order. Where a target leads through a link it stays in the root.
pub(super) fn attach_volumes(root: BorrowedFd<'_>, volumes: Vec<Volume>) -> Result<(), Failure> {
    for volume in volumes {
        let missing = if volume.directory { Missing::Directory } else { Missing::File };
        let target = &volume.target;
        let said = |error: io::Error| Failure::doing(format_args!("error mounting to rootfs at {target:?}"))(error);
        let place = resolve(root, target, missing).map_err(said)?;
        attach(volume.mount.as_fd(), place.as_fd()).map_err(said)?;
    }
    Ok(())
}

/// What the kernel shows of itself, and what the containers of a pod share.
pub(super) fn mount_system(
    root: BorrowedFd<'_>,
    bundle: &Bundle,
    hierarchies: &Hierarchies,
    shared_memory: OwnedFd,
) -> Result<(), Failure> {
    let quiet =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let devices = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_STRICTATIME;
    let terminals = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let privileged = bundle.security.privileged;
    let sys_attributes = if privileged { quiet } else { quiet | MountAttrFlags::MOUNT_ATTR_RDONLY };
    mount_new(root, "proc", "/proc", &[], quiet)?;
    mount_new(root, "tmpfs", "/dev", &[("mode", "755"), ("size", "65536k")], devices)?;
    let options = [("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620"), ("gid", "5")];
    mount_new(root, "devpts", "/dev/pts", &options, terminals)?;
    // Kernels may be built without it.
    if let Ok(queues) = new_mount("mqueue", &[], quiet) {
        let said = |error: io::Error| Failure::doing("error mounting \"mqueue\" to rootfs at \"/dev/mqueue\"")(error);
        let place = ordinary_directory(root, "/dev/mqueue").map_err(said)?;
        attach(queues.as_fd(), place.as_fd()).map_err(said)?;
    }
    mount_new(root, "sysfs", "/sys", &[], sys_attributes)?;
    let said = |error: io::Error| Failure::doing("error mounting to rootfs at \"/dev/shm\"")(error);
    let place = ordinary_directory(root, "/dev/shm").map_err(said)?;
    attach(shared_memory.as_fd(), place.as_fd()).map_err(said)?;
    mount_cgroups(root, hierarchies, privileged)
}

fn mount_new(
    root: BorrowedFd<'_>,
    kind: &str,
    target: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<(), Failure> {
    let said =
        |error: io::Error| Failure::doing(format_args!("error mounting {kind:?} to rootfs at {target:?}"))(error);
    let mount = new_mount(kind, options, attributes).map_err(said)?;
    let place = ordinary_directory(root, target).map_err(said)?;
    attach(mount.as_fd(), place.as_fd()).map_err(said)
}

/// A directory that is no link: with a link the image would decide where the kernel's files are seen, and which are masked.
fn ordinary_directory(root: BorrowedFd<'_>, target: &str) -> io::Result<OwnedFd> {
    let mut place = root.try_clone_to_owned()?;
    for part in target.split('/').filter(|part| !part.is_empty()) {
        match rustix::fs::mkdirat(&place, part, Mode::from_raw_mode(0o755)) {
            Err(error)
                if error != rustix::io::Errno::EXIST
                    && error != rustix::io::Errno::ROFS
                    && error != rustix::io::Errno::PERM
                    && error != rustix::io::Errno::ACCESS =>
            {
                return Err(error.into());
            }
            _ => {}
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        place = rustix::fs::openat(&place, part, flags, Mode::empty())?;
    }
    Ok(place)
}

/// The container's own groups, as its namespace shows them; to a privileged one the host's.
fn mount_cgroups(root: BorrowedFd<'_>, hierarchies: &Hierarchies, privileged: bool) -> Result<(), Failure> {
    let target = "/sys/fs/cgroup";
    let said = |error: io::Error| Failure::doing("error mounting \"cgroup\" to rootfs at \"/sys/fs/cgroup\"")(error);
    if privileged {
        let place = resolve(root, target, Missing::Fail).map_err(said)?;
        let tree = clone_tree(CWD, target, true).map_err(said)?;
        let private = MountChange { propagation: sys::PROPAGATE_PRIVATE, recursive: true, ..Default::default() };
        sys::change_mount(&tree, private).map_err(said)?;
        return attach(tree.as_fd(), place.as_fd()).map_err(said);
    }
    let quiet =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let read_only = quiet | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let place = resolve(root, target, Missing::Fail).map_err(said)?;
    let controllers = match hierarchies {
        Hierarchies::V2(_) => {
            let mount = new_mount("cgroup2", &[], read_only).map_err(said)?;
            return attach(mount.as_fd(), place.as_fd()).map_err(said);
        }
        Hierarchies::V1(controllers) => controllers,
    };
    let top = new_mount("tmpfs", &[("mode", "755")], quiet).map_err(said)?;
    attach(top.as_fd(), place.as_fd()).map_err(said)?;
    // Controllers that share a hierarchy on the host share it here.
    let mut places: Vec<_> = controllers.values().collect();
    places.sort();
    places.dedup();
    for path in places {
        let options: Vec<(&str, &str)> =
            controllers.iter().filter(|(_, place)| *place == path).map(|(name, _)| (name.as_str(), "")).collect();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let mount = new_mount("cgroup", &options, read_only).map_err(said)?;
        let place = resolve(root, &format!("{target}/{name}"), Missing::Directory).map_err(said)?;
        attach(mount.as_fd(), place.as_fd()).map_err(said)?;
    }
    let read_only = MountChange { set: sys::MOUNT_READ_ONLY, ..Default::default() };
    sys::change_mount(&top, read_only).map_err(said)
}

/// Hides paths, and makes others read-only.
pub(super) fn mask(root: BorrowedFd<'_>, bundle: &Bundle) -> Result<(), Failure> {
    if bundle.security.privileged {
        return Ok(());
    }
    for path in &bundle.security.readonly_paths {
        let said = |error: io::Error| Failure::doing(format_args!("make {path:?} read-only"))(error);
        let Some(place) = there(root, path).map_err(said)? else { continue };
        let tree = clone_tree(place.as_fd(), "", true).map_err(said)?;
        let set = sys::MOUNT_READ_ONLY;
        sys::change_mount(&tree, MountChange { set, ..Default::default() }).map_err(said)?;
        attach(tree.as_fd(), place.as_fd()).map_err(said)?;
    }
    for path in &bundle.security.masked_paths {
        let said = |error: io::Error| Failure::doing(format_args!("mask {path:?}"))(error);
        let Some(place) = there(root, path).map_err(said)? else { continue };
        let cover = if is_directory(place.as_fd()).map_err(said)? {
            new_mount("tmpfs", &[("size", "4k")], MountAttrFlags::MOUNT_ATTR_RDONLY).map_err(said)?
        } else {
            clone_tree(CWD, "/dev/null", false).map_err(said)?
        };
        attach(cover.as_fd(), place.as_fd()).map_err(said)?;
    }
    Ok(())
}

fn there(root: BorrowedFd<'_>, path: &str) -> io::Result<Option<OwnedFd>> {
    match resolve(root, path, Missing::Fail) {
        Ok(place) => Ok(Some(place)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) => Ok(None),
        Err(error) => Err(error),
    }
}
