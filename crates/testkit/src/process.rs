//! A child process that leads a group of its own and never outlives its handle.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::TIMEOUT;
use crate::wait::poll;

/// A running program whose output lines can be read as they come.
pub struct Process {
    child: Child,
    lines: Option<Receiver<String>>,
    description: String,
}

impl Process {
    /// Standard input is empty; output goes where the command says, or nowhere.
    pub fn spawn(command: &mut Command) -> Process {
        let description = format!("{command:?}");
        command.process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {description}: {error}"));
        Process { child, lines: None, description }
    }

    /// As [`Process::spawn`], with standard output to be read by [`Process::next_line`].
    pub fn spawn_with_lines(command: &mut Command) -> Process {
        let mut process = Process::spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let stdout = process.child.stdout.take().expect("it was asked for");
        let (sender, receiver) = channel();
        // Ends when the pipe does, at the latest when the group is killed.
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        process.lines = Some(receiver);
        process
    }

    /// `None`: the program closed its output, or wrote nothing for so long.
    pub fn next_line(&self, timeout: Duration) -> Option<String> {
        self.lines.as_ref()?.recv_timeout(timeout).ok()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may be gone already.
            let _ = kill_process_group(group, signal);
        }
    }

    /// `None`: it still runs.
    pub fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        poll(timeout, || self.child.try_wait().expect("a child can be waited for"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A program that ran to its end.
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
    description: String,
}

impl Finished {
    /// Runs a program with something to read; panics if it does not end in time.
    pub fn run(command: &mut Command, input: &str) -> Finished {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process::spawn(command);
        let stdout = drain(process.child.stdout.take().expect("it was asked for"));
        let stderr = drain(process.child.stderr.take().expect("it was asked for"));
        let mut stdin = process.child.stdin.take().expect("it was asked for");
        // A program that does not want its input closes the pipe; that is no failure.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let status = process.wait(TIMEOUT);
        // Whatever it started ends too, so that the pipes do.
        process.signal(Signal::KILL);
        let text = |thread: JoinHandle<String>| thread.join().unwrap_or_default();
        let (stdout, stderr) = (text(stdout), text(stderr));
        let description = process.description.clone();
        let Some(status) = status else {
            panic!("{description} did not end in {TIMEOUT:?}\n{stdout}\n{stderr}");
        };
        Finished { status, stdout, stderr, description }
    }

    /// Panics with all that the program said unless it succeeded.
    #[track_caller]
    pub fn expect_success(self) -> Finished {
        assert!(self.status.success(), "{}", self.report());
        self
    }

    #[track_caller]
    pub fn expect_failure(self) -> Finished {
        assert!(!self.status.success(), "expected a failure of {}", self.report());
        self
    }

    /// Panics unless standard output contains the text.
    #[track_caller]
    pub fn says(self, text: &str) -> Finished {
        assert!(self.stdout.contains(text), "expected {text:?} of {}", self.report());
        self
    }

    fn report(&self) -> String {
        format!("{}\n{}\n--- stdout\n{}\n--- stderr\n{}", self.description, self.status, self.stdout, self.stderr)
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_heard_to_its_end() {
        let finished = Finished::run(Command::new("sh").args(["-c", "cat; echo err >&2; exit 3"]), "in");
        assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("in", "err\n"));
        assert_eq!(finished.expect_failure().status.code(), Some(3));
    }

    #[test]
    fn nothing_outlives_its_handle() {
        let process = Process::spawn_with_lines(Command::new("sh").args(["-c", "sleep 1000 & echo $!; wait"]));
        let grandchild = process.next_line(TIMEOUT).expect("a line");
        let alive = || std::path::Path::new("/proc").join(&grandchild).join("exe").exists();
        assert!(alive());
        drop(process);
        assert!(poll(TIMEOUT, || (!alive()).then_some(())).is_some());
    }
}
