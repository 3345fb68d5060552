//! The watch cache: every object in memory, fed by one watch on the store, answering all reads.
//!
//! What holds:
//! - The store delivers a write here before it acknowledges it, so a client always reads its own write.
//! - A snapshot is a clone of a persistent map: a list costs no lock while it is written out.
//! - Watchers have no queues: each has a cursor into the resource's ring of recent events and pulls when its socket
//!   takes more. One that falls behind the ring is told that its version is too old.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use rkube_kinds::Kind;
use rkube_machinery::host::Clock;
use rkube_store::{Batch, Event, EventKind, KeyValue, RangeQuery, Revision, Sink, Store, WatchHandle};
use tokio::sync::{Notify, watch};

use crate::marks::{MARK_INTERVAL, Marks};
use crate::resource::{ROOT, Resource, prefix_of};

/// How long a read waits for the cache to reach the store's revision before it gives up.
const FRESH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to wait before the store is asked again after a watch on it ended.
const REWATCH_DELAY: Duration = Duration::from_millis(200);

pub struct Cache {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    watching: parking_lot::Mutex<Option<WatchHandle>>,
    marks: parking_lot::Mutex<Marks>,
    /// Lists of revisions before this one are refused.
    compacted: AtomicU64,
    closed: AtomicBool,
    /// Held while what is kept is read anew or changes.
    changing: tokio::sync::Mutex<()>,
}

pub(crate) struct Shared {
    /// Sorted by prefix; no prefix is a prefix of another. Replaced as a whole where resources come and go.
    resources: ArcSwap<Vec<Arc<Resource>>>,
    /// Everything up to this revision is in the resources. They read it, too.
    revision: Arc<AtomicU64>,
    advanced: Notify,
    ended: watch::Sender<u64>,
    /// Whether all that the store does comes here.
    watching: AtomicBool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] rkube_store::Error),
    #[error("the cache is at revision {current}, {wanted} was asked for")]
    Behind { wanted: Revision, current: Revision },
}

impl Cache {
    /// Reads everything from the store and keeps watching it. The tasks that restart a broken watch and look at the
    /// clock end with the cache.
    pub async fn start(
        store: Arc<dyn Store>,
        kinds: impl IntoIterator<Item = Arc<Kind>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Cache>, Error> {
        let shared = Arc::new(Shared::new(kinds));
        let cache = Arc::new(Cache {
            store,
            shared,
            watching: parking_lot::Mutex::new(None),
            marks: parking_lot::Mutex::default(),
            compacted: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            changing: tokio::sync::Mutex::default(),
        });
        cache.load().await?;
        let ended = cache.shared.ended.subscribe();
        tokio::spawn(keep_watching(Arc::downgrade(&cache), ended));
        tokio::spawn(keep_marks(Arc::downgrade(&cache), clock));
        Ok(cache)
    }

    /// How many tasks wait for the watch on the store to end.
    #[cfg(test)]
    pub(crate) fn watchers_of_the_end(&self) -> usize {
        self.shared.ended.receiver_count()
    }

    /// The store may go away from now on: when its watch ends, no new one is started.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Reads all objects at one revision and watches from there.
    async fn load(&self) -> Result<(), Error> {
        let _changing = self.changing.lock().await;
        let range = self.store.range(RangeQuery::prefix(ROOT)).await?;
        let resources = self.shared.resources.load_full();
        let mut items: Vec<Vec<KeyValue>> = resources.iter().map(|_| Vec::new()).collect();
        for item in range.items {
            match find(&resources, &item.key) {
                Some(index) => items[index].push(item),
                None => tracing::debug!(key = %item.key, "a key of no served resource"),
            }
        }
        for (resource, items) in resources.iter().zip(items) {
            resource.reset(items, range.revision);
        }
        self.shared.reach(range.revision);
        let sink = Box::new(CacheSink { shared: self.shared.clone() });
        // Before the watch begins: it may end before this goes on.
        self.shared.watching.store(true, Ordering::Release);
        let handle = match self.store.watch(ROOT, Some(range.revision), sink).await {
            Ok(handle) => handle,
            Err(error) => {
                self.shared.watching.store(false, Ordering::Release);
                return Err(error.into());
            }
        };
        *self.watching.lock() = Some(handle);
        Ok(())
    }

    /// The resource in which objects of this kind lie, if there is one.
    pub fn resource(&self, storage_prefix: &str) -> Option<Arc<Resource>> {
        self.shared.find(&prefix_of(storage_prefix))
    }

    pub fn resources(&self) -> Arc<Vec<Arc<Resource>>> {
        self.shared.resources.load_full()
    }

    /// Begins to keep the objects of a kind. Another resource at the same place ends; so do its watches.
    pub async fn add(&self, kind: Arc<Kind>) -> Result<Arc<Resource>, Error> {
        let _changing = self.changing.lock().await;
        let resource = Arc::new(Resource::waiting(kind, self.shared.revision.clone()));
        self.shared.exchange(&resource.prefix, Some(resource.clone()));
        // What is written from here on waits in the resource until all that was written before is in it.
        match self.store.range(RangeQuery::prefix(&resource.prefix)).await {
            Ok(range) => resource.reset(range.items, range.revision),
            Err(error) => {
                self.shared.exchange(&resource.prefix, None);
                return Err(error.into());
            }
        }
        Ok(resource)
    }

    /// Keeps the objects of a kind no more; its watches end.
    pub async fn remove(&self, storage_prefix: &str) {
        let _changing = self.changing.lock().await;
        self.shared.exchange(&prefix_of(storage_prefix), None);
    }

    /// Whether the cache hears of what is written. It does not while the store is away, and answers from what it has.
    pub fn is_watching(&self) -> bool {
        self.shared.watching.load(Ordering::Acquire)
    }

    /// The revision up to which the cache has seen everything.
    pub fn revision(&self) -> Revision {
        self.shared.revision.load(Ordering::Acquire)
    }

    /// The oldest revision that can be listed, by its age. Watches may resume from before, where not much changed since.
    pub fn compacted(&self) -> Revision {
        self.compacted.load(Ordering::Acquire)
    }

    /// Notes the revision at this time, and lets those that are too old now be forgotten.
    pub fn mark(&self, now_seconds: i64) {
        if let Some(oldest) = self.marks.lock().note(now_seconds, self.revision()) {
            self.compacted.fetch_max(oldest, Ordering::AcqRel);
            self.shared.resources.load().iter().for_each(|resource| resource.forget(oldest));
        }
    }

    /// Waits until the cache has seen all that was written before this call.
    pub async fn fresh(&self) -> Result<Revision, Error> {
        let wanted = self.store.revision().await?;
        self.reach(wanted).await?;
        Ok(wanted)
    }

    /// Waits until the cache has seen everything up to this revision.
    pub async fn reach(&self, wanted: Revision) -> Result<(), Error> {
        if self.revision() >= wanted {
            return Ok(());
        }
        let waiting = async {
            loop {
                let advanced = self.shared.advanced.notified();
                if self.revision() >= wanted {
                    return;
                }
                advanced.await;
            }
        };
        let reached = tokio::time::timeout(FRESH_TIMEOUT, waiting).await;
        reached.map_err(|_| Error::Behind { wanted, current: self.revision() })
    }
}

/// Starts the watch on the store again whenever it ends.
async fn keep_watching(cache: Weak<Cache>, mut ended: watch::Receiver<u64>) {
    while ended.changed().await.is_ok() {
        loop {
            let Some(cache) = cache.upgrade().filter(|cache| !cache.closed.load(Ordering::Acquire)) else { return };
            match cache.load().await {
                Ok(()) => break,
                Err(_) if cache.closed.load(Ordering::Acquire) => return,
                Err(error) => tracing::warn!(%error, "cannot watch the store, trying again"),
            }
            drop(cache);
            tokio::time::sleep(REWATCH_DELAY).await;
        }
    }
}

async fn keep_marks(cache: Weak<Cache>, clock: Arc<dyn Clock>) {
    let mut ticks = tokio::time::interval(MARK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(cache) = cache.upgrade() else { return };
        cache.mark(clock.now_seconds());
    }
}

impl Shared {
    pub(crate) fn new(kinds: impl IntoIterator<Item = Arc<Kind>>) -> Shared {
        let revision = Arc::new(AtomicU64::new(0));
        let make = |kind| Arc::new(Resource::new(kind, revision.clone()));
        let mut resources: Vec<Arc<Resource>> = kinds.into_iter().map(make).collect();
        resources.sort_by(|left, right| left.prefix.cmp(&right.prefix));
        Shared {
            resources: ArcSwap::from_pointee(resources),
            revision,
            advanced: Notify::new(),
            ended: watch::Sender::new(0),
            watching: AtomicBool::new(false),
        }
    }

    /// Puts a resource, or none, in the place of the one with this prefix.
    fn exchange(&self, prefix: &str, resource: Option<Arc<Resource>>) {
        let mut resources = Vec::clone(&self.resources.load());
        let place = resources.binary_search_by(|resource| resource.prefix.as_str().cmp(prefix));
        let before = match (place, resource) {
            (Ok(place), Some(resource)) => Some(std::mem::replace(&mut resources[place], resource)),
            (Ok(place), None) => Some(resources.remove(place)),
            (Err(place), Some(resource)) => {
                resources.insert(place, resource);
                None
            }
            (Err(_), None) => None,
        };
        self.resources.store(Arc::new(resources));
        if let Some(before) = before {
            before.end();
        }
    }

    /// The resource of exactly this prefix.
    pub(crate) fn find(&self, prefix: &str) -> Option<Arc<Resource>> {
        let resources = self.resources.load();
        resources
            .binary_search_by(|resource| resource.prefix.as_str().cmp(prefix))
            .ok()
            .map(|index| resources[index].clone())
    }

    fn reach(&self, revision: Revision) {
        self.revision.store(revision, Ordering::Release);
        self.advanced.notify_waiters();
    }
}

/// The resource whose prefix this key has.
fn find(resources: &[Arc<Resource>], key: &str) -> Option<usize> {
    let after = resources.partition_point(|resource| resource.prefix.as_str() <= key);
    let index = after.checked_sub(1)?;
    key.starts_with(resources[index].prefix.as_str()).then_some(index)
}

pub(crate) struct CacheSink {
    pub(crate) shared: Arc<Shared>,
}

impl Sink for CacheSink {
    fn deliver(&mut self, batch: &Batch) {
        let resources = self.shared.resources.load();
        let known = batch.events.iter().filter_map(|event| Some((find(&resources, &event.current.key)?, event)));
        let mut events: Vec<(usize, &Event)> = known.collect();
        // A resource takes all that is its own at once: one revision may hold events of several, in any order, and
        // what is seen at a revision is all of it.
        events.sort_by_key(|(index, _)| *index);
        for run in events.chunk_by(|left, right| left.0 == right.0) {
            let changes = run.iter().map(|(_, event)| (matches!(event.kind, EventKind::Delete), &event.current));
            resources[run[0].0].apply(changes);
        }
        self.shared.reach(batch.revision);
    }

    fn end(&mut self, why: rkube_store::Error) {
        // Starting again says it if that fails.
        tracing::debug!(%why, "the watch on the store ended");
        self.shared.watching.store(false, Ordering::Release);
        self.shared.ended.send_modify(|count| *count += 1);
    }
}
