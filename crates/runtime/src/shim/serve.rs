//! The one place where a shim waits, and what wakes it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::rc::Rc;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::Clock;
use super::connection::Connection;
use super::container::{Attachment, Container, Preparing, Process, State};
use super::log::Stream;
use super::protocol::{Answer, Configuration};
use crate::cgroups::{self, Cgroups};
use crate::sys;

/// More connections than this are closed as they come.
const CONNECTIONS_MAX: usize = 256;
/// What is read from a stream at a time.
const READ_BYTES: usize = 64 << 10;
/// How often somebody who is attached and reads nothing is looked at.
const STALL_CHECK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

pub(super) struct Shim {
    pub(super) configuration: Configuration,
    pub(super) cgroups: Box<dyn Cgroups>,
    /// The namespace of process ids that this process lives in.
    pub(super) own_pids: OwnedFd,
    pub(super) pause: Process,
    pub(super) containers: BTreeMap<Rc<str>, Container>,
    /// Processes in containers, by the connection that asked for them.
    pub(super) entered: BTreeMap<u64, Entered>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) clock: Clock,
    pub(super) buffer: Vec<u8>,
    /// Who asked for the end.
    pub(super) shutdown: Option<u64>,
    listener: UnixListener,
    signals: OwnedFd,
    next_connection: u64,
    /// The pause process is gone.
    lost: bool,
}

pub(super) struct Entered {
    pub(super) process: Process,
    pub(super) preparing: Option<Preparing>,
}

/// What woke the shim.
#[derive(Clone)]
enum Source {
    Listener,
    Signals,
    Connection(u64),
    /// A container's first process gets ready.
    Starting(Rc<str>),
    /// Another process in a container does.
    Entering(u64),
    Output(Rc<str>, Stream),
    Input(Rc<str>),
    Sink(Rc<str>, u64, Stream),
    AttachedInput(Rc<str>, u64),
}

impl Shim {
    pub(super) fn new(
        configuration: Configuration,
        cgroups: Box<dyn Cgroups>,
        listener: UnixListener,
        clock: Clock,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let signals = sys::signal_descriptor(&[
            libc::SIGCHLD,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGUSR1,
            libc::SIGUSR2,
        ])?;
        let own_pids = rustix::fs::open("/proc/self/ns/pid", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let pause = super::start::start_pause(&configuration, cgroups.as_ref(), &own_pids)?;
        Ok(Self {
            configuration,
            cgroups,
            own_pids,
            pause,
            containers: BTreeMap::new(),
            entered: BTreeMap::new(),
            connections: BTreeMap::new(),
            clock,
            buffer: vec![0; READ_BYTES],
            shutdown: None,
            listener,
            signals,
            next_connection: 0,
            lost: false,
        })
    }

    /// Until it is told to end, or the pause process is gone.
    pub(super) fn serve(&mut self) -> io::Result<()> {
        loop {
            if (self.shutdown.is_some() || self.lost) && self.is_quiet() {
                return self.end();
            }
            for (source, flags) in self.wait()? {
                self.handle(source, flags);
            }
            self.drop_stalled();
        }
    }

    fn is_quiet(&self) -> bool {
        let over = |container: &Container| !matches!(container.state, State::Starting | State::Running);
        self.entered.is_empty() && self.containers.values().all(over)
    }

    fn end(&mut self) -> io::Result<()> {
        let _gone_already = rustix::process::kill_process(self.pause.pid, rustix::process::Signal::KILL);
        while !self.lost {
            self.lost = !matches!(rustix::process::waitpid(Some(self.pause.pid), WaitOptions::empty()), Ok(None));
        }
        let path = self.configuration.pause_cgroup.clone();
        let _the_daemon_tries_again = cgroups::remove_all(self.cgroups.as_ref(), &path);
        if let Some(number) = self.shutdown {
            self.answer(number, &Answer::Done);
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<Vec<(Source, PollFlags)>> {
        let mut sources = vec![Source::Listener, Source::Signals];
        let mut polled = vec![
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        for (number, connection) in &self.connections {
            let outgoing = if connection.has_outgoing() { PollFlags::OUT } else { PollFlags::empty() };
            sources.push(Source::Connection(*number));
            polled.push(PollFd::from_borrowed_fd(connection.socket(), PollFlags::IN | outgoing));
        }
        for (number, entered) in &self.entered {
            if let Some(channel) = entered.preparing.as_ref().and_then(|preparing| preparing.channel.as_ref()) {
                sources.push(Source::Entering(*number));
                polled.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN));
            }
        }
        let mut has_waiting = false;
        for (id, container) in &self.containers {
            has_waiting |= poll_container(id, container, &mut sources, &mut polled);
        }
        match rustix::event::poll(&mut polled, has_waiting.then_some(&STALL_CHECK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let woken = sources.into_iter().zip(&polled).map(|(source, polled)| (source, polled.revents()));
        Ok(woken.filter(|(_, flags)| !flags.is_empty()).collect())
    }

    fn handle(&mut self, source: Source, flags: PollFlags) {
        match source {
            Source::Listener => self.accept(),
            Source::Signals => {
                let mut discarded = [0; 2048];
                let _only_that_there_were_some = rustix::io::read(&self.signals, &mut discarded[..]);
                self.reap();
            }
            Source::Connection(number) => self.handle_connection(number, flags),
            Source::Starting(id) => self.hear_starting(&id),
            Source::Entering(number) => self.hear_entering(number),
            Source::Output(id, stream) => {
                self.read_output(&id, stream);
            }
            Source::Input(id) => self.write_input(&id),
            Source::Sink(id, number, stream) => self.write_sink(&id, number, stream, flags),
            Source::AttachedInput(id, number) => self.read_attached(&id, number),
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.connections.len() >= CONNECTIONS_MAX {
                continue;
            }
            self.next_connection += 1;
            self.connections.insert(self.next_connection, Connection::new(OwnedFd::from(stream)));
        }
    }

    fn handle_connection(&mut self, number: u64, flags: PollFlags) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if flags.contains(PollFlags::OUT) && connection.send().is_err() {
            return self.close(number);
        }
        if connection.closing && !connection.has_outgoing() {
            return self.close(number);
        }
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            if connection.receive().is_err() {
                return self.close(number);
            }
            loop {
                let Some(connection) = self.connections.get_mut(&number) else { return };
                match connection.next_request() {
                    Ok(Some(request)) => self.handle_request(number, request),
                    Ok(None) => return,
                    Err(_) => return self.close(number),
                }
            }
        }
    }

    pub(super) fn answer(&mut self, number: u64, answer: &Answer) {
        self.answer_with(number, answer, None);
    }

    pub(super) fn answer_with(&mut self, number: u64, answer: &Answer, descriptor: Option<OwnedFd>) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.answer(answer, descriptor).is_err() {
            self.close(number);
        }
    }

    /// Tells all who watch.
    pub(super) fn announce(&mut self, id: &str) {
        let Some(container) = self.containers.get(id) else { return };
        let answer = Answer::Changed { id: id.to_owned(), record: container.record.clone() };
        let watching = self.connections.iter().filter(|(_, connection)| connection.watches);
        for number in watching.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.answer(number, &answer);
        }
    }

    /// A connection is over: so is what was run for it.
    pub(super) fn close(&mut self, number: u64) {
        self.connections.remove(&number);
        if let Some(entered) = self.entered.get_mut(&number) {
            let _gone_already = rustix::process::kill_process_group(entered.process.pid, rustix::process::Signal::KILL);
            let _gone_already = rustix::process::kill_process(entered.process.pid, rustix::process::Signal::KILL);
        }
        for container in self.containers.values_mut() {
            // Who goes without a word has said all, too.
            let wrote = |attachment: &Attachment| attachment.connection == number && attachment.stdin.is_some();
            if container.attached.iter().any(wrote) {
                container.input_ended();
            }
            container.attached.retain(|attachment| attachment.connection != number);
        }
    }

    /// Takes note of all children that have ended, also of those that were left to us.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            self.bury(pid, code(status));
        }
    }

    fn bury(&mut self, pid: Pid, code: i32) {
        if pid == self.pause.pid {
            self.lost = true;
            return self.kill_everything();
        }
        let is = |process: &Option<Process>| process.as_ref().is_some_and(|process| process.pid == pid);
        let found = self.containers.iter().find(|(_, container)| is(&container.process)).map(|(id, _)| id.clone());
        if let Some(id) = found {
            return self.container_ended(&id, code);
        }
        let found = self.entered.iter().find(|(_, entered)| entered.process.pid == pid).map(|(number, _)| *number);
        if let Some(number) = found {
            self.entered_ended(number, code);
        }
    }

    pub(super) fn kill_everything(&mut self) {
        let ids: Vec<Rc<str>> = self.containers.keys().cloned().collect();
        for id in ids {
            self.kill_container(&id);
        }
        for entered in self.entered.values() {
            let _gone_already = rustix::process::kill_process(entered.process.pid, rustix::process::Signal::KILL);
        }
    }
}

/// Adds what is to be waited for of a container. Whether output waits for somebody who is attached.
fn poll_container<'a>(
    id: &Rc<str>,
    container: &'a Container,
    sources: &mut Vec<Source>,
    polled: &mut Vec<PollFd<'a>>,
) -> bool {
    let mut add = |source, descriptor: &'a OwnedFd, flags| {
        sources.push(source);
        polled.push(PollFd::from_borrowed_fd(descriptor.as_fd(), flags));
    };
    let ends = &container.ends;
    if !container.is_held_back() {
        for (stream, end) in [(Stream::Stdout, &ends.stdout), (Stream::Stderr, &ends.stderr)] {
            if let Some(end) = end {
                add(Source::Output(id.clone(), stream), end, PollFlags::IN);
            }
        }
    }
    if let Some(end) = ends.stdin.as_ref().filter(|_| !container.stdin_waiting.is_empty()) {
        add(Source::Input(id.clone()), end, PollFlags::OUT);
    }
    let mut has_waiting = false;
    for attachment in &container.attached {
        let number = attachment.connection;
        for (stream, sink) in [(Stream::Stdout, &attachment.stdout), (Stream::Stderr, &attachment.stderr)] {
            if let Some(sink) = sink.as_ref().filter(|sink| !sink.waiting.is_empty()) {
                has_waiting = true;
                add(Source::Sink(id.clone(), number, stream), &sink.descriptor, PollFlags::OUT);
            }
        }
        let may_read = container.stdin_waiting.is_empty() && container.ends.stdin.is_some();
        if let Some(stdin) = attachment.stdin.as_ref().filter(|_| may_read) {
            add(Source::AttachedInput(id.clone(), number), stdin, PollFlags::IN);
        }
    }
    if let Some(channel) = container.preparing.as_ref().and_then(|preparing| preparing.channel.as_ref()) {
        sources.push(Source::Starting(id.clone()));
        polled.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN));
    }
    has_waiting
}

/// As shells count: 128 and the signal for those that one ended.
fn code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(255)
}
