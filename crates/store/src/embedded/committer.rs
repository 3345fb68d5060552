//! The one thread that writes.
//!
//! It takes whatever writes have queued up while it was busy, checks them one after the other, appends them to the
//! log as one frame with one sync, applies them, delivers them to the watches, and only then answers the writers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::disk::Disk;
use super::format::FrameBuffer;
use super::full_disk::{FullDisk, frees_only, is_full};
use super::log::Log;
use super::reserve::Reserve;
use super::snapshot::write_snapshot;
use super::{OpenOptions, io_error};
use crate::contract::{Change, Error, LeaseId, Result, Revision, Write};
use crate::memory::core::Core;
use crate::memory::expiry::RETRY_AFTER;
use crate::memory::stage::Stage;
use crate::memory::state::State;

/// A batch is closed when it holds so many writes; the others wait for the next.
const BATCH_WRITES_MAX: usize = 1024;
/// After a batch of so many writes the next one waits a few moments, until it is as large: fewer syncs, more writes.
const GATHER_WRITES_MIN: usize = 8;
/// No batch waits for more writes than this: if all writers were waiting for it, nobody would prepare the next.
const GATHERED_WRITES_MAX: usize = 24;
const GATHER_STEP: Duration = Duration::from_micros(100);
const GATHER_STEPS: usize = 8;
/// A batch is closed when its frame has so many bytes (a single write may be larger).
const BATCH_BYTES_MAX: usize = 4 << 20;
/// With more logs than this (each start begins one) a snapshot is written however small they are.
pub(super) const LOGS_MAX: usize = 8;

/// A snapshot of more bytes is given up when the store shuts down, and begun again at the next start.
const SNAPSHOT_AWAITED_BYTES_MAX: u64 = 64 << 20;

pub(crate) enum Command {
    Write {
        write: Write,
        reply: oneshot::Sender<Result<Revision>>,
    },
    Grant {
        ttl_seconds: u64,
        now: Instant,
        reply: oneshot::Sender<Result<LeaseId>>,
    },
    /// `expired_at`: only if it is due by then.
    EndLease {
        lease: LeaseId,
        expired_at: Option<Instant>,
        now: Instant,
        reply: oneshot::Sender<Result<()>>,
    },
    Shutdown,
}

pub(crate) struct Committer {
    pub core: Arc<Core>,
    pub disk: Arc<dyn Disk>,
    pub log: Log,
    pub size: Arc<Size>,
    /// The snapshot that is being written.
    pub(super) snapshot: Option<RunningSnapshot>,
    /// The logs must have grown to this before the next snapshot is tried.
    snapshot_again_bytes: u64,
    pub(super) snapshot_dead_bytes_min: u64,
    /// How many logs there are.
    pub(super) logs: usize,
    pub(super) reserve: Reserve,
    /// While the disk is full.
    pub(super) full: Option<FullDisk>,
    pub(super) look_for_room_every: Duration,
    buffer: FrameBuffer,
    /// How many writes the last batch had.
    last_batch: usize,
}

/// Bytes on disk, for whoever asks.
#[derive(Default)]
pub(crate) struct Size {
    /// The snapshot and the logs before the current one.
    settled: AtomicU64,
    log: AtomicU64,
}

impl Size {
    pub(crate) fn new(settled: u64, log: u64) -> Self {
        Size { settled: settled.into(), log: log.into() }
    }

    pub(crate) fn total(&self) -> u64 {
        self.settled.load(Ordering::Relaxed) + self.log.load(Ordering::Relaxed)
    }
}

pub(super) struct RunningSnapshot {
    thread: JoinHandle<io::Result<u64>>,
    stop: Arc<AtomicBool>,
    number: u64,
    /// What lay on disk when it began, all of which it replaces.
    replaces_bytes: u64,
}

enum Answer {
    Write {
        reply: oneshot::Sender<Result<Revision>>,
        result: Result<Revision>,
        /// Of a deletion: what it asked for.
        deletion: Option<Write>,
    },
    Grant(oneshot::Sender<Result<LeaseId>>, Result<LeaseId>),
    EndLease(oneshot::Sender<Result<()>>),
}

impl Committer {
    pub(crate) fn new(core: Arc<Core>, disk: Arc<dyn Disk>, log: Log, size: Arc<Size>, options: &OpenOptions) -> Self {
        Committer {
            core,
            reserve: Reserve::find(disk.clone(), options.reserve_bytes),
            full: None,
            look_for_room_every: options.look_for_room_every,
            disk,
            log,
            size,
            snapshot: None,
            snapshot_again_bytes: 0,
            snapshot_dead_bytes_min: options.snapshot_dead_bytes_min,
            logs: 1,
            last_batch: 0,
            buffer: FrameBuffer::new(),
        }
    }

    /// Makes the log that was read back one to be written to. `logs`: how many there are. If the disk refuses, reads
    /// work nevertheless, and the first write tries again.
    pub(crate) fn begin(&mut self, logs: usize) {
        self.logs = logs.max(1);
        if !self.log.is_trusted()
            && let Err(error) = self.rotate_with_reserve()
        {
            tracing::warn!(%error, "no new log could be begun, the next write will try again");
        }
        self.begin_reserve();
    }

    /// Works until it is told to stop or nobody is left who could write.
    pub(crate) fn run(mut self, mut queue: mpsc::Receiver<Command>) {
        let mut next = None;
        while let Some(command) = next.take().or_else(|| queue.blocking_recv()) {
            match command {
                Command::Shutdown => break,
                Command::EndLease { lease, expired_at, now, reply } => self.end_lease(lease, expired_at, now, reply),
                command => next = self.write_batch(command, &mut queue),
            }
            self.keep_small();
        }
        queue.close();
        // A short one is awaited: if every process were too quick for it, the logs would pile up.
        let is_long = self.core.state.read().bytes > SNAPSHOT_AWAITED_BYTES_MAX;
        self.finish_snapshot(is_long);
        self.core.close();
    }

    /// Commits `first` and what waits behind it. Returns the command that ended the batch, if one did.
    fn write_batch(&mut self, first: Command, queue: &mut mpsc::Receiver<Command>) -> Option<Command> {
        let mut answers = Vec::new();
        let mut now = None;
        let mut next = Some(first);
        let mut waits = 0;
        self.look_for_room();
        let refusal = self.full.as_ref().map(|_| self.put_refusal());
        let core = self.core.clone();
        let state = core.state.read();
        let mut stage = Stage::begin(&state);
        while let Some(command) = next.take() {
            let before = stage.ops.len();
            match command {
                Command::Write { write, reply } => {
                    answers.push(stage_write(&mut stage, &state, write, reply, refusal.as_ref()));
                }
                Command::Grant { ttl_seconds, now: granted_at, reply } => {
                    now = now.max(Some(granted_at));
                    let granted = refusal.clone().map_or_else(|| Ok(stage.grant(ttl_seconds)), Err);
                    answers.push(Answer::Grant(reply, granted));
                }
                other => {
                    next = Some(other);
                    break;
                }
            }
            for op in &stage.ops[before..] {
                self.buffer.op(op);
            }
            if answers.len() < BATCH_WRITES_MAX && self.buffer.len() < BATCH_BYTES_MAX {
                next = queue.try_recv().ok();
                // Many write at once: those who were just answered are about to write again, until nobody comes.
                if next.is_none()
                    && waits < GATHER_STEPS
                    && self.last_batch >= GATHER_WRITES_MIN
                    && answers.len() < self.last_batch.min(GATHERED_WRITES_MAX)
                {
                    waits += 1;
                    std::thread::sleep(GATHER_STEP);
                    next = queue.try_recv().ok();
                }
            }
        }
        drop(state);
        self.last_batch = answers.len();
        let is_mixed = refusal.is_none() && answers.iter().any(Answer::is_deletion) && !frees_only(&stage.ops);
        let mut result = self.commit(stage, now);
        if let Err(error) = &result
            && is_mixed
            && self.full.is_some()
        {
            result = self.commit_deletions(&mut answers, &error.clone());
        }
        for answer in answers {
            answer.give(&result);
        }
        next
    }

    fn end_lease(
        &mut self,
        lease: LeaseId,
        expired_at: Option<Instant>,
        now: Instant,
        reply: oneshot::Sender<Result<()>>,
    ) {
        let keys = self.core.state.write().leases.begin_end(lease, expired_at);
        let Some(keys) = keys else {
            // A renewal came before its end: nothing to do. Otherwise there is none to revoke.
            let _ = reply.send(if expired_at.is_some() { Ok(()) } else { Err(Error::NoLease(lease)) });
            return;
        };
        let mut stage = Stage::begin(&self.core.state.read());
        stage.end_lease(lease, keys);
        for op in &stage.ops {
            self.buffer.op(op);
        }
        let result = self.commit(stage, Some(now));
        if result.is_err() {
            self.core.state.write().leases.cancel_end(lease, now + RETRY_AFTER);
            self.core.leases_changed.notify_one();
        }
        Answer::EndLease(reply).give(&result);
    }

    /// Makes what was staged durable, then visible. After an error nothing has changed.
    fn commit(&mut self, stage: Stage, now: Option<Instant>) -> Result<()> {
        if stage.ops.is_empty() {
            return Ok(());
        }
        let appended = self.append(&stage);
        self.buffer.clear(2 * BATCH_BYTES_MAX);
        appended?;
        self.size.log.store(self.log.length(), Ordering::Relaxed);
        self.core.commit(stage.ops, now.unwrap_or_else(Instant::now));
        Ok(())
    }

    /// The frame in the buffer, which is the stage's, goes to the log; out of the reserve if it makes room.
    fn append(&mut self, stage: &Stage) -> Result<()> {
        loop {
            let appended = if self.log.is_trusted() { Ok(()) } else { self.rotate() };
            let Err(error) = appended.and_then(|()| self.log.append(&mut self.buffer)) else {
                return Ok(());
            };
            if !is_full(&error) {
                tracing::error!(%error, "writes failed, the log could not be extended");
                return Err(io_error("the log", error));
            }
            // A snapshot under way would not get its room either, and has some that is needed now.
            if self.snapshot.is_some() {
                self.finish_snapshot(true);
                continue;
            }
            self.note_full(&error);
            let is_deletion = frees_only(&stage.ops);
            if !is_deletion || !self.reserve.release() {
                return Err(self.failure(is_deletion));
            }
        }
    }

    /// After a batch failed for want of room: its deletions again, without the others.
    fn commit_deletions(&mut self, answers: &mut [Answer], refusal: &Error) -> Result<()> {
        let mut stage = Stage::begin(&self.core.state.read());
        for answer in answers {
            match answer {
                Answer::Write { result, deletion: Some(write), .. } => {
                    *result = stage.write(&self.core.state.read(), write.clone());
                }
                Answer::Write { result, deletion: None, .. } => *result = Err(refusal.clone()),
                Answer::Grant(_, granted) => *granted = Err(refusal.clone()),
                Answer::EndLease(_) => {}
            }
        }
        for op in &stage.ops {
            self.buffer.op(op);
        }
        self.commit(stage, None)
    }

    pub(super) fn rotate(&mut self) -> io::Result<()> {
        let (revision, last_lease) = {
            let state = self.core.state.read();
            (state.revision, state.leases.next_id() - 1)
        };
        let number = self.log.number();
        let previous = self.log.rotate(revision, last_lease)?;
        self.logs += usize::from(self.log.number() != number);
        self.size.settled.fetch_add(previous, Ordering::Relaxed);
        self.size.log.store(self.log.length(), Ordering::Relaxed);
        Ok(())
    }

    /// Begins a snapshot when more of the disk is dead than alive, and takes note of the end of one.
    fn keep_small(&mut self) {
        self.note_finished_snapshot();
        if self.full.is_some() {
            self.shrink_on_full_disk();
            return;
        }
        let total = self.size.total();
        if self.snapshot.is_some() || total < self.snapshot_again_bytes {
            return;
        }
        let live = self.core.state.read().bytes;
        let dead = total.saturating_sub(live);
        if dead < live.max(self.snapshot_dead_bytes_min) && self.logs <= LOGS_MAX {
            return;
        }
        if let Err(error) = self.begin_snapshot() {
            tracing::warn!(%error, "the log could not be shortened, will be tried again when it has grown");
            self.snapshot_again_bytes = total + self.snapshot_dead_bytes_min;
        }
    }

    pub(super) fn begin_snapshot(&mut self) -> io::Result<()> {
        self.rotate()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (core, disk, number) = (self.core.clone(), self.disk.clone(), self.log.number());
        let stopping = stop.clone();
        let thread = std::thread::Builder::new()
            .name("store-snapshot".to_owned())
            .spawn(move || write_snapshot(&*disk, &core, number, &stopping))?;
        let replaces_bytes = self.size.settled.load(Ordering::Relaxed);
        self.snapshot = Some(RunningSnapshot { number, thread, stop, replaces_bytes });
        Ok(())
    }

    pub(super) fn note_finished_snapshot(&mut self) {
        if self.snapshot.as_ref().is_some_and(|running| running.thread.is_finished()) {
            self.finish_snapshot(false);
        }
    }

    /// Waits for the snapshot that is being written. `stop`: makes it give up first.
    pub(super) fn finish_snapshot(&mut self, stop: bool) {
        let Some(running) = self.snapshot.take() else {
            return;
        };
        running.stop.store(stop, Ordering::Relaxed);
        match running.thread.join() {
            Ok(Ok(length)) => {
                self.size.settled.fetch_sub(running.replaces_bytes, Ordering::Relaxed);
                self.size.settled.fetch_add(length, Ordering::Relaxed);
                self.snapshot_again_bytes = 0;
                self.expect_room();
                self.logs = 1 + usize::try_from(self.log.number() - running.number).unwrap_or(LOGS_MAX);
            }
            Ok(Err(error)) => {
                if !stop {
                    tracing::warn!(%error, "the log could not be shortened, will be tried again when it has grown");
                }
                self.snapshot_again_bytes = self.size.total() + self.snapshot_dead_bytes_min;
            }
            Err(_) => {
                tracing::error!("the thread that shortens the log panicked");
                self.snapshot_again_bytes = u64::MAX;
            }
        }
    }
}

/// Stages a write. `refusal`: what puts get.
fn stage_write(
    stage: &mut Stage,
    state: &State,
    write: Write,
    reply: oneshot::Sender<Result<Revision>>,
    refusal: Option<&Error>,
) -> Answer {
    let deletion = matches!(write.change, Change::Delete).then(|| write.clone());
    let result = match refusal {
        Some(error) if deletion.is_none() => Err(error.clone()),
        _ => stage.write(state, write),
    };
    Answer::Write { reply, result, deletion }
}

impl Answer {
    fn is_deletion(&self) -> bool {
        matches!(self, Answer::Write { deletion: Some(_), .. })
    }

    /// `committed`: what became of the batch. A conflict is only told once the writes it conflicts with are there.
    /// Nobody may be waiting any more, which is well.
    fn give(self, committed: &Result<()>) {
        match self {
            Answer::Write { reply, result, .. } => drop(reply.send(committed.clone().and(result))),
            Answer::Grant(reply, granted) => drop(reply.send(committed.clone().and(granted))),
            Answer::EndLease(reply) => drop(reply.send(committed.clone())),
        }
    }
}
