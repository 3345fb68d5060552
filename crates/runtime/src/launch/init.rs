//! The first process of a container, from the fork of the shim to its program.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags};

use super::{Bundle, Channel, Failure, ProcessUser, Report, Stdio};
use super::{devices, execute, identity, mounts, privileges, root, terminal};
use crate::api::{Confinement, NamespaceMode, Namespaces};
use crate::cgroups::Hierarchies;
use crate::seccomp::Filter;
use crate::sys::{self, MountChange};

/// What a container finds around itself.
pub struct Surroundings<'a> {
    /// Of the process that holds the pod's namespaces.
    pub pause: BorrowedFd<'a>,
    pub hierarchies: &'a Hierarchies,
}

pub struct InitPlan<'a> {
    pub bundle: &'a Bundle,
    pub surroundings: Surroundings<'a>,
    /// Of its cgroup.
    pub entrances: Vec<PathBuf>,
    pub filter: Option<Filter>,
    pub stdio: Stdio,
    pub channel: Channel,
}

/// Runs in the child, in its pid namespace already. Never returns: it becomes the program, or it says why not and ends.
pub fn init(plan: InitPlan<'_>) -> ! {
    let InitPlan { bundle, surroundings, entrances, filter, stdio, channel } = plan;
    let failure = match run(bundle, &surroundings, &entrances, filter.as_ref(), stdio, &channel) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    channel.fail(&failure.0);
    std::process::exit(128)
}

fn run(
    bundle: &Bundle,
    surroundings: &Surroundings<'_>,
    entrances: &[PathBuf],
    filter: Option<&Filter>,
    stdio: Stdio,
    channel: &Channel,
) -> Result<Infallible, Failure> {
    prepare(entrances, bundle.resources.oom_score_adjust)?;
    let nothing = terminal::nothing()?;
    let shared_memory = shared_memory(surroundings.pause, &bundle.namespaces)?;
    let volumes = mounts::open_volumes(&bundle.mounts)?;
    enter_namespaces(surroundings.pause, bundle)?;
    rustix::process::umask(Mode::empty());
    let place = root::mount_root(&bundle.root, &bundle.mount_point)?;
    mounts::mount_system(place.as_fd(), bundle, surroundings.hierarchies, shared_memory)?;
    devices::make_devices(place.as_fd(), bundle)?;
    mounts::attach_volumes(place.as_fd(), volumes)?;
    mounts::mask(place.as_fd(), bundle)?;
    root::enter_root(place.as_fd()).map_err(Failure::doing("pivot_root"))?;
    drop(place);
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let lists = identity::Lists::read();
    let user = identity::identify(bundle, &lists)?;
    terminal::set_streams(stdio, &nothing, user.user, channel, true)?;
    make_working_directory(&bundle.working_directory)?;
    if bundle.security.read_only_root {
        make_root_read_only().map_err(Failure::doing("make the root read-only"))?;
    }
    let environment = with_home(&bundle.environment, &lists, user.user);
    let process = Process { bundle, user: &user, environment: &environment, arguments: &bundle.arguments };
    process.become_it(filter, channel)
}

/// What is left when a process is where it belongs: to be who it should be, and to become its program.
pub(super) struct Process<'a> {
    pub(super) bundle: &'a Bundle,
    pub(super) user: &'a ProcessUser,
    pub(super) environment: &'a [String],
    pub(super) arguments: &'a [String],
}

impl Process<'_> {
    pub(super) fn become_it(&self, filter: Option<&Filter>, channel: &Channel) -> Result<Infallible, Failure> {
        let security = &self.bundle.security;
        let capabilities = privileges::capability_bits(security, privileges::bounding_set());
        // Without the promise of no new privileges a filter takes a capability that is about to go.
        if !security.no_new_privileges {
            install(filter)?;
        }
        confine(&security.apparmor, security.privileged)?;
        // As root, where a user may not look into it, and as the user, where root may not (as on a network's file system).
        let directory = &self.bundle.working_directory;
        let as_root = rustix::process::chdir(directory.as_str());
        privileges::become_user(self.user, capabilities)?;
        if as_root.is_err() {
            rustix::process::chdir(directory.as_str()).map_err(|error| {
                Failure::doing(format_args!("chdir to cwd ({directory:?}) set in config.json failed"))(error.into())
            })?;
        }
        let name = self.arguments.first().ok_or_else(|| Failure("no command specified".to_owned()))?;
        let path = execute::find(name, self.environment)?;
        // Set last, as a change of the user clears it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(|error| Failure::doing("tie to the shim")(error.into()))?;
        if security.no_new_privileges {
            rustix::thread::set_no_new_privs(true)
                .map_err(|error| Failure::doing("promise no new privileges")(error.into()))?;
            install(filter)?;
        }
        channel.send(&Report::Ready { user: self.user.clone() }, None).map_err(Failure::doing("tell the shim"))?;
        execute::execute(&path, self.arguments, self.environment)
    }
}

/// Has AppArmor confine the program. The default is no confinement where nobody has loaded a profile for it.
fn confine(apparmor: &Confinement, privileged: bool) -> Result<(), Failure> {
    let Confinement::Localhost(profile) = apparmor else { return Ok(()) };
    if privileged {
        return Ok(());
    }
    let profile = profile.strip_prefix("localhost/").unwrap_or(profile);
    let said = |error| Failure::doing(format_args!("apply apparmor profile {profile:?}"))(error);
    std::fs::write("/proc/thread-self/attr/apparmor/exec", format!("exec {profile}")).map_err(said)
}

fn install(filter: Option<&Filter>) -> Result<(), Failure> {
    filter.map_or(Ok(()), |filter| filter.install().map_err(Failure::doing("install the seccomp filter")))
}

/// A session of its own, no descriptors for the program, the right cgroup.
pub(super) fn prepare(entrances: &[PathBuf], oom_score: i32) -> Result<(), Failure> {
    sys::reset_signals();
    // Nobody in the container looks into this process before it is the container's own program.
    let _best_effort = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    rustix::process::setsid().map_err(|error| Failure::doing("start a session")(error.into()))?;
    sys::close_on_exec_from(3).map_err(Failure::doing("mark descriptors"))?;
    for file in entrances {
        std::fs::write(file, "0").map_err(Failure::doing(format_args!("enter the cgroup by {}", file.display())))?;
    }
    privileges::adjust_oom_score(oom_score);
    Ok(())
}

/// A copy of the pod's `/dev/shm`, from the namespace of the process that holds it; or of the host's.
fn shared_memory(pause: BorrowedFd<'_>, namespaces: &Namespaces) -> Result<OwnedFd, Failure> {
    let said = |error: io::Error| Failure::doing("open the pod's shared memory")(error);
    let private = |tree: &OwnedFd| {
        let propagation = sys::PROPAGATE_PRIVATE;
        sys::change_mount(tree, MountChange { propagation, recursive: true, ..Default::default() })
    };
    if namespaces.ipc == NamespaceMode::Node {
        let tree = root::clone_tree(CWD, "/dev/shm", true).map_err(said)?;
        private(&tree).map_err(said)?;
        return Ok(tree);
    }
    let enter = || -> io::Result<OwnedFd> {
        let host = rustix::fs::open("/proc/self/ns/mnt", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::thread::move_into_thread_name_spaces(pause, ThreadNameSpaceType::MOUNT)?;
        let tree = root::clone_tree(CWD, super::pause::SHARED_MEMORY, false);
        rustix::thread::move_into_link_name_space(host.as_fd(), Some(LinkNameSpaceType::Mount))?;
        tree
    };
    enter().map_err(said)
}

fn enter_namespaces(pause: BorrowedFd<'_>, bundle: &Bundle) -> Result<(), Failure> {
    let shared = shared_namespaces(&bundle.namespaces);
    if !shared.is_empty() {
        rustix::thread::move_into_thread_name_spaces(pause, shared)
            .map_err(|error| Failure::doing("enter the pod's namespaces")(error.into()))?;
    }
    let mut own = UnshareFlags::NEWNS;
    if !bundle.security.privileged {
        own |= UnshareFlags::NEWCGROUP;
    }
    sys::unshare(own).map_err(Failure::doing("make namespaces"))
}

/// Those that the containers of a pod share through its pause process, but that of process ids.
pub(super) fn shared_namespaces(namespaces: &Namespaces) -> ThreadNameSpaceType {
    let mut shared = ThreadNameSpaceType::empty();
    if namespaces.network != NamespaceMode::Node {
        // A name of its own goes with a network of its own.
        shared |= ThreadNameSpaceType::NETWORK | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    }
    if namespaces.ipc != NamespaceMode::Node {
        shared |= ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION;
    }
    shared
}

fn make_working_directory(path: &str) -> Result<(), Failure> {
    match std::fs::create_dir_all(path) {
        Err(error) if !std::path::Path::new(path).is_dir() => Err(Failure::doing(format_args!("mkdir {path}"))(error)),
        _ => Ok(()),
    }
}

fn make_root_read_only() -> io::Result<()> {
    let top = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    sys::change_mount(&top, MountChange { set: sys::MOUNT_READ_ONLY, ..Default::default() })
}

pub(super) fn with_home(environment: &[String], lists: &identity::Lists, user: u32) -> Vec<String> {
    let mut environment = environment.to_vec();
    if !environment.iter().any(|variable| variable.starts_with("HOME=")) {
        environment.push(format!("HOME={}", lists.home(user)));
    }
    environment
}
