//! The program that becomes a shim, so that no container can write to it.
//!
//! A process in a container may reach, by `/proc`, the file of a program that was executed to get into it. So shims execute
//! a copy of its mount that is read-only and mounted nowhere: whoever opens it by that way cannot write to it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::OpenTreeFlags;

use crate::sys::{self, MountChange};

pub(super) struct Program {
    path: PathBuf,
    read_only: Option<OwnedFd>,
}

impl Program {
    pub(super) fn open(path: &Path) -> Self {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = rustix::mount::open_tree(CWD, path, flags).ok();
        let change = MountChange { set: sys::MOUNT_READ_ONLY, ..Default::default() };
        // Hosts that cannot do it run no containers either: the error shows there.
        let read_only = tree.filter(|tree| sys::change_mount(tree, change).is_ok());
        Self { path: path.to_owned(), read_only }
    }

    /// To be executed.
    pub(super) fn path(&self) -> PathBuf {
        match &self.read_only {
            Some(tree) => PathBuf::from(format!("/proc/self/fd/{}", tree.as_raw_fd())),
            None => self.path.clone(),
        }
    }
}
