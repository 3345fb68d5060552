//! Processes: how they begin, and what is done when they end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::pipe::PipeFlags;
use rustix::process::{PidfdFlags, Signal};
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags};

use super::container::{Container, Ends, Preparing, Process, State};
use super::protocol::{Answer, Configuration, Problem, Streams};
use super::serve::{Entered, Shim};
use super::set_nonblocking;
use crate::api::NamespaceMode;
use crate::cgroups::{self, Cgroups, Entry};
use crate::launch::{self, Channel, EnterPlan, InitPlan, PausePlan, Report, Stdio, Surroundings};
use crate::sys::{self, Fork};

/// Exit code and reason of a container whose process could not be started.
const START_FAILED_CODE: i32 = 128;
const START_FAILED_REASON: &str = "StartError";

/// In which namespace of process ids a child is to live.
enum Pids<'a> {
    New,
    Of(BorrowedFd<'a>),
    Ours,
}

/// Forks a child into a namespace of process ids, and into a cgroup where that is possible. This process stays where it
/// is. With the side of the fork come the files by which the child still has to enter its cgroup.
fn fork_into(pids: &Pids<'_>, own: &OwnedFd, entry: &Entry) -> io::Result<(Fork, Vec<PathBuf>)> {
    match pids {
        Pids::New => sys::unshare(UnshareFlags::NEWPID)?,
        Pids::Of(process) => {
            rustix::thread::move_into_thread_name_spaces(*process, ThreadNameSpaceType::PROCESS_ID)?;
        }
        Pids::Ours => return fork(entry),
    }
    let forked = fork(entry);
    if !matches!(forked, Ok((Fork::Child, _))) {
        rustix::thread::move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    }
    forked
}

fn fork(entry: &Entry) -> io::Result<(Fork, Vec<PathBuf>)> {
    if let Entry::Birth(directory) = entry {
        let directory = std::fs::File::open(directory)?;
        if let Ok(forked) = sys::fork_into_cgroup(&directory) {
            return Ok((forked, Vec::new()));
        }
        // Kernels before 5.7 cannot do it.
    }
    Ok((sys::fork()?, entry.by_files()))
}

fn process(pid: rustix::process::Pid) -> io::Result<Process> {
    Ok(Process { pid, descriptor: rustix::process::pidfd_open(pid, PidfdFlags::empty())? })
}

/// Starts the process that holds the pod's namespaces, and waits until it does.
pub(super) fn start_pause(
    configuration: &Configuration,
    cgroups: &dyn Cgroups,
    own_pids: &OwnedFd,
) -> io::Result<Process> {
    let (ours, theirs) = Channel::pair()?;
    let pids = if configuration.namespaces.pid == NamespaceMode::Pod { Pids::New } else { Pids::Ours };
    let pid = match fork_into(&pids, own_pids, &cgroups.entry(&configuration.pause_cgroup))? {
        (Fork::Child, entrances) => {
            drop(ours);
            launch::pause(PausePlan {
                namespaces: configuration.namespaces,
                hostname: &configuration.hostname,
                sysctls: &configuration.sysctls,
                entrances,
                mount_point: configuration.pause_mount_point.clone(),
                channel: theirs,
            })
        }
        (Fork::Parent(pid), _) => pid,
    };
    drop(theirs);
    match ours.receive()? {
        Some((Report::Ready { .. }, _)) => process(pid),
        Some((Report::Failed { text }, _)) => Err(io::Error::other(text)),
        _ => Err(io::Error::other("the process that holds the pod's namespaces ended at once")),
    }
}

impl Shim {
    pub(super) fn start_container(&mut self, number: u64, id: &str) {
        let problem = match self.container(id) {
            Ok(container) if container.state != State::Created => {
                Some((Problem::WrongState, format!("container {id:?} was started before")))
            }
            Ok(_) => None,
            Err(error) => Some((Problem::NotFound, format!("container {id:?}: {error}"))),
        };
        if let Some((kind, text)) = problem {
            return self.answer(number, &Answer::Failed { kind, text });
        }
        if let Err(error) = self.fork_container(number, id) {
            self.start_failed(id, &error.to_string(), Some(number));
        }
    }

    fn fork_container(&mut self, number: u64, id: &str) -> io::Result<()> {
        let Some(container) = self.containers.get(id) else { return Ok(()) };
        let bundle = &container.bundle;
        let filter = launch::filter_of(&bundle.security).map_err(io::Error::other)?;
        let rules = launch::device_rules(bundle).map_err(io::Error::other)?;
        self.cgroups.create(&bundle.cgroup, &bundle.resources, true)?;
        if let Some(rules) = rules {
            self.cgroups.allow_devices(&bundle.cgroup, &rules)?;
        }
        let (ours, theirs) = Channel::pair()?;
        let (ends, stdio) = streams(bundle.terminal, bundle.stdin)?;
        let target = bundle.target.as_deref().and_then(|target| self.containers.get(target));
        let target = target.and_then(|target| target.process.as_ref());
        let pids = match (bundle.namespaces.pid, target) {
            (NamespaceMode::Container, _) => Pids::New,
            (NamespaceMode::Pod, _) => Pids::Of(self.pause.descriptor.as_fd()),
            (NamespaceMode::Node, _) => Pids::Ours,
            (NamespaceMode::Target, Some(target)) => Pids::Of(target.descriptor.as_fd()),
            (NamespaceMode::Target, None) => return Err(io::Error::other("the target container does not run")),
        };
        let entry = self.cgroups.entry(&bundle.cgroup);
        let pid = match fork_into(&pids, &self.own_pids, &entry)? {
            (Fork::Child, entrances) => {
                drop((ours, ends));
                let surroundings =
                    Surroundings { pause: self.pause.descriptor.as_fd(), hierarchies: &self.configuration.hierarchies };
                launch::init(InitPlan { bundle, surroundings, entrances, filter, stdio, channel: theirs })
            }
            (Fork::Parent(pid), _) => pid,
        };
        drop((theirs, stdio));
        let process = process(pid)?;
        let Some(container) = self.containers.get_mut(id) else { return Ok(()) };
        container.process = Some(process);
        container.preparing = Some(Preparing::new(ours, number));
        container.ends = ends;
        container.state = State::Starting;
        if let Some(log) = &mut container.log {
            // What cannot be written is counted.
            let _best_effort = log.open();
        }
        Ok(())
    }

    /// A container's first process said something while it gets ready.
    pub(super) fn hear_starting(&mut self, id: &str) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(preparing) = &mut container.preparing else { return };
        if hear(preparing) {
            return;
        }
        if let Some(terminal) = preparing.terminal.take() {
            let _best_effort = set_nonblocking(&terminal, true);
            container.ends.stdin = terminal.try_clone().ok();
            container.ends.stdout = Some(terminal);
        }
        let Some(preparing) = &mut container.preparing else { return };
        if preparing.failure.is_some() || preparing.ready.is_none() || preparing.channel.is_some() {
            // What went wrong is told when the process is gone, so that nothing of it is left then.
            return;
        }
        let connection = preparing.connection;
        container.record.user = preparing.ready.take();
        container.preparing = None;
        container.state = State::Running;
        container.record.pid =
            container.process.as_ref().map(|process| process.pid.as_raw_nonzero().get().cast_unsigned());
        container.record.started_micros = micros((self.clock)());
        container.save();
        self.announce(id);
        if let Some(number) = connection {
            self.answer(number, &Answer::Running);
        }
    }

    pub(super) fn container_ended(&mut self, id: &str, code: i32) {
        while self.containers.get(id).is_some_and(is_heard) {
            self.hear_starting(id);
        }
        let Some(container) = self.containers.get_mut(id) else { return };
        if let Some(preparing) = container.preparing.take() {
            let text =
                preparing.failure.unwrap_or_else(|| format!("the process ended with {code} before it was started"));
            return self.start_failed(id, &text, preparing.connection);
        }
        if container.state != State::Running {
            return;
        }
        let cgroup = container.bundle.cgroup.clone();
        if container.bundle.namespaces.pid != NamespaceMode::Container {
            // Others may have outlived it.
            cgroups::kill_all(self.cgroups.as_ref(), &cgroup);
            self.reap();
        }
        self.drain_output(id);
        let out_of_memory = self.cgroups.out_of_memory_kills(&cgroup) > 0;
        let now = (self.clock)();
        let Some(container) = self.containers.get_mut(id) else { return };
        if let Some(log) = &mut container.log {
            log.finish(now);
        }
        container.record.exit_code = code;
        container.record.reason = match code {
            _ if out_of_memory => "OOMKilled",
            0 => "Completed",
            _ => "Error",
        }
        .to_owned();
        self.container_over(id);
    }

    fn start_failed(&mut self, id: &str, text: &str, connection: Option<u64>) {
        let text = format!(
            "failed to create shim task: OCI runtime create failed: unable to start container process: {text}: unknown"
        );
        if let Some(container) = self.containers.get_mut(id) {
            container.record.exit_code = START_FAILED_CODE;
            container.record.reason = START_FAILED_REASON.to_owned();
            container.record.message.clone_from(&text);
        }
        self.container_over(id);
        if let Some(number) = connection {
            self.answer(number, &Answer::Failed { kind: Problem::CannotStart, text });
        }
    }

    fn container_over(&mut self, id: &str) {
        let now = micros((self.clock)());
        let Some(container) = self.containers.get_mut(id) else { return };
        container.state = State::Exited;
        container.process = None;
        container.ends = Ends::default();
        container.record.pid = None;
        container.record.finished_micros = now;
        container.save();
        let cgroup = container.bundle.cgroup.clone();
        let _the_daemon_tries_again = self.cgroups.remove_one(&cgroup);
        self.announce(id);
        self.let_attached_go(id);
    }

    /// Kills all of a container. Its end is noticed as any other.
    pub(super) fn kill_container(&mut self, id: &str) {
        let Some(container) = self.containers.get(id) else { return };
        let Some(process) = &container.process else { return };
        let _gone_already = rustix::process::pidfd_send_signal(&process.descriptor, Signal::KILL);
        // With a namespace of its own all others go with the first one.
        if container.bundle.namespaces.pid != NamespaceMode::Container {
            cgroups::kill_all(self.cgroups.as_ref(), &container.bundle.cgroup);
        }
    }

    pub(super) fn enter_container(
        &mut self,
        number: u64,
        id: &str,
        arguments: &[String],
        terminal: bool,
        wanted: Streams,
    ) {
        let mut take = |wanted: bool| {
            if !wanted {
                return None;
            }
            self.connections.get_mut(&number)?.take_descriptor()
        };
        let (stdin, stdout, stderr) = (take(wanted.stdin), take(wanted.stdout), take(wanted.stderr));
        let stdio = Stdio { stdin, stdout, stderr, terminal };
        let result = match self.containers.get(id) {
            Some(container) if container.state == State::Running => {
                self.fork_into_container(number, id, arguments, stdio)
            }
            _ => {
                let text = format!("container {id:?} is not running");
                return self.answer(number, &Answer::Failed { kind: Problem::WrongState, text });
            }
        };
        if let Err(error) = result {
            self.answer(number, &Answer::Failed { kind: Problem::CannotStart, text: enter_failed(&error.to_string()) });
        }
    }

    fn fork_into_container(&mut self, number: u64, id: &str, arguments: &[String], stdio: Stdio) -> io::Result<()> {
        let (Some(container), false) = (self.containers.get(id), self.entered.contains_key(&number)) else {
            return Err(io::Error::other("a connection is for one process"));
        };
        let (Some(process), Some(user)) = (&container.process, &container.record.user) else {
            return Err(io::Error::other("the container does not run"));
        };
        let bundle = &container.bundle;
        let filter = launch::filter_of(&bundle.security).map_err(io::Error::other)?;
        let (ours, theirs) = Channel::pair()?;
        let pids = match bundle.namespaces.pid {
            NamespaceMode::Node => Pids::Ours,
            _ => Pids::Of(process.descriptor.as_fd()),
        };
        let entry = self.cgroups.entry(&bundle.cgroup);
        let pid = match fork_into(&pids, &self.own_pids, &entry)? {
            (Fork::Child, entrances) => {
                drop(ours);
                let target = process.descriptor.as_fd();
                launch::enter(EnterPlan { bundle, target, user, arguments, entrances, filter, stdio, channel: theirs })
            }
            (Fork::Parent(pid), _) => pid,
        };
        drop((theirs, stdio));
        let preparing = Some(Preparing::new(ours, number));
        self.entered.insert(number, Entered { process: self::process(pid)?, preparing });
        Ok(())
    }

    /// A process in a container said something while it gets ready.
    pub(super) fn hear_entering(&mut self, number: u64) {
        let Some(entered) = self.entered.get_mut(&number) else { return };
        let Some(preparing) = &mut entered.preparing else { return };
        if hear(preparing) || preparing.channel.is_some() || preparing.failure.is_some() || preparing.ready.is_none() {
            return;
        }
        let terminal = preparing.terminal.take();
        entered.preparing = None;
        self.answer_with(number, &Answer::Running, terminal);
    }

    pub(super) fn entered_ended(&mut self, number: u64, code: i32) {
        let unheard =
            |entered: &Entered| entered.preparing.as_ref().is_some_and(|preparing| preparing.channel.is_some());
        while self.entered.get(&number).is_some_and(unheard) {
            self.hear_entering(number);
        }
        let Some(entered) = self.entered.remove(&number) else { return };
        let answer = match entered.preparing {
            Some(preparing) => {
                let text =
                    preparing.failure.unwrap_or_else(|| format!("the process ended with {code} before it was started"));
                Answer::Failed { kind: Problem::CannotStart, text: enter_failed(&text) }
            }
            None => Answer::Exited { code },
        };
        self.answer(number, &answer);
        self.close_when_sent(number);
    }
}

fn enter_failed(text: &str) -> String {
    format!(
        "failed to exec in container: OCI runtime exec failed: exec failed: unable to start container process: {text}: unknown"
    )
}

fn is_heard(container: &Container) -> bool {
    container.preparing.as_ref().is_some_and(|preparing| preparing.channel.is_some())
}

/// Hears one message of a process that gets ready. Whether there is more to come.
fn hear(preparing: &mut Preparing) -> bool {
    let Some(channel) = &preparing.channel else { return false };
    match channel.receive() {
        Ok(Some((Report::Terminal, descriptor))) => preparing.terminal = descriptor,
        Ok(Some((Report::Ready { user }, _))) => preparing.ready = Some(user),
        Ok(Some((Report::Failed { text }, _))) => preparing.failure = Some(text),
        Ok(None) | Err(_) => {
            preparing.channel = None;
            return false;
        }
    }
    true
}

/// Our ends of a container's streams, and its own.
fn streams(terminal: bool, stdin: bool) -> io::Result<(Ends, Stdio)> {
    let mut ends = Ends::default();
    let mut stdio = Stdio { terminal, ..Default::default() };
    if terminal {
        return Ok((ends, stdio));
    }
    if stdin {
        let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        set_nonblocking(&ours, true)?;
        (stdio.stdin, ends.stdin) = (Some(theirs), Some(ours));
    }
    for (end, stream) in [(&mut ends.stdout, &mut stdio.stdout), (&mut ends.stderr, &mut stdio.stderr)] {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        set_nonblocking(&ours, true)?;
        (*end, *stream) = (Some(ours), Some(theirs));
    }
    Ok((ends, stdio))
}

fn micros(nanos: u64) -> i64 {
    i64::try_from(nanos / 1000).unwrap_or(i64::MAX)
}
