//! Stacks directories with overlayfs.
//!
//! Options of a mount are one page of text in the kernel, too little for the paths of many layers. Kernels since 6.7 take
//! layers one by one; for others paths are made short by open files.

use std::fmt::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

/// What the kernel takes as text for one option, its end included.
const MAX_OPTION_BYTES: usize = 256;

pub(super) struct Stack<'a> {
    /// The highest first.
    pub lower: &'a [PathBuf],
    pub upper: &'a Path,
    pub work: &'a Path,
}

/// Whether layers are to be copied instead: everything but a host that has no room left.
pub(super) fn is_refused(error: Errno, what: &Path) -> bool {
    if matches!(error, Errno::NOSPC | Errno::NOMEM | Errno::DQUOT) {
        return false;
    }
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        tracing::warn!(
            path = %what.display(),
            %error,
            "overlayfs cannot be used here: layers of images are copied for every container, which takes time and disk; \
             a data directory on ext4 or xfs helps"
        );
    });
    true
}

/// Options that builds of the kernel may have on, and that would make an upper directory useless for any other mount.
const OFF: [&str; 3] = ["index", "metacopy", "redirect_dir"];

impl Stack<'_> {
    pub(super) fn mount(&self, target: &Path) -> rustix::io::Result<()> {
        match self.mount_by_file_descriptor(target) {
            // An older kernel; and what is really wrong is wrong for the other way, too.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NAMETOOLONG | Errno::PERM) => self.mount_by_options(target),
            other => other,
        }
    }

    fn mount_by_file_descriptor(&self, target: &Path) -> rustix::io::Result<()> {
        let long = |path: &Path| path.as_os_str().len() >= MAX_OPTION_BYTES;
        if self.lower.iter().any(|path| long(path)) || long(self.upper) || long(self.work) {
            return Err(Errno::NAMETOOLONG);
        }
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "source", "overlay")?;
        for lower in self.lower {
            fsconfig_set_string(&context, "lowerdir+", lower)?;
        }
        fsconfig_set_string(&context, "upperdir", self.upper)?;
        fsconfig_set_string(&context, "workdir", self.work)?;
        for option in OFF.into_iter().filter(|option| is_known(option)) {
            fsconfig_set_string(&context, option, "off")?;
        }
        fsconfig_create(&context)?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        move_mount(&mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
    }

    fn mount_by_options(&self, target: &Path) -> rustix::io::Result<()> {
        let open =
            |path: &Path| rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let name = |file: &OwnedFd| format!("/proc/self/fd/{}", file.as_raw_fd());
        let lower = self.lower.iter().map(|path| open(path)).collect::<rustix::io::Result<Vec<_>>>()?;
        let (upper, work) = (open(self.upper)?, open(self.work)?);
        let names: Vec<String> = lower.iter().map(name).collect();
        let mut options = format!("lowerdir={},upperdir={},workdir={}", names.join(":"), name(&upper), name(&work));
        for option in OFF.into_iter().filter(|option| is_known(option)) {
            write!(options, ",{option}=off").expect("a string takes what is written");
        }
        let options = std::ffi::CString::new(options).expect("there is no NUL in digits");
        rustix::mount::mount("overlay", target, "overlay", MountFlags::empty(), Some(options.as_c_str()))
    }
}

/// Takes a mount away, at once for all who look; what is not mounted is taken away already.
pub(super) fn unmount(target: &Path) -> rustix::io::Result<()> {
    match rustix::mount::unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn is_known(option: &str) -> bool {
    Path::new("/sys/module/overlay/parameters").join(option).exists()
}
