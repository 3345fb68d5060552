//! What a shim knows of one container.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::log::{Limits, Log, Stream};
use super::protocol::{BUNDLE_FILE, Configuration, RECORD_FILE, Record};
use super::write_atomically;
use crate::launch::{Bundle, Channel, ProcessUser};

/// What may wait for a slow reader who is attached. Beyond, the container's output waits, too.
pub(super) const SINK_MAX_BYTES: usize = 256 << 10;
/// A reader who takes nothing for this long is let go, so that the container goes on.
pub(super) const SINK_STALLED_NANOS: u64 = 10_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Created,
    /// Its first process gets ready.
    Starting,
    Running,
    Exited,
}

/// A process that was forked.
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) descriptor: OwnedFd,
}

/// A process that gets ready.
pub(super) struct Preparing {
    /// None: it has said all.
    pub(super) channel: Option<Channel>,
    /// All is done but the execution.
    pub(super) ready: Option<ProcessUser>,
    pub(super) failure: Option<String>,
    /// Who is told. None: nobody is left to be told.
    pub(super) connection: Option<u64>,
    pub(super) terminal: Option<OwnedFd>,
}

impl Preparing {
    pub(super) fn new(channel: Channel, connection: u64) -> Self {
        Self { channel: Some(channel), ready: None, failure: None, connection: Some(connection), terminal: None }
    }
}

/// Our ends of a container's streams.
#[derive(Default)]
pub(super) struct Ends {
    pub(super) stdin: Option<OwnedFd>,
    /// Of a terminal: both directions.
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

/// Where an attached client gets output from us.
pub(super) struct Sink {
    pub(super) descriptor: OwnedFd,
    pub(super) waiting: VecDeque<u8>,
    /// Since when it has taken nothing of what waits.
    pub(super) stalled_since: Option<u64>,
}

impl Sink {
    fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, waiting: VecDeque::new(), stalled_since: None }
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= SINK_MAX_BYTES
    }
}

/// Somebody who is attached.
pub(super) struct Attachment {
    pub(super) connection: u64,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stdout: Option<Sink>,
    pub(super) stderr: Option<Sink>,
}

impl Attachment {
    pub(super) fn new(
        connection: u64,
        stdin: Option<OwnedFd>,
        stdout: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
    ) -> Self {
        Self { connection, stdin, stdout: stdout.map(Sink::new), stderr: stderr.map(Sink::new) }
    }

    pub(super) fn sink(&mut self, stream: Stream) -> &mut Option<Sink> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

pub(super) struct Container {
    pub(super) directory: PathBuf,
    pub(super) bundle: Bundle,
    pub(super) state: State,
    pub(super) record: Record,
    pub(super) process: Option<Process>,
    pub(super) preparing: Option<Preparing>,
    pub(super) ends: Ends,
    pub(super) stdin_waiting: VecDeque<u8>,
    /// The end of the input was reached: to be closed when nothing waits.
    pub(super) stdin_ends: bool,
    pub(super) log: Option<Log>,
    pub(super) attached: Vec<Attachment>,
}

impl Container {
    /// From what the daemon wrote.
    pub(super) fn load(configuration: &Configuration, id: &str) -> io::Result<Self> {
        let directory = configuration.containers_directory.join(id);
        let bundle: Bundle = serde_json::from_slice(&std::fs::read(directory.join(BUNDLE_FILE))?)?;
        let limits =
            Limits { file_max_bytes: configuration.log_file_max_bytes, files_max: configuration.log_files_max };
        let log = bundle.log.clone().map(|path| Log::new(path, limits));
        // One that has run already, under an earlier shim of this sandbox, never runs again.
        let record = read_record(&directory);
        let state = if record.is_some() { State::Exited } else { State::Created };
        Ok(Self {
            directory,
            bundle,
            state,
            record: record.unwrap_or_default(),
            process: None,
            preparing: None,
            ends: Ends::default(),
            stdin_waiting: VecDeque::new(),
            stdin_ends: false,
            log,
            attached: Vec::new(),
        })
    }

    pub(super) fn save(&mut self) {
        self.record.log_dropped_bytes = self.log.as_ref().map_or(0, Log::dropped_bytes);
        if let Ok(bytes) = serde_json::to_vec(&self.record) {
            // On a full disk the daemon is still told of it over its connection.
            let _best_effort = write_atomically(&self.directory.join(RECORD_FILE), &bytes);
        }
    }

    /// Nobody who is attached writes any more. Where that is to be the end, the container is told; on a terminal it cannot be.
    pub(super) fn input_ended(&mut self) {
        self.stdin_ends |= self.bundle.stdin_once && !self.bundle.terminal;
        if self.stdin_ends && self.stdin_waiting.is_empty() {
            self.ends.stdin = None;
        }
    }

    /// Whether output has to wait for somebody who is attached.
    pub(super) fn is_held_back(&self) -> bool {
        let full = |sink: &Option<Sink>| sink.as_ref().is_some_and(Sink::is_full);
        self.attached.iter().any(|attachment| full(&attachment.stdout) || full(&attachment.stderr))
    }
}

fn read_record(directory: &Path) -> Option<Record> {
    serde_json::from_slice(&std::fs::read(directory.join(RECORD_FILE)).ok()?).ok()
}
