//! Whether this host can run containers at all, and what stands in the way.

use crate::api::Resources;
use crate::cgroups;
use crate::sys::{self, MountChange};

/// Why no container can be run here; None: all that can be tried without one works.
pub fn problem() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("running containers takes root".to_owned());
    }
    cgroup_problem().or_else(mount_problem)
}

fn cgroup_problem() -> Option<String> {
    let cgroups = match cgroups::Hierarchies::of_host() {
        Ok(hierarchies) => hierarchies.open(),
        Err(error) => return Some(error.to_string()),
    };
    let path = format!("rkube-try-{}", std::process::id());
    let made = cgroups.create(&path, &Resources::default(), true);
    let removed = cgroups::remove_all(cgroups.as_ref(), &path);
    made.and(removed).err().map(|error| format!("cgroups cannot be made here: {error}"))
}

/// Mounts something nowhere, with the calls that containers are made with.
fn mount_problem() -> Option<String> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
    let attempt = || -> std::io::Result<()> {
        let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        sys::change_mount(&mount, MountChange { set: sys::MOUNT_READ_ONLY, ..Default::default() })
    };
    attempt().err().map(|error| match error.raw_os_error() {
        Some(libc::ENOSYS) => "containers take Linux 5.12 or newer".to_owned(),
        Some(libc::EPERM) => {
            "containers take the capability CAP_SYS_ADMIN, which this process does not have".to_owned()
        }
        _ => format!("nothing can be mounted here: {error}"),
    })
}
