//! A custom resource in a version that is not the stored one: a [`Resource`] of its own, made when somebody reads it.
//!
//! A [`Feed`] takes all stored objects, converts them, and then follows what changes. Keys, revisions and the order of
//! events are those of the stored objects, so lists and watches mean the same in every version. What holds:
//! - Reads wait until all that was stored before them is converted. If that fails they say why, and the next read tries
//!   again. Writes never wait here.
//! - What was filled once keeps its watches while conversions fail: they go on when one succeeds.
//! - A version that nobody reads or watches for [`IDLE_MAX`] is dropped, and nothing is converted for it any more.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rkube_kinds::Kind;
use rkube_machinery::{Status, changes};
use rkube_store::{KeyValue, Revision};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use crate::event::{Entry, EventType};
use crate::object::Object;
use crate::resource::{Head, Items, Resource, Subscription};
use crate::ring::{Limit, Taken};
use crate::versions::{CONVERTED_BYTES_MAX, CONVERTED_OBJECTS_MAX, Versions};

/// A version that nobody reads or watches for so long is dropped.
pub const IDLE_MAX: Duration = Duration::from_secs(300);
/// How often a feed looks whether it is needed, and tells its watches how far the store is.
const CHECK_PERIOD: Duration = Duration::from_secs(30);
/// How long a feed waits after a conversion failed before it tries again by itself; doubled up to the maximum.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// After so many failures a feed that stumbles over what has changed since begins anew.
const FAILURES_MAX: u32 = 5;
/// How often a read begins again because the feed that it waited for ended.
const READ_ATTEMPTS_MAX: usize = 5;
/// So many of the last changes are converted when a version is filled: a client that reads a version for the first time
/// may go on from what it wrote before.
const PAST_MAX: usize = 200;
/// So much is taken from the stored objects' changes at once.
const TAKEN: Limit = Limit { events: CONVERTED_OBJECTS_MAX, bytes: CONVERTED_BYTES_MAX };

pub(crate) struct Derived {
    kind: Arc<Kind>,
    versions: Arc<Versions>,
    source: Arc<Resource>,
    feed: Mutex<Option<Arc<Feed>>>,
    /// A conversion has failed. What is past may be what cannot be converted: the next feed begins with what is there.
    has_failed: Arc<AtomicBool>,
}

impl Derived {
    pub(crate) fn new(kind: Arc<Kind>, versions: Arc<Versions>, source: Arc<Resource>) -> Derived {
        Derived { kind, versions, source, feed: Mutex::default(), has_failed: Arc::default() }
    }

    /// The objects in this version, with all that was stored before this call.
    pub(crate) async fn read(self: &Arc<Self>) -> Result<Arc<Resource>, Status> {
        for _ in 0..READ_ATTEMPTS_MAX {
            let feed = self.current();
            match feed.reach().await {
                Reached::All => return Ok(feed.target.clone()),
                Reached::Failure(status) => return Err(status),
                Reached::End => {}
            }
        }
        Err(Status::too_many_requests("storage is (re)initializing", 1))
    }

    /// A stored object in this version, if it is here already.
    pub(crate) fn find(&self, stored: &Entry) -> Option<Entry> {
        let feed = self.feed.lock().clone()?;
        let key = self.source.key(&stored.object.namespace, &stored.object.name);
        // What was only made to be shown has the revision of what is stored, and is not the same.
        self.source.get(&key).filter(|entry| Arc::ptr_eq(&entry.object, &stored.object))?;
        feed.target.get(&key).filter(|entry| entry.revision == stored.revision)
    }

    /// The feed that runs, or a new one. It is needed from now on for [`IDLE_MAX`].
    fn current(self: &Arc<Self>) -> Arc<Feed> {
        let mut slot = self.feed.lock();
        if let Some(feed) = slot.as_ref().filter(|feed| !feed.progress.borrow().over) {
            *feed.last_read.lock() = Instant::now();
            return feed.clone();
        }
        let feed = Arc::new(Feed::new(self));
        tokio::spawn(feed.clone().run(Arc::downgrade(self)));
        slot.insert(feed).clone()
    }

    /// Forgets the feed if nobody needs it, and says whether it did.
    fn drop_idle(&self, feed: &Arc<Feed>) -> bool {
        let mut slot = self.feed.lock();
        let idle = feed.last_read.lock().elapsed() >= IDLE_MAX && !feed.target.is_watched();
        if idle && slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, feed)) {
            *slot = None;
        }
        idle
    }
}

/// Fills a resource from another.
struct Feed {
    versions: Arc<Versions>,
    source: Arc<Resource>,
    /// In the other version. A new one for every feed: who has it keeps a whole one.
    target: Arc<Resource>,
    /// Everything up to this revision is in the target, which reads it, too.
    reached: Arc<AtomicU64>,
    progress: changes::Sender<Progress>,
    /// Wakes a feed that waits after a failure.
    retry: Notify,
    last_read: Mutex<Instant>,
    /// The version's.
    has_failed: Arc<AtomicBool>,
    /// How far the source was when the feed began.
    start: Head,
}

#[derive(Default)]
struct Progress {
    /// All changes up to here are in the target. None: it is not filled yet.
    done: Option<Head>,
    failures: u64,
    /// Why the last attempt failed.
    failure: Status,
    /// The feed does nothing more.
    over: bool,
}

/// What came of waiting for a feed.
enum Reached {
    All,
    Failure(Status),
    End,
}

/// A feed that has stopped to follow: its source ended, or nobody needs it.
struct Stop;

impl Feed {
    fn new(derived: &Derived) -> Feed {
        let reached = Arc::new(AtomicU64::new(0));
        Feed {
            versions: derived.versions.clone(),
            source: derived.source.clone(),
            target: Arc::new(Resource::new(derived.kind.clone(), reached.clone())),
            reached,
            progress: changes::Sender::default(),
            retry: Notify::new(),
            last_read: Mutex::new(Instant::now()),
            has_failed: derived.has_failed.clone(),
            start: derived.source.head().0,
        }
    }

    /// Waits until everything that is stored now is in the target, or an attempt to bring it there failed.
    async fn reach(&self) -> Reached {
        let (wanted, revision) = self.source.head();
        let mut progress = self.progress.subscribe();
        let failures = progress.borrow().failures;
        let mut is_first = true;
        loop {
            {
                let now = progress.borrow_and_update();
                if now.done.is_some_and(|done| done >= wanted) {
                    self.reached.fetch_max(revision, Ordering::AcqRel);
                    return Reached::All;
                }
                if now.failures > failures {
                    return Reached::Failure(now.failure.clone());
                }
                if now.over {
                    return Reached::End;
                }
            }
            if std::mem::take(&mut is_first) {
                self.retry.notify_waiters();
            }
            if progress.changed().await.is_err() {
                return Reached::End;
            }
        }
    }

    async fn run(self: Arc<Self>, derived: Weak<Derived>) {
        let _end = End(self.clone());
        let past = if self.has_failed.swap(false, Ordering::AcqRel) { 0 } else { PAST_MAX };
        let (items, mut subscription) = self.source.follow(past);
        if let Err(status) = self.fill(&items, subscription.revision()).await {
            match self.is_past(&items) {
                true => self.has_failed.store(true, Ordering::Release),
                false => self.fail(status),
            }
            return;
        }
        self.progress.send_modify(|progress| progress.done = Some(subscription.head()));
        let Err(Stop) = self.follow(&mut subscription, &derived).await;
    }

    fn fail(&self, failure: Status) {
        tracing::debug!(message = %failure.message, prefix = %self.source.prefix, "a conversion failed");
        self.has_failed.store(true, Ordering::Release);
        self.progress.send_modify(|progress| {
            progress.failures += 1;
            progress.failure = failure;
        });
    }

    async fn fill(&self, items: &Items, revision: Revision) -> Result<(), Status> {
        let stored: Vec<Arc<Object>> = items.values().map(|entry| entry.object.clone()).collect();
        let converted = self.versions.objects(&stored, &self.target.kind).await?;
        let filled = items.iter().zip(converted).map(|((key, entry), object)| kept(key, entry.revision, Some(object)));
        self.target.reset(filled.collect(), revision);
        Ok(())
    }

    async fn follow(
        self: &Arc<Self>,
        subscription: &mut Subscription,
        derived: &Weak<Derived>,
    ) -> Result<Infallible, Stop> {
        let ended = subscription.ended();
        tokio::pin!(ended);
        let mut checks = tokio::time::interval(CHECK_PERIOD);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Of a revision that is not whole yet.
        let mut changes: Vec<(bool, KeyValue)> = Vec::new();
        loop {
            tokio::select! {
                biased;
                taken = subscription.next(TAKEN) => {
                    let Ok(Some(taken)) = taken else { return Err(Stop) };
                    tokio::select! {
                        biased;
                        converted = self.take(&taken, derived) => changes.extend(converted?),
                        () = &mut ended => return Err(Stop),
                    }
                    let last = taken.events.last().map_or(0, |event| event.revision);
                    if subscription.revision() >= last {
                        self.target.apply(changes.iter().map(|(deleted, item)| (*deleted, item)));
                        changes.clear();
                        self.progress.send_modify(|progress| progress.done = Some(subscription.head()));
                    }
                }
                _ = checks.tick() => {
                    self.note_revision();
                    self.check_need(derived)?;
                }
            }
        }
    }

    /// Tells those who watch how far the store is, though nothing of theirs has changed.
    fn note_revision(&self) {
        let (head, revision) = self.source.head();
        if self.progress.borrow().done.is_some_and(|done| done >= head) {
            self.reached.fetch_max(revision, Ordering::AcqRel);
        }
    }

    fn check_need(self: &Arc<Self>, derived: &Weak<Derived>) -> Result<(), Stop> {
        match derived.upgrade() {
            Some(derived) if !derived.drop_idle(self) => Ok(()),
            _ => Err(Stop),
        }
    }

    /// Changes in the target's version; tries again until they can be converted.
    async fn take(self: &Arc<Self>, taken: &Taken, derived: &Weak<Derived>) -> Result<Vec<(bool, KeyValue)>, Stop> {
        let is_deletion = |event_type: EventType| matches!(event_type, EventType::Deleted);
        let written = taken.events.iter().filter(|event| !is_deletion(event.event_type));
        let stored: Vec<Arc<Object>> = written.map(|event| event.object.clone()).collect();
        let mut failures = 0;
        let converted = loop {
            match self.versions.objects(&stored, &self.target.kind).await {
                Ok(converted) => break converted,
                // It stumbles over the past: the next feed begins with what is there.
                Err(_) if !self.is_present() && self.is_superseded(taken) => {
                    self.has_failed.store(true, Ordering::Release);
                    return Err(Stop);
                }
                Err(status) => {
                    failures += 1;
                    let retry = self.retry.notified();
                    tokio::pin!(retry);
                    // Reads that see this failure wake the next attempt.
                    retry.as_mut().enable();
                    self.fail(status);
                    self.check_need(derived)?;
                    if failures >= FAILURES_MAX && self.is_superseded(taken) {
                        return Err(Stop);
                    }
                    let backoff = BACKOFF_MIN.saturating_mul(1 << failures.min(16)).min(BACKOFF_MAX);
                    let _ = tokio::time::timeout(backoff, retry).await;
                }
            }
        };
        let mut converted = converted.into_iter();
        let change = |event: &Arc<crate::CachedEvent>| {
            let deleted = is_deletion(event.event_type);
            let object = if deleted { None } else { converted.next() };
            (deleted, kept(&event.key, event.revision, object))
        };
        Ok(taken.events.iter().map(change).collect())
    }

    /// Whether the target has had everything once that there was when the feed began.
    fn is_present(&self) -> bool {
        self.progress.borrow().done.is_some_and(|done| done >= self.start)
    }

    /// Whether some of these objects are not there any more as they are.
    fn is_past(&self, items: &Items) -> bool {
        items.iter().any(|(key, entry)| self.source.get(key).is_none_or(|now| now.revision != entry.revision))
    }

    /// Whether some of what was written is not the last word: what cannot be converted may be gone.
    fn is_superseded(&self, taken: &Taken) -> bool {
        let is_current = |event: &Arc<crate::CachedEvent>| match self.source.get(&event.key) {
            Some(entry) => entry.revision == event.revision,
            None => matches!(event.event_type, EventType::Deleted),
        };
        !taken.events.iter().all(is_current)
    }
}

/// Ends what a feed fed, however it ends.
struct End(Arc<Feed>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.progress.send_modify(|progress| progress.over = true);
        self.0.target.end();
    }
}

/// An object as the store would deliver it.
fn kept(key: &Arc<str>, revision: Revision, object: Option<Arc<Object>>) -> KeyValue {
    KeyValue {
        key: key.clone(),
        value: bytes::Bytes::new(),
        create_revision: revision,
        mod_revision: revision,
        lease: None,
        note: object.map(|object| object as _),
    }
}
