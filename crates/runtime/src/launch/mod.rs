//! How a process gets into a container: what happens between a fork of the shim and the execution of somebody's program.
//!
//! Everything here runs in a child that the single-threaded shim forked, and uses descriptors instead of paths wherever
//! somebody else could change what a path means. Volumes and all else but the root's own layers are mounted in the
//! container's mount namespace only: when its last process is gone, they are, too, and nothing is left on the host.
//!
//! `libcontainer` was read first (0.7). It ignores the propagation of single mounts and takes their sources by paths,
//! which others may change meanwhile; filters of system calls take a C library; and of its 23,000 lines with a library for
//! checkpoints we would use few. So this is our own, on the calls that it would make.

mod bundle;
mod channel;
mod devices;
mod enter;
mod execute;
mod identity;
mod init;
mod mounts;
mod pause;
mod privileges;
mod resolve;
mod root;
mod terminal;

pub use bundle::{Bundle, ProcessUser};
pub use channel::{Channel, Report};
pub use devices::device_rules;
pub use enter::{EnterPlan, enter};
pub use execute::DEFAULT_PATH;
pub use init::{InitPlan, Surroundings, init};
pub use pause::{PausePlan, pause};
pub use privileges::{filter_of, known_capability, signal_number};

use std::os::fd::OwnedFd;

/// What a process is given as its streams; None: nothing to read, and nowhere to write to.
#[derive(Debug, Default)]
pub struct Stdio {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    /// Instead of all of them: a terminal, whose other side is sent to the shim.
    pub terminal: bool,
}

/// Why a process did not come to be, as people are told.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    /// What was done, and what the kernel said to it.
    fn doing(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> Failure {
        move |error| Failure(format!("{what}: {}", plain(&error)))
    }
}

/// An error of the kernel in the words of the C library, without its number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}
