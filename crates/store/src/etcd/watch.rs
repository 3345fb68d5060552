//! All watches of a store over one stream, driven by one task.
//!
//! Each watch remembers how far it has been told. When the stream breaks, a new one is opened, and each watch goes on
//! from there; only when etcd has compacted that away does it end.
//!
//! Progress comes from etcd in two ways. Each watch asks for etcd's periodic notices, which are right with every
//! version but rare (the interval is etcd's own setting). And when an answer has told of a revision that some watch
//! has not reached, progress is asked for at once; that is done only with versions that do it right (see
//! [`super`]).

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::Streaming;

use super::client::Client;
use super::wire::{
    self, WatchCancelRequest, WatchCommand, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use super::{key_value, range_end, start_key};
use crate::contract::{Batch, Error, Event, EventKind, KeyValue, Revision, Sink, WatchHandle};

/// Progress is asked for at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(20);
const RECONNECT_AFTER: Duration = Duration::from_millis(200);
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
    /// Whether the present stream knows it.
    created: bool,
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
        let driver = Driver { client, registry: registry.clone(), commands: received, watches: HashMap::new() };
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
        let _ = self.commands.send(Command::Add(Watch { id, progress: progress.clone(), sink, created: false }));
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
                    sleep(RECONNECT_AFTER).await;
                }
            }
        }
    }

    async fn run_stream(&mut self) -> StreamEnd {
        let (requests, receiver) = futures::channel::mpsc::unbounded();
        for watch in self.watches.values_mut() {
            watch.created = false;
            send(&requests, WatchCommand::Create(watch.create_request()));
        }
        if let Err(error) = self.client.refresh_status().await {
            return StreamEnd::Broken(error.to_string());
        }
        match self.client.watch(receiver).await {
            Ok(stream) => self.follow(stream, &requests).await,
            Err(error) => StreamEnd::Broken(error.to_string()),
        }
    }

    async fn follow(&mut self, mut stream: Streaming<WatchResponse>, requests: &Requests) -> StreamEnd {
        let client = self.client.clone();
        let mut ask_again = Instant::now();
        let mut asking = false;
        loop {
            tokio::select! {
                biased;
                message = stream.message() => match message {
                    Ok(Some(response)) => self.take(response, requests),
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
                () = client.newest_changed.notified(), if !asking => asking = client.has_ordered_progress(),
                () = sleep_until(ask_again), if asking => {
                    asking = self.is_any_behind();
                    if asking {
                        send(requests, WatchCommand::Progress(WatchProgressRequest {}));
                        ask_again = Instant::now() + PROGRESS_INTERVAL;
                    }
                }
            }
        }
    }

    fn is_any_behind(&self) -> bool {
        let newest = self.client.newest();
        self.watches.values().any(|watch| watch.delivered() < newest)
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
            if let Some(watch) = self.watches.get_mut(&response.watch_id) {
                watch.created = true;
            } else {
                send(requests, WatchCommand::Cancel(WatchCancelRequest { watch_id: response.watch_id }));
            }
        } else if !response.events.is_empty() {
            if let Some(watch) = self.watches.get_mut(&response.watch_id) {
                watch.deliver(response.events);
            }
        } else if response.watch_id == -1 {
            for watch in self.watches.values_mut().filter(|watch| watch.created) {
                watch.progress_to(revision);
            }
        } else if let Some(watch) = self.watches.get_mut(&response.watch_id) {
            watch.progress_to(revision);
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

    fn create_request(&self) -> WatchCreateRequest {
        WatchCreateRequest {
            key: start_key(&self.progress.prefix),
            range_end: range_end(&crate::contract::prefix_end(&self.progress.prefix)),
            start_revision: self.delivered() as i64 + 1,
            progress_notify: true,
            prev_kv: true,
            watch_id: self.id,
        }
    }

    /// Events of one revision come in one answer, as no fragments are asked for. The answer's own revision may be
    /// ahead of what it holds when a watch catches up, so what counts is that of the last event.
    fn deliver(&mut self, events: Vec<wire::Event>) {
        let after = self.delivered();
        let events: Vec<_> =
            events.into_iter().filter_map(event).filter(|event| event.current.mod_revision > after).collect();
        if let Some(last) = events.last() {
            let revision = last.current.mod_revision;
            self.tell(&Batch { events: events.into(), revision });
        }
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
