//! Streams of a process: those that it was given, nothing, or a terminal of the container's own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, Uid};
use rustix::pty::OpenptFlags;

use super::resolve::{Missing, resolve};
use super::root::{attach, clone_tree};
use super::{Channel, Failure, Report, Stdio};

/// Where nothing comes from, and everything goes to. To be opened while the host's devices are in sight.
pub(super) fn nothing() -> Result<OwnedFd, Failure> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Failure::doing("open /dev/null")(error.into()))
}

/// Makes the streams this process's own, for a user. With a terminal the shim is sent its other side.
pub(super) fn set_streams(
    stdio: Stdio,
    nothing: &OwnedFd,
    user: u32,
    channel: &Channel,
    console: bool,
) -> Result<(), Failure> {
    if stdio.terminal {
        let terminal = open_terminal(channel, console).map_err(Failure::doing("open a terminal"))?;
        return put(terminal.as_fd(), terminal.as_fd(), terminal.as_fd(), user)
            .map_err(Failure::doing("use a terminal"));
    }
    let or_nothing = |stream: &Option<OwnedFd>| stream.as_ref().unwrap_or(nothing).try_clone();
    let said = Failure::doing("set the standard streams");
    let streams = (|| Ok([or_nothing(&stdio.stdin)?, or_nothing(&stdio.stdout)?, or_nothing(&stdio.stderr)?]))();
    let result = streams
        .and_then(|[input, output, error]: [OwnedFd; 3]| put(input.as_fd(), output.as_fd(), error.as_fd(), user));
    result.map_err(said)
}

fn put(input: BorrowedFd<'_>, output: BorrowedFd<'_>, error: BorrowedFd<'_>, user: u32) -> io::Result<()> {
    for stream in [input, output, error] {
        // So that a process without privileges can open /dev/stdout. What belongs to somebody else is let be.
        if user != 0 && is_ours(stream) {
            let _best_effort = rustix::fs::fchown(stream, Some(Uid::from_raw(user)), None);
        }
    }
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(error)?;
    Ok(())
}

/// Pipes and terminals were made for this process; `/dev/null` was not.
fn is_ours(stream: BorrowedFd<'_>) -> bool {
    use rustix::fs::FileType;
    let Ok(status) = rustix::fs::fstat(stream) else { return false };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Fifo => true,
        FileType::CharacterDevice => rustix::termios::isatty(stream),
        _ => false,
    }
}

fn open_terminal(channel: &Channel, console: bool) -> io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    rustix::process::ioctl_tiocsctty(&theirs)?;
    if console {
        let name = rustix::pty::ptsname(&ours, Vec::new())?;
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let place = resolve(root.as_fd(), "/dev/console", Missing::File)?;
        attach(clone_tree(CWD, name.as_c_str(), false)?.as_fd(), place.as_fd())?;
    }
    channel.send(&Report::Terminal, Some(ours.as_fd()))?;
    Ok(theirs)
}
