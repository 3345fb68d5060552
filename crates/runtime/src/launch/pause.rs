//! The process that holds a pod's namespaces. It executes nothing, so that no file of anybody is needed for it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::mount::{MountAttrFlags, MountPropagationFlags};
use rustix::process::{Signal, WaitOptions};
use rustix::thread::UnshareFlags;

use super::resolve::{Missing, resolve};
use super::root::{attach, enter_root, new_mount};
use super::{Channel, Failure, ProcessUser, Report, init, privileges, terminal};
use crate::api::{NamespaceMode, Namespaces};
use crate::sys;

/// Where it has the memory that the pod's containers share.
pub(super) const SHARED_MEMORY: &str = "/shm";
const SHARED_MEMORY_OPTIONS: &[(&str, &str)] = &[("mode", "1777"), ("size", "65536k")];
/// The lowest score there is: this process is nothing to be gained from.
const OOM_SCORE: i32 = -998;

pub struct PausePlan<'a> {
    pub namespaces: Namespaces,
    /// Empty: the host's.
    pub hostname: &'a str,
    pub sysctls: &'a BTreeMap<String, String>,
    pub entrances: Vec<PathBuf>,
    /// An empty directory for its root.
    pub mount_point: PathBuf,
    pub channel: Channel,
}

/// Runs in the child; in a pid namespace of the pod's own already, if there is to be one. Never returns.
pub fn pause(plan: PausePlan<'_>) -> ! {
    let channel = plan.channel;
    if let Err(failure) = prepare(&plan.namespaces, plan.hostname, plan.sysctls, &plan.entrances, &plan.mount_point) {
        channel.fail(&failure.0);
        std::process::exit(1);
    }
    let told = channel.send(&Report::Ready { user: ProcessUser::default() }, None);
    drop(channel);
    if told.is_err() {
        std::process::exit(1);
    }
    hold()
}

fn prepare(
    namespaces: &Namespaces,
    hostname: &str,
    sysctls: &BTreeMap<String, String>,
    entrances: &[PathBuf],
    mount_point: &Path,
) -> Result<(), Failure> {
    init::prepare(entrances, OOM_SCORE)?;
    let nothing = terminal::nothing()?;
    let mut own = UnshareFlags::NEWNS;
    if namespaces.network != NamespaceMode::Node {
        own |= UnshareFlags::NEWNET | UnshareFlags::NEWUTS;
    }
    if namespaces.ipc != NamespaceMode::Node {
        own |= UnshareFlags::NEWIPC;
    }
    sys::unshare(own).map_err(Failure::doing("make the pod's namespaces"))?;
    if !hostname.is_empty() && namespaces.network != NamespaceMode::Node {
        rustix::system::sethostname(hostname.as_bytes())
            .map_err(|error| Failure::doing(format_args!("sethostname {hostname:?}"))(error.into()))?;
    }
    for (name, value) in sysctls {
        set_sysctl(name, value)?;
    }
    leave_the_host(mount_point).map_err(Failure::doing("leave the host's files"))?;
    for put in [rustix::stdio::dup2_stdin, rustix::stdio::dup2_stdout, rustix::stdio::dup2_stderr] {
        put(&nothing).map_err(|error| Failure::doing("close streams")(error.into()))?;
    }
    let _best_effort = rustix::thread::set_name(c"pause");
    // No capability is of use to it any more.
    privileges::become_user(&ProcessUser::default(), 0)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::doing("tie to the shim")(error.into()))
}

fn set_sysctl(name: &str, value: &str) -> Result<(), Failure> {
    // Both ways of writing them are in use; a slash is a slash, and a dot in an interface's name comes with slashes only.
    let path = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        return Err(Failure(format!("sysctl {name:?} is no name")));
    }
    std::fs::write(Path::new("/proc/sys").join(&path), value)
        .map_err(Failure::doing(format_args!("open /proc/sys/{path}: set sysctl {name:?}")))
}

/// An empty root with nothing but the shared memory, so that no mount of the host is held.
fn leave_the_host(mount_point: &Path) -> io::Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let quiet =
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let top = new_mount("tmpfs", &[("mode", "755"), ("size", "64k")], quiet)?;
    let here = rustix::fs::open(
        mount_point,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    attach(top.as_fd(), here.as_fd())?;
    let place = resolve(top.as_fd(), SHARED_MEMORY, Missing::Directory)?;
    attach(new_mount("tmpfs", SHARED_MEMORY_OPTIONS, quiet)?.as_fd(), place.as_fd())?;
    enter_root(top.as_fd())
}

/// Waits until it is killed, and buries those who were left to it as the first process of a pid namespace.
fn hold() -> ! {
    sys::block_all_signals();
    loop {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        sys::wait_for_signal(&[libc::SIGCHLD]);
    }
}
