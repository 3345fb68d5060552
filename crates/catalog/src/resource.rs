//! One resource's objects, its ring of recent events, and those who wait for the next one.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use imbl::OrdMap;
use parking_lot::{Mutex, RwLock};
use rkube_kinds::Kind;
use rkube_machinery::{Value, json};
use rkube_store::{KeyValue, Revision};
use tokio::sync::Notify;

use crate::event::{CachedEvent, Entry, EventType};
use crate::gate::Gate;
use crate::label_marks::LabelMarks;
use crate::object::Object;
use crate::ring::{Cursor, Limit, Place, Ring, Taken};

/// Where all objects lie in the store.
pub const ROOT: &str = "/registry/";

/// So many written batches are kept for watchers that come a little later.
const SHARED_MAX: usize = 8;

/// Objects by their key in the store.
pub type Items = OrdMap<Arc<str>, Entry>;

/// The past that was asked for is not kept any more.
#[derive(Debug)]
pub struct Gone {
    pub requested: Revision,
    pub oldest: Revision,
}

/// How far the changes of a resource go, resets included: later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Head {
    epoch: u64,
    place: Place,
}

pub struct Resource {
    pub kind: Arc<Kind>,
    /// Of custom resources: objects that say otherwise were stored in another version.
    api_version: Option<Box<str>>,
    /// `/registry/configmaps/`.
    pub prefix: String,
    pub gate: Gate,
    state: RwLock<State>,
    /// The cache's: everything up to this revision is in the state.
    reached: Arc<AtomicU64>,
    /// Raised with every change of the state, before those who made it are told.
    changes: AtomicU64,
    /// What was last written for watchers, for others that are at the same place.
    shared: Mutex<VecDeque<SharedLines>>,
}

/// Events as they go out to every watcher that wants all of a scope.
struct SharedLines {
    namespace: Box<str>,
    from: Place,
    to: Place,
    bytes: Bytes,
}

#[derive(Default)]
struct State {
    items: Items,
    ring: Ring,
    /// The revision of the last change.
    last: Revision,
    /// Changes that came before what they change is known.
    early: Option<Vec<(bool, KeyValue)>>,
    /// The resource is served no more.
    ended: bool,
    /// Raised when a reset broke the line of events.
    epoch: u64,
    /// An object of another version is here, or was.
    mixed: bool,
    /// Who to wake, by namespace; the empty one is woken by every change.
    waiting: HashMap<Box<str>, Arc<Notify>>,
}

impl Resource {
    /// `reached`: the revision up to which the cache has seen everything.
    pub(crate) fn new(kind: Arc<Kind>, reached: Arc<AtomicU64>) -> Self {
        let prefix = prefix_of(&kind.storage_prefix);
        let api_version = kind.schema.table().is_none().then(|| kind.api_version().into());
        let (gate, state, shared) = (Gate::default(), RwLock::default(), Mutex::default());
        Resource { kind, api_version, prefix, gate, state, reached, changes: AtomicU64::new(0), shared }
    }

    /// A resource that keeps changes for later, until [`Resource::reset`] says what was there before them.
    pub(crate) fn waiting(kind: Arc<Kind>, reached: Arc<AtomicU64>) -> Self {
        let resource = Resource::new(kind, reached);
        resource.state.write().early = Some(Vec::new());
        resource
    }

    /// The key of an object; of cluster-scoped ones `namespace` is empty.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        let slash = if namespace.is_empty() { "" } else { "/" };
        [&self.prefix, namespace, slash, name].concat()
    }

    /// The object of this name; of cluster-scoped ones `namespace` is empty.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Entry> {
        self.get(&self.key(namespace, name))
    }

    pub fn get(&self, key: &str) -> Option<Entry> {
        self.state.read().items.get(key).cloned()
    }

    pub fn count(&self) -> usize {
        self.state.read().items.len()
    }

    /// All objects now, and the revision of that.
    pub fn snapshot(&self) -> (Items, Revision) {
        let state = self.state.read();
        (state.items.clone(), self.revision(&state))
    }

    /// The objects of a namespace now, by name.
    pub fn within(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.entries_within(namespace).into_iter().map(|entry| entry.object).collect()
    }

    /// The same with their revisions.
    pub fn entries_within(&self, namespace: &str) -> Vec<Entry> {
        self.select_within(namespace, LabelMarks::default(), |_| true)
    }

    /// The same of those that are wanted, all of which have these marks.
    pub fn select_within(&self, namespace: &str, marks: LabelMarks, is_wanted: impl Fn(&Object) -> bool) -> Vec<Entry> {
        let all = self.snapshot().0;
        if all.is_empty() {
            return Vec::new();
        }
        let first = self.key(namespace, "");
        // The next character after the slash that ends it: nobody's key has to be looked at.
        let end = format!("{}0", first.strip_suffix('/').unwrap_or(&first));
        let here = all.range::<_, str>((Bound::Included(first.as_str()), Bound::Excluded(end.as_str())));
        let here = here.map(|(_, entry)| entry).filter(|entry| entry.may_be(marks));
        here.filter(|entry| is_wanted(&entry.object)).cloned().collect()
    }

    /// All objects as they were at a revision: the current ones with the events since then undone.
    pub fn snapshot_at(&self, revision: Revision) -> Result<Items, Gone> {
        let (mut items, events) = {
            let state = self.state.read();
            let events = state.ring.after(revision);
            (state.items.clone(), events.ok_or_else(|| state.gone(revision))?)
        };
        undo(&mut items, &events);
        Ok(items)
    }

    /// Replaces everything with what the store holds at `revision`. Watches that resume from before end as too old.
    pub fn reset(&self, stored: Vec<KeyValue>, revision: Revision) {
        let items: Items = stored.iter().filter_map(|item| Some((item.key.clone(), self.entry(item)?))).collect();
        let mixed = items.values().any(|entry| self.is_of_another_version(&entry.object));
        let mut state = self.state.write();
        state.mixed |= mixed;
        let before = std::mem::replace(&mut state.items, items);
        state.ring.restart(revision);
        state.epoch += 1;
        state.last = revision;
        for (deleted, item) in state.early.take().unwrap_or_default() {
            if item.mod_revision > revision {
                self.change(&mut state, deleted, &item);
            }
        }
        state.waiting.values().for_each(|waiting| waiting.notify_waiters());
        self.changes.fetch_add(1, Ordering::Release);
        drop(state);
        // To let go of many objects takes a while: nobody waits for it.
        drop(before);
    }

    /// Replaces everything with these objects: for a resource that no store feeds.
    pub fn fill(&self, objects: &[Value], revision: Revision) {
        let stored = objects.iter().map(|object| {
            let metadata = object.get("metadata");
            KeyValue {
                key: self.key(metadata.str("namespace"), metadata.str("name")).into(),
                value: json::to_string(object).into(),
                create_revision: revision,
                mod_revision: revision,
                lease: None,
                note: None,
            }
        });
        self.reset(stored.collect(), revision);
    }

    /// Applies changes in revision order, and all that there are of the last revision: whether each is a deletion, and
    /// the key with its value.
    pub fn apply<'a>(&self, changes: impl Iterator<Item = (bool, &'a KeyValue)>) {
        let mut state = self.state.write();
        if let Some(early) = &mut state.early {
            early.extend(changes.map(|(deleted, item)| (deleted, item.clone())));
            return;
        }
        let mut touched: Vec<Arc<Object>> = Vec::new();
        for (deleted, item) in changes {
            touched.extend(self.change(&mut state, deleted, item));
        }
        self.changes.fetch_add(1, Ordering::Release);
        state.wake(&touched);
    }

    /// A number that is another one after every change: who follows the resource without waiting looks at it first, and
    /// at the objects only if it has moved.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// The revision of the last change: who has seen that has seen everything.
    pub fn last_change(&self) -> Revision {
        self.state.read().last
    }

    fn change(&self, state: &mut State, deleted: bool, item: &KeyValue) -> Option<Arc<Object>> {
        state.last = item.mod_revision;
        let event = self.event(state, deleted, item)?;
        let object = event.object.clone();
        state.ring.push(Arc::new(event));
        if !state.mixed && self.is_of_another_version(&object) {
            // Those who watch here are to see one version alone: they begin again where objects are converted.
            state.mixed = true;
            state.ring.restart(item.mod_revision);
            state.epoch += 1;
            state.waiting.values().for_each(|waiting| waiting.notify_waiters());
        }
        Some(object)
    }

    fn is_of_another_version(&self, object: &Object) -> bool {
        self.api_version.as_ref().is_some_and(|api_version| !object.has_api_version(api_version))
    }

    /// Whether an object of another version is here, or was: then not every event is of the resource's own.
    pub(crate) fn is_mixed(&self) -> bool {
        self.state.read().mixed
    }

    /// Everything up to this revision is in the state: the cache has seen it all, or a change of this resource says so.
    fn revision(&self, state: &State) -> Revision {
        self.reached.load(Ordering::Acquire).max(state.last)
    }

    /// Lets events up to this revision be forgotten, but for the latest.
    pub(crate) fn forget(&self, up_to: Revision) {
        if self.state.read().ring.is_long() {
            self.state.write().ring.forget(up_to);
        }
    }

    /// The resource is served no more: its watches end.
    pub(crate) fn end(&self) {
        let mut state = self.state.write();
        state.ended = true;
        state.waiting.values().for_each(|waiting| waiting.notify_waiters());
    }

    /// Whether the resource is served no more.
    pub fn has_ended(&self) -> bool {
        self.state.read().ended
    }

    fn event(&self, state: &mut State, deleted: bool, item: &KeyValue) -> Option<CachedEvent> {
        let revision = item.mod_revision;
        let (event_type, object, previous) = if deleted {
            let previous = state.items.remove(&item.key)?;
            (EventType::Deleted, previous.object.clone(), Some(previous))
        } else {
            let entry = self.entry(item)?;
            let object = entry.object.clone();
            let previous = state.items.insert(item.key.clone(), entry);
            (if previous.is_some() { EventType::Modified } else { EventType::Added }, object, previous)
        };
        Some(CachedEvent { event_type, key: item.key.clone(), object, previous, revision, protobuf: OnceLock::new() })
    }

    /// The object in a stored value: the one that the writer passed along, or parsed.
    fn entry(&self, item: &KeyValue) -> Option<Entry> {
        let noted = item.note.clone().and_then(|note| note.downcast::<Object>().ok());
        let object = match noted {
            Some(object) => object,
            None => match Object::parse(&item.value, &self.kind) {
                Ok(object) => Arc::new(object),
                Err(error) => {
                    tracing::error!(key = %item.key, %error, "a stored object cannot be read and is left out");
                    return None;
                }
            },
        };
        Some(Entry::new(object, item.mod_revision))
    }

    /// The events of a scope at these places as they go out, written once for all watchers that are there.
    pub fn written(&self, namespace: &str, from: Place, to: Place, write: impl FnOnce() -> Bytes) -> Bytes {
        let mut shared = self.shared.lock();
        let found = shared.iter().find(|lines| lines.to == to && lines.from == from && *lines.namespace == *namespace);
        if let Some(lines) = found {
            return lines.bytes.clone();
        }
        let bytes = write();
        if shared.len() >= SHARED_MAX {
            shared.pop_front();
        }
        shared.push_back(SharedLines { namespace: namespace.into(), from, to, bytes: bytes.clone() });
        bytes
    }

    /// How far the changes go, and a revision up to which all of them are among these.
    pub(crate) fn head(&self) -> (Head, Revision) {
        let state = self.state.read();
        (Head { epoch: state.epoch, place: state.ring.end() }, self.revision(&state))
    }

    /// All objects as they were at most so many changes ago, and a watch on what changed since then.
    pub fn follow(self: &Arc<Self>, changes_max: usize) -> (Items, Subscription) {
        let mut state = self.state.write();
        let cursor = match changes_max {
            0 => Cursor { place: state.ring.end(), revision: self.revision(&state) },
            _ => state.ring.cursor_before(changes_max),
        };
        let since = state.ring.after(cursor.revision).unwrap_or_default();
        let mut items = state.items.clone();
        undo(&mut items, &since);
        let waiting = state.waiting.entry("".into()).or_default().clone();
        let epoch = state.epoch;
        let subscription = Subscription { resource: self.clone(), namespace: "".into(), waiting, cursor, epoch };
        (items, subscription)
    }

    /// Whether anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        !self.state.read().waiting.is_empty()
    }

    /// A watch on changes after `after`, of one namespace (or all, if empty).
    pub fn subscribe(self: &Arc<Self>, namespace: &str, after: Revision) -> Result<Subscription, Gone> {
        let mut state = self.state.write();
        let cursor = state.ring.cursor_after(after).ok_or_else(|| state.gone(after))?;
        let waiting = state.waiting.entry(namespace.into()).or_default().clone();
        Ok(Subscription { resource: self.clone(), namespace: namespace.into(), waiting, cursor, epoch: state.epoch })
    }
}

/// The objects as they were before these events.
fn undo(items: &mut Items, events: &[Arc<CachedEvent>]) {
    for event in events.iter().rev() {
        match &event.previous {
            Some(entry) => items.insert(event.key.clone(), entry.clone()),
            None => items.remove(&event.key),
        };
    }
}

impl State {
    fn gone(&self, requested: Revision) -> Gone {
        Gone { requested, oldest: self.ring.since() }
    }

    /// Wakes those who watch everything and those who watch a namespace that changed.
    fn wake(&self, touched: &[Arc<Object>]) {
        if self.waiting.is_empty() || touched.is_empty() {
            return;
        }
        if let Some(all) = self.waiting.get("") {
            all.notify_waiters();
        }
        let mut last = "";
        for object in touched {
            if object.namespace != last {
                last = &object.namespace;
                if let Some(waiting) = self.waiting.get(last) {
                    waiting.notify_waiters();
                }
            }
        }
    }
}

impl CachedEvent {
    /// What the ring keeps alive because of this event.
    pub(super) fn weight(&self) -> usize {
        self.previous.as_ref().map_or(0, |entry| entry.object.size()) + 256
    }
}

/// A cursor into the resource's events.
pub struct Subscription {
    resource: Arc<Resource>,
    namespace: Box<str>,
    waiting: Arc<Notify>,
    cursor: Cursor,
    epoch: u64,
}

impl Subscription {
    /// The next events, at least one; waits for them. None: the resource is served no more.
    pub async fn next(&mut self, limit: Limit) -> Result<Option<Taken>, Gone> {
        loop {
            let waiting = self.waiting.clone();
            let notified = waiting.notified();
            let taken = self.take(limit)?;
            if !taken.events.is_empty() {
                return Ok(Some(taken));
            }
            if self.resource.has_ended() {
                return Ok(None);
            }
            notified.await;
        }
    }

    /// The events that are there now. Moves the cursor behind them.
    pub fn take(&mut self, limit: Limit) -> Result<Taken, Gone> {
        let state = self.resource.state.read();
        let taken = if self.epoch == state.epoch { state.ring.take(&mut self.cursor, limit) } else { None };
        let taken = taken.ok_or_else(|| state.gone(self.cursor.revision))?;
        if taken.events.is_empty() {
            self.cursor.revision = self.cursor.revision.max(self.resource.revision(&state));
        }
        Ok(taken)
    }

    /// What is watched.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// What has been taken.
    pub(crate) fn head(&self) -> Head {
        Head { epoch: self.epoch, place: self.cursor.place }
    }

    /// Returns when the resource is served no more.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let (resource, waiting) = (self.resource.clone(), self.waiting.clone());
        async move {
            loop {
                let notified = waiting.notified();
                if resource.has_ended() {
                    return;
                }
                notified.await;
            }
        }
    }

    /// Everything up to this revision has been taken, and of later ones not all.
    pub fn revision(&self) -> Revision {
        self.cursor.revision
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.resource.state.write();
        // The map's own reference and ours: nobody else waits for this namespace.
        if Arc::strong_count(&self.waiting) == 2 {
            state.waiting.remove(&self.namespace);
        }
    }
}

/// `/registry/configmaps/`.
pub(crate) fn prefix_of(storage_prefix: &str) -> String {
    format!("{ROOT}{storage_prefix}/")
}
