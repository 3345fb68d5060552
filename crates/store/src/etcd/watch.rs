//! All watches of a store over one stream, driven by one task.
//!
//! Each watch remembers how far it has been told. When the stream breaks, a new one is opened, and each watch goes on
//! from there; only when etcd has compacted that away does it end.
//!
//! Progress: whoever reads waits until its watch has reached etcd's revision, and that may be one at which only a key
//! of somebody else was written (the compactors' own, say). Versions before 3.4.31 and 3.5.13 answer the question how
//! far a watch is without regard to the events that are still under way to it, a cluster may have members of several
//! versions, and no read tells whether a key came and went meanwhile. But what one etcd watch delivers is in order. So
//! each follows all keys, and drops here what has another prefix: every revision has an event, and its event is its
//! progress. etcd is hardly ever shared with others who write much; if it is, their writes pass through this stream.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tonic::Streaming;

use super::client::Client;
use super::wire::{self, WatchCancelRequest, WatchCommand, WatchCreateRequest, WatchRequest, WatchResponse};
use super::{key_value, range_end, start_key};
use crate::contract::{Batch, Error, Event, EventKind, KeyValue, Revision, Sink, WatchHandle};

/// A stream on which nothing comes for so long, though etcd has told others of more, is given up for a new one; it may
/// take twice as long until that is noticed.
const SILENT_TIMEOUT: Duration = Duration::from_secs(30);
/// A stream that broke is opened again so much later, and twice as much each time that it says nothing, up to the most.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
const RECONNECT_AFTER_MAX: Duration = Duration::from_secs(2);
/// A writer waits at most so long for the watches of its own process.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(2);

/// What the store and its handles have of the task.
pub(crate) struct Watches {
    commands: mpsc::UnboundedSender<Command>,
    registry: Arc<Registry>,
}

enum Command {
    Add(Watch),
    Cancel(i64),
    Stop(oneshot::Sender<()>),
}

/// How far each watch is, for writers who wait for them.
#[derive(Default)]
struct Registry {
    progress: Mutex<HashMap<i64, Arc<Progress>>>,
    last: AtomicU64,
    /// Rung whenever something was delivered or a watch is gone.
    delivered: Notify,
}

struct Progress {
    prefix: String,
    delivered: AtomicU64,
    cancelled: AtomicBool,
}

struct Watch {
    id: i64,
    progress: Arc<Progress>,
    sink: Box<dyn Sink>,
}

/// What a [`WatchHandle`] holds.
struct Cancel {
    id: i64,
    progress: Arc<Progress>,
    registry: Arc<Registry>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.progress.cancelled.store(true, Ordering::SeqCst);
        self.registry.remove(self.id);
        // If the task is gone, so is the watch.
        let _ = self.commands.send(Command::Cancel(self.id));
    }
}

impl Registry {
    fn remove(&self, id: i64) {
        self.progress.lock().remove(&id);
        self.delivered.notify_waiters();
    }
}

impl Watches {
    pub(crate) fn start(client: Arc<Client>) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        let registry = Arc::new(Registry::default());
        let driver = Driver {
            client,
            registry: registry.clone(),
            commands: received,
            watches: HashMap::new(),
            reconnect_after: RECONNECT_AFTER,
        };
        tokio::spawn(driver.run());
        Watches { commands, registry }
    }

    /// Begins a watch of everything after `after`, which etcd still knows.
    pub(crate) fn add(&self, prefix: &str, after: Revision, mut sink: Box<dyn Sink>) -> WatchHandle {
        sink.deliver(&Batch { events: Arc::from([]), revision: after });
        let id = self.registry.last.fetch_add(1, Ordering::Relaxed) as i64 + 1;
        let progress = Arc::new(Progress {
            prefix: prefix.to_owned(),
            delivered: AtomicU64::new(after),
            cancelled: AtomicBool::new(false),
        });
        self.registry.progress.lock().insert(id, progress.clone());
        // If the task is gone, the store is shutting down.
        let _ = self.commands.send(Command::Add(Watch { id, progress: progress.clone(), sink }));
        let (registry, commands) = (self.registry.clone(), self.commands.clone());
        WatchHandle::new(Cancel { id, progress, registry, commands })
    }

    /// Waits until every watch of this process that sees `key` has been told of `revision`; for a bounded time, as
    /// a watch may be anywhere behind.
    pub(crate) async fn delivered(&self, key: &str, revision: Revision) {
        let concerned: Vec<_> = {
            let progress = self.registry.progress.lock();
            progress.values().filter(|watch| key.starts_with(&watch.prefix)).cloned().collect()
        };
        let all = async {
            loop {
                let changed = self.registry.delivered.notified();
                tokio::pin!(changed);
                // Registered before the look, so that no change is missed.
                changed.as_mut().enable();
                let behind = |watch: &Arc<Progress>| {
                    watch.delivered.load(Ordering::Acquire) < revision && !watch.cancelled.load(Ordering::SeqCst)
                };
                if !concerned.iter().any(behind) {
                    return;
                }
                changed.await;
            }
        };
        if timeout(DELIVERY_TIMEOUT, all).await.is_err() {
            tracing::warn!(key, revision, "a watch on etcd is behind, not waiting for it any longer");
        }
    }

    pub(crate) async fn stop(&self) {
        let (stopped, wait) = oneshot::channel();
        if self.commands.send(Command::Stop(stopped)).is_ok() {
            // It answers, or it was gone.
            let _ = wait.await;
        }
    }
}

struct Driver {
    client: Arc<Client>,
    registry: Arc<Registry>,
    commands: mpsc::UnboundedReceiver<Command>,
    watches: HashMap<i64, Watch>,
    reconnect_after: Duration,
}

type Requests = futures::channel::mpsc::UnboundedSender<WatchRequest>;

impl Driver {
    /// Runs until it is stopped or its store and all handles are gone.
    async fn run(mut self) {
        loop {
            while self.watches.is_empty() {
                match self.commands.recv().await {
                    Some(command) => {
                        if self.obey(command, None) {
                            return;
                        }
                    }
                    None => return,
                }
            }
            match self.run_stream().await {
                StreamEnd::Stopped => return,
                StreamEnd::Broken(why) => {
                    tracing::warn!(why, "the watches' stream from etcd broke, opening a new one");
                    if self.obey_until(sleep(self.reconnect_after), None).await.is_none() {
                        return;
                    }
                    self.reconnect_after = (2 * self.reconnect_after).min(RECONNECT_AFTER_MAX);
                }
            }
        }
    }

    async fn run_stream(&mut self) -> StreamEnd {
        // Holds a creation and a cancellation per watch, and no more.
        let (requests, receiver) = futures::channel::mpsc::unbounded();
        for watch in self.watches.values_mut() {
            send(&requests, WatchCommand::Create(watch.create_request()));
        }
        let client = self.client.clone();
        let opening = async move {
            client.refresh_status().await?;
            client.watch(receiver).await
        };
        match self.obey_until(opening, Some(&requests)).await {
            None => StreamEnd::Stopped,
            Some(Ok(stream)) => self.follow(stream, &requests).await,
            Some(Err(error)) => StreamEnd::Broken(error.to_string()),
        }
    }

    /// Whoever adds or ends a watch, or stops us, never waits for etcd. `None`: this is the end.
    async fn obey_until<T>(&mut self, future: impl Future<Output = T>, requests: Option<&Requests>) -> Option<T> {
        tokio::pin!(future);
        loop {
            tokio::select! {
                biased;
                done = &mut future => return Some(done),
                command = self.commands.recv() => {
                    if self.obey(command?, requests) {
                        return None;
                    }
                }
            }
        }
    }

    async fn follow(&mut self, mut stream: Streaming<WatchResponse>, requests: &Requests) -> StreamEnd {
        let mut checks = interval(SILENT_TIMEOUT);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What etcd had reached at the last check, unless the stream was heard since.
        let mut expected = None;
        loop {
            tokio::select! {
                biased;
                message = stream.message() => match message {
                    Ok(Some(response)) => {
                        expected = None;
                        self.reconnect_after = RECONNECT_AFTER;
                        self.take(response, requests);
                    }
                    Ok(None) => return StreamEnd::Broken("etcd closed it".to_owned()),
                    Err(status) => return StreamEnd::Broken(status.to_string()),
                },
                command = self.commands.recv() => match command {
                    Some(command) => {
                        if self.obey(command, Some(requests)) {
                            return StreamEnd::Stopped;
                        }
                    }
                    None => return StreamEnd::Stopped,
                },
                _ = checks.tick() => {
                    if expected.is_some_and(|expected| self.is_any_behind(expected)) {
                        return StreamEnd::Broken("it is silent, though etcd has moved on".to_owned());
                    }
                    expected = Some(self.client.newest());
                }
            }
        }
    }

    fn is_any_behind(&self, revision: Revision) -> bool {
        self.watches.values().any(|watch| watch.delivered() < revision)
    }

    /// Returns whether this is the end.
    fn obey(&mut self, command: Command, requests: Option<&Requests>) -> bool {
        match command {
            Command::Add(watch) => {
                if let Some(requests) = requests {
                    send(requests, WatchCommand::Create(watch.create_request()));
                }
                self.watches.insert(watch.id, watch);
            }
            Command::Cancel(id) => {
                if self.watches.remove(&id).is_some()
                    && let Some(requests) = requests
                {
                    send(requests, WatchCommand::Cancel(WatchCancelRequest { watch_id: id }));
                }
            }
            Command::Stop(stopped) => {
                for (id, mut watch) in std::mem::take(&mut self.watches) {
                    self.registry.remove(id);
                    watch.end(Error::Unavailable("it is shutting down".to_owned()));
                }
                // Whoever asked may have gone.
                let _ = stopped.send(());
                return true;
            }
        }
        false
    }

    fn take(&mut self, response: WatchResponse, requests: &Requests) {
        let revision = self.client.saw(response.header.as_ref());
        if response.canceled {
            self.end(response);
        } else if response.created {
            if !self.watches.contains_key(&response.watch_id) {
                send(requests, WatchCommand::Cancel(WatchCancelRequest { watch_id: response.watch_id }));
            }
        } else if let Some(watch) = self.watches.get_mut(&response.watch_id) {
            if response.events.is_empty() {
                // etcd's own notice to this one watch, which it sends when all events before are under way.
                watch.progress_to(revision);
            } else {
                watch.deliver(response.events);
            }
        }
        self.registry.delivered.notify_waiters();
    }

    fn end(&mut self, response: WatchResponse) {
        let Some(mut watch) = self.watches.remove(&response.watch_id) else {
            return;
        };
        self.registry.remove(watch.id);
        let compacted = response.compact_revision.max(0) as Revision;
        watch.end(if compacted > 0 {
            self.client.saw_compaction(compacted);
            Error::Compacted { requested: watch.delivered(), oldest: compacted }
        } else {
            Error::Unavailable(format!("etcd ended the watch: {}", response.cancel_reason))
        });
    }
}

enum StreamEnd {
    Stopped,
    Broken(String),
}

impl Watch {
    fn delivered(&self) -> Revision {
        self.progress.delivered.load(Ordering::Acquire)
    }

    /// All keys, see the [module](self). From the last revision that was delivered, not from the one after it: when
    /// etcd was compacted there, a deletion at that revision is gone, and before 3.4.34 and 3.5.16 a watch that
    /// begins at it is not told. Asked for the one before, etcd says that the watch comes too late.
    fn create_request(&self) -> WatchCreateRequest {
        WatchCreateRequest {
            key: start_key(""),
            range_end: range_end(""),
            start_revision: self.delivered().max(1) as i64,
            progress_notify: true,
            prev_kv: true,
            watch_id: self.id,
        }
    }

    /// Events of one revision come in one answer, as no fragments are asked for. The answer's own revision may be
    /// ahead of what it holds when a watch catches up, so what counts is that of the last event, whosever it is.
    fn deliver(&mut self, events: Vec<wire::Event>) {
        let after = self.delivered();
        let revision = |event: &wire::Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision.max(0) as Revision);
        let last = events.last().map_or(0, revision);
        if last <= after {
            return;
        }
        let prefix = self.progress.prefix.as_bytes();
        let concerns = |event: &wire::Event| event.kv.as_ref().is_some_and(|kv| kv.key.starts_with(prefix));
        let events = events.into_iter().filter(|event| revision(event) > after && concerns(event));
        let events: Arc<[Event]> = events.filter_map(event).collect();
        self.tell(&Batch { events, revision: last });
    }

    fn progress_to(&mut self, revision: Revision) {
        if revision > self.delivered() {
            self.tell(&Batch { events: Arc::from([]), revision });
        }
    }

    fn tell(&mut self, batch: &Batch) {
        // A sink that panics must not take the other watches with it.
        if !self.progress.cancelled.load(Ordering::SeqCst)
            && catch_unwind(AssertUnwindSafe(|| self.sink.deliver(batch))).is_err()
        {
            tracing::error!("a watcher panicked while it took a batch, its watch ends here");
            self.progress.cancelled.store(true, Ordering::SeqCst);
        }
        self.progress.delivered.store(batch.revision, Ordering::Release);
    }

    fn end(&mut self, why: Error) {
        if !self.progress.cancelled.load(Ordering::SeqCst) {
            self.sink.end(why);
        }
    }
}

fn event(event: wire::Event) -> Option<Event> {
    let current = key_value(event.kv?)?;
    let previous = event.prev_kv.and_then(key_value);
    if event.kind == 0 {
        return Some(Event { kind: EventKind::Put, current, previous });
    }
    let last = previous.as_ref();
    let current = KeyValue {
        value: last.map_or(Bytes::new(), |last| last.value.clone()),
        create_revision: last.map_or(0, |last| last.create_revision),
        lease: last.and_then(|last| last.lease),
        ..current
    };
    Some(Event { kind: EventKind::Delete, current, previous })
}

fn send(requests: &Requests, command: WatchCommand) {
    // When the stream is gone its reader is told.
    let _ = requests.unbounded_send(WatchRequest { command: Some(command) });
}
