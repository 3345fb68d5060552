//! The real binary, running.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::TIMEOUT;
use crate::machine::Machine;
use crate::process::{Finished, Process};

/// A running `rkube up`.
pub struct Rkube {
    binary: PathBuf,
    arguments: Vec<String>,
    running: Option<Running>,
    /// What it runs on, if that is not this machine as it is. Goes before the directory does.
    machine: Option<Machine>,
    directory: TempDir,
}

struct Running {
    process: Process,
    ready: Ready,
}

/// What the line on stdout says.
struct Ready {
    milliseconds: u64,
    url: String,
    kubeconfig: PathBuf,
}

impl Rkube {
    /// `binary` is `env!("CARGO_BIN_EXE_rkube")` of the test, unless `RKUBE_TEST_BINARY` names another one: a release
    /// build, or whatever has the same flags and says `ready` likewise. Returns once everything answers.
    pub fn start(binary: &str) -> Rkube {
        Rkube::start_with(binary, &[])
    }

    /// With more flags for `rkube up`.
    pub fn start_with(binary: &str, arguments: &[&str]) -> Rkube {
        let mut rkube = Rkube::new(binary, arguments);
        rkube.restart();
        rkube
    }

    /// As a node with real containers, in a network namespace of its own, on images from these archives. Whatever it made
    /// is gone when it is dropped.
    pub fn start_node(binary: &str, archives: &[&Path], arguments: &[&str]) -> Rkube {
        let mut rkube = Rkube::new(binary, arguments);
        rkube.machine = Some(Machine::new(rkube.scratch_directory()));
        let log = rkube.scratch_directory().join("log");
        rkube.arguments.extend(["--node=real".to_owned(), format!("--pod-log-dir={}", log.display())]);
        for archive in archives {
            rkube.other(&["image", "load", "--data-dir"], &[&rkube.data_directory(), archive]).expect_success();
        }
        rkube.restart();
        rkube
    }

    fn new(binary: &str, arguments: &[&str]) -> Rkube {
        Rkube {
            binary: std::env::var_os("RKUBE_TEST_BINARY").map_or_else(|| binary.into(), PathBuf::from),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            running: None,
            machine: None,
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    /// Another command of the binary, to its end.
    pub fn other(&self, arguments: &[&str], paths: &[&Path]) -> Finished {
        Finished::run(self.program(&self.binary).args(arguments).args(paths), "")
    }

    /// A program where this rkube runs: on its network, if it has one of its own.
    pub fn program(&self, program: &Path) -> Command {
        self.machine.as_ref().map_or_else(|| Command::new(program), |machine| machine.command(program))
    }

    /// Starts on the same directory, on another free port; ends a running one first, in good order.
    pub fn restart(&mut self) {
        if self.running.is_some() {
            self.terminate();
        }
        let process = Process::spawn_with_lines(self.command().stderr(self.log()));
        let Some(line) = process.next_line(TIMEOUT) else {
            drop(process);
            panic!("rkube did not get ready\n{}", self.stderr());
        };
        let ready = Ready::parse(&line).unwrap_or_else(|| panic!("an unexpected line: {line:?}"));
        self.running = Some(Running { process, ready });
    }

    /// Starts again with other flags.
    pub fn restart_with(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.restart();
    }

    /// `rkube up` on this directory, as a command of its own: for a second one that should fail.
    pub fn command(&self) -> Command {
        let mut command = self.program(&self.binary);
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(self.data_directory()).args(&self.arguments);
        // This machine is nobody's node unless a test says so.
        if !self.arguments.iter().any(|argument| argument.starts_with("--node=")) {
            command.arg("--node=none");
        }
        command
    }

    /// By what other programs are run to be on its network.
    pub(crate) fn entering(&self) -> Vec<OsString> {
        self.machine.as_ref().map(Machine::entering).unwrap_or_default()
    }

    pub fn url(&self) -> &str {
        &self.running().ready.url
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.running().ready.kubeconfig
    }

    /// As the process itself says, from its start.
    pub fn ready_after_milliseconds(&self) -> u64 {
        self.running().ready.milliseconds
    }

    pub fn process_id(&self) -> u32 {
        self.running().process.id()
    }

    pub fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Somewhere for a test's own files and caches.
    pub fn scratch_directory(&self) -> &Path {
        self.directory.path()
    }

    /// The command lines of all processes on its network, its pods' among them; of one that is a node.
    pub fn processes(&self) -> Vec<String> {
        self.machine.as_ref().map(Machine::all_processes).unwrap_or_default()
    }

    /// The end that nobody can prepare for.
    pub fn kill9(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.process.signal(Signal::KILL);
        running.process.wait(TIMEOUT).expect("a killed process ends");
    }

    /// Asks for an orderly end, and waits for it.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut running = self.running.take().expect("it runs");
        running.process.signal(Signal::TERM);
        match running.process.wait(TIMEOUT) {
            Some(status) => status,
            None => panic!("rkube does not end\n{}", self.stderr()),
        }
    }

    /// Stops it where it stands: it keeps its connections and does nothing.
    pub fn pause(&self) {
        self.running().process.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.running().process.signal(Signal::CONT);
    }

    /// All that was logged so far, of every start.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs")
    }

    fn log(&self) -> File {
        OpenOptions::new().create(true).append(true).open(self.log_path()).expect("a log file")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("stderr.log")
    }
}

impl Drop for Rkube {
    fn drop(&mut self) {
        if self.machine.is_some() {
            self.running = None;
            let reset = self.other(&["reset", "--data", "--data-dir"], &[&self.data_directory()]);
            if !std::thread::panicking() {
                reset.expect_success();
                // Processes that have ended are gone when somebody has asked how.
                crate::eventually("nothing is left behind", || {
                    let left = self.machine.as_ref().map(|machine| machine.leftovers(self.scratch_directory()));
                    left.filter(|left| !left.is_empty()).map_or(Ok(()), |left| Err(left.join("\n")))
                });
            }
        }
        if std::thread::panicking() {
            eprintln!("--- what rkube logged\n{}---", self.stderr());
        }
    }
}

impl Ready {
    /// `ready in 87 ms  https://127.0.0.1:6443  KUBECONFIG=/path`
    fn parse(line: &str) -> Option<Ready> {
        let mut parts = line.strip_prefix("ready in ")?.splitn(3, "  ");
        let milliseconds = parts.next()?.strip_suffix(" ms")?.parse().ok()?;
        let url = parts.next()?.to_owned();
        let kubeconfig = parts.next()?.strip_prefix("KUBECONFIG=")?.into();
        Some(Ready { milliseconds, url, kubeconfig })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_is_understood() {
        let ready = Ready::parse("ready in 87 ms  https://127.0.0.1:6443  KUBECONFIG=/a b/kubeconfig").expect("parses");
        assert_eq!((ready.milliseconds, ready.url.as_str()), (87, "https://127.0.0.1:6443"));
        assert_eq!(ready.kubeconfig, Path::new("/a b/kubeconfig"));
        assert!(Ready::parse("ready").is_none());
    }
}
