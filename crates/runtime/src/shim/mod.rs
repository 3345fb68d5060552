//! The process that stands behind a pod: it holds the pod's namespaces by a child, starts containers, owns their streams and
//! logs, and keeps their exit codes. It outlives the daemon, which finds it again by its socket.
//!
//! It is this program executed anew, has one thread, so that it can fork, and waits for everything in one place. Nothing
//! that a container does makes it wait: streams have bounded buffers, and children report over sockets. If it is killed,
//! the kernel kills its pause process and its containers: nothing of a pod runs without somebody who looks after it.

mod connection;
mod container;
mod log;
mod output;
mod protocol;
mod requests;
mod serve;
mod start;

pub use protocol::{
    Answer, BUNDLE_FILE, CONFIGURATION_FILE, Configuration, DESCRIPTORS_MAX, Problem, RECORD_FILE, Record, Request,
    SOCKET_FILE, Streams, decode, encode,
};

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::cgroups::Entry;

/// The name of the subcommand by which a shim is started.
pub const COMMAND: &str = "shim";
/// How long a shim that could not be set up waits for somebody to tell it to.
const FAREWELL: Duration = Duration::from_secs(10);

/// Nanoseconds since 1970.
pub type Clock = fn() -> u64;

/// A shim, from its beginning to its end. The only argument is the sandbox's run directory; the standard input is the
/// socket to listen on.
pub fn main(mut arguments: impl Iterator<Item = OsString>, clock: Clock) -> ExitCode {
    let Some(directory) = arguments.next().map(PathBuf::from) else {
        let _nobody_reads = writeln!(io::stderr(), "rkube shim: started by rkube itself, with a directory");
        return ExitCode::FAILURE;
    };
    match run(&directory, clock) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_reads = writeln!(io::stderr(), "rkube shim: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path, clock: Clock) -> io::Result<()> {
    let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    let configuration: Configuration =
        serde_json::from_slice(&std::fs::read(directory.join(CONFIGURATION_FILE))?).map_err(io::Error::other)?;
    // Its children start in the namespaces of containers: nobody there is to look into them before they are the container's.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    let _leads_one_already = rustix::process::setsid();
    let _only_a_name = rustix::thread::set_name(c"rkube-shim");
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let cgroups = configuration.hierarchies.open();
    // Where it would take long to get there, a shim stays with its daemon.
    if let Entry::Files(files) = cgroups.entry(&configuration.shim_cgroup) {
        files.iter().try_for_each(|file| std::fs::write(file, "0"))?;
    }
    // Of all processes of a pod this is the one to be killed last.
    for score in ["-998", "0"] {
        if std::fs::write("/proc/self/oom_score_adj", score).is_ok() {
            break;
        }
    }
    match serve::Shim::new(configuration, cgroups, listener.try_clone()?, clock) {
        Ok(mut shim) => shim.serve(),
        Err(error) => {
            say_farewell(&listener, &error.to_string());
            Err(error)
        }
    }
}

/// Tells the first who asks why there is no sandbox.
fn say_farewell(listener: &UnixListener, text: &str) {
    let timeout = rustix::event::Timespec { tv_sec: FAREWELL.as_secs().cast_signed(), tv_nsec: 0 };
    let mut waiting = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
    if !matches!(rustix::event::poll(&mut waiting, Some(&timeout)), Ok(1)) {
        return;
    }
    let Ok((mut stream, _)) = listener.accept() else { return };
    let _blocking_stays_silent = stream.set_nonblocking(false);
    let answer = Answer::Failed { kind: Problem::CannotStart, text: text.to_owned() };
    if let Ok(bytes) = encode(&answer) {
        let _nobody_listens = stream.write_all(&bytes);
    }
}

/// Writes a file so that its readers see all of it or nothing.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, bytes)?;
    std::fs::rename(&temporary, path)
}

/// Lets nobody wait at a descriptor.
fn set_nonblocking(descriptor: &OwnedFd, nonblocking: bool) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    let mut wanted = flags;
    wanted.set(rustix::fs::OFlags::NONBLOCK, nonblocking);
    if wanted != flags {
        rustix::fs::fcntl_setfl(descriptor, wanted)?;
    }
    Ok(())
}
