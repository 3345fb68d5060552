//! The container's root: put together, entered, and the host's left behind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::Failure;

/// Mounts the root at its place, in a mount namespace that is the container's own already.
pub(super) fn mount_root(root: &Path, mount_point: &Path) -> Result<OwnedFd, Failure> {
    let to = |error| Failure::doing(format_args!("mount the container's root at {}", mount_point.display()))(error);
    // What happens here is no business of the host's; what is unmounted there goes here, too.
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .map_err(|error| to(error.into()))?;
    let private = crate::sys::MountChange { propagation: crate::sys::PROPAGATE_PRIVATE, ..Default::default() };
    clone_tree(CWD, root, false)
        .and_then(|mount| crate::sys::change_mount(&mount, private).and_then(|()| attach_at(&mount, mount_point)))
        .map_err(to)?;
    open_directory(mount_point).map_err(to)
}

/// A copy of what is mounted at a path, which is mounted nowhere yet.
pub(super) fn clone_tree(
    directory: BorrowedFd<'_>,
    path: impl rustix::path::Arg,
    recursive: bool,
) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(rustix::mount::open_tree(directory, path, flags)?)
}

fn attach_at(mount: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(rustix::mount::move_mount(mount, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Mounts something on a place.
pub(super) fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", place, "", flags)?)
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Makes a mounted directory the root of this process, and takes the old one away.
pub(super) fn enter_root(root: BorrowedFd<'_>) -> io::Result<()> {
    let old = open_directory(Path::new("/"))?;
    rustix::process::fchdir(root)?;
    rustix::process::pivot_root(".", ".")?;
    // The old root lies on top of the new one now.
    rustix::process::fchdir(old.as_fd())?;
    rustix::mount::mount_change(".", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// A new file system of a kind, mounted nowhere yet. Options are pairs; those without a value are flags.
pub(super) fn new_mount(kind: &str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(&context, "source", kind)?;
    for (key, value) in options {
        if value.is_empty() {
            rustix::mount::fsconfig_set_flag(&context, *key)?;
        } else {
            rustix::mount::fsconfig_set_string(&context, *key, *value)?;
        }
    }
    rustix::mount::fsconfig_create(&context)?;
    Ok(rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}
