//! The end of the parent is our end, so that whatever ends a test ends what it started.
//!
//! The kernel's own signal for that (`PR_SET_PDEATHSIG`) is about the *thread* that started us, and threads of a Go
//! program come and go. A file descriptor of the parent's process is about the process.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open};

/// From now on a SIGTERM comes when the parent ends. Nobody to watch, or no way to do so, is no reason not to start.
pub fn end_with_parent() {
    let Some(parent) = getppid() else { return };
    let opened = pidfd_open(parent, PidfdFlags::empty());
    if getppid() != Some(parent) {
        // It ended meanwhile, and its number may be another's by now.
        end();
        return;
    }
    let process = match opened {
        Ok(process) => process,
        Err(error) => {
            eprintln!("cannot watch the parent process: {error}");
            return;
        }
    };
    let waiting = std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        loop {
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], None) {
                Ok(_) => return end(),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
    if let Err(error) = waiting {
        eprintln!("cannot watch the parent process: {error}");
    }
}

fn end() {
    // Our own process is always there.
    let _ = kill_process(getpid(), Signal::TERM);
}
