//! What happened: every write to the store and every fault, in order, summed up in one number.

use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use rkube_store::{Batch, Error, EventKind, Sink, WatchHandle};
use tokio::time::Instant;

use super::{Chaos, Instance};

/// A write to the store.
pub struct Seen<'a> {
    /// Since the cluster was started.
    pub at_micros: u64,
    pub key: &'a str,
    pub revision: u64,
    /// What is there now; None if nothing is.
    pub value: Option<&'a [u8]>,
    /// Whose request it is, if it is of a part.
    pub writer: Option<Writer<'a>>,
}

/// One life of a part, and as whom it asks.
pub struct Writer<'a> {
    /// By whose Lease it acts, if it has to be elected.
    pub lease: Option<&'a str>,
    /// Of this life: by it the Lease is held.
    pub identity: &'a str,
    pub user: &'a str,
    /// Whether it is told that the request was carried out. Else it may well send another.
    pub is_told: bool,
}

/// Looks at every write.
pub trait Observer: Send {
    fn see(&mut self, seen: &Seen<'_>);
}

/// Whose request is carried out at this moment.
#[derive(Clone)]
pub(super) struct Requester {
    pub instance: Arc<Instance>,
    pub user: Arc<str>,
    pub is_told: bool,
}

pub struct Trace {
    start: Instant,
    hasher: DefaultHasher,
    writes: u64,
    faults: u64,
    writer: Option<Requester>,
    lines: Option<Vec<String>>,
    observers: Vec<Box<dyn Observer>>,
    watch: Option<WatchHandle>,
}

impl Trace {
    pub(super) fn start(keeps_lines: bool) -> Trace {
        Trace {
            start: Instant::now(),
            hasher: DefaultHasher::new(),
            writes: 0,
            faults: 0,
            writer: None,
            lines: keeps_lines.then(Vec::new),
            observers: Vec::new(),
            watch: None,
        }
    }

    pub(super) fn keep(&mut self, watch: WatchHandle) {
        self.watch = Some(watch);
    }

    pub(super) fn digest(&self) -> u64 {
        self.hasher.finish()
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    pub(super) fn faults(&self) -> u64 {
        self.faults
    }

    pub(super) fn set_writer(&mut self, writer: Option<&Requester>) {
        self.writer = writer.cloned();
    }

    pub(super) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }

    pub(super) fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observers.push(observer);
    }

    fn now_micros(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn fault(&mut self, what: &str) {
        let now = self.now_micros();
        self.faults += 1;
        self.hasher.write_u64(now);
        self.hasher.write(what.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{} {what}", seconds(now)));
        }
    }

    fn write(&mut self, seen: &Seen<'_>) {
        self.writes += 1;
        self.hasher.write_u64(seen.at_micros);
        self.hasher.write(seen.key.as_bytes());
        self.hasher.write_u64(seen.revision);
        self.hasher.write(seen.value.unwrap_or_default());
        if let Some(lines) = &mut self.lines {
            let value = match seen.value {
                None => "gone".to_owned(),
                Some(value) => format!("{:016x}", hash(value)),
            };
            lines.push(format!("{} {} {} {value}", seconds(seen.at_micros), seen.revision, seen.key));
        }
        for observer in &mut self.observers {
            observer.see(seen);
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// The watch of the whole store.
pub(super) struct Follower(Arc<Chaos>);

impl Follower {
    pub fn new(chaos: Arc<Chaos>) -> Follower {
        Follower(chaos)
    }
}

impl Sink for Follower {
    fn deliver(&mut self, batch: &Batch) {
        let mut trace = self.0.trace.lock();
        let at_micros = trace.now_micros();
        for event in batch.events.iter() {
            let current = &event.current;
            let value = matches!(event.kind, EventKind::Put).then_some(&*current.value);
            let known = trace.writer.clone();
            let writer = known.as_ref().map(|Requester { instance, user, is_told }| Writer {
                lease: instance.lease,
                identity: &instance.identity,
                user,
                is_told: *is_told,
            });
            trace.write(&Seen { at_micros, key: &current.key, revision: current.mod_revision, value, writer });
        }
    }

    /// The store has ended.
    fn end(&mut self, _why: Error) {}
}
