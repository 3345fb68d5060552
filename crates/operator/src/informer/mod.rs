//! Shared informers: one watch and one cache per kind and process, for everybody in it who wants to know.
//!
//! A cache keeps whole typed objects, or a view: a small struct that a function makes of an object. Who asks for the same
//! again gets the same; when the last one lets go of it, the watch ends.

mod store;
#[cfg(test)]
mod tests;

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use kube::client::Body;
use kube::core::ApiResource;
use kube::{Client, Resource};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rkube_machinery::selector::labels::Selector;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tower_layer::Layer as _;
use tower_service::Service;

use crate::panic::panic_text;
use crate::process::held;
use crate::source::{Event, Item, Selection, Source};
use crate::written::{BoxError, Following, Note, Progress, ReadYourWrites, What};
use store::{Objects, Store, Texts};

pub use store::{ByOwner, Index};

/// How long until a watch is begun again that panicked, or whose resource was served no more.
const AGAIN: Duration = Duration::from_secs(1);

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn of(object: &impl Resource) -> Key {
        let metadata = object.meta();
        Key {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    fn of_item(item: &Item) -> Key {
        Key { namespace: item.namespace.to_string(), name: item.name.to_string() }
    }
}

/// What became of an object: as it was, if it was there before, and as it is, if it still is.
pub struct Change<'a, V> {
    pub key: &'a Key,
    pub old: Option<&'a Arc<V>>,
    pub new: Option<&'a Arc<V>>,
    /// It was listed, not told of by itself, and may well have been as it is for long.
    pub listed: bool,
}

/// Makes of an object what the cache keeps of it. None: nothing, as if it was not there.
pub type MakeView<V> = fn(&Item) -> Option<V>;

type Handler<V> = Box<dyn Fn(&Change<'_, V>) + Send + Sync>;

/// The informers of a process.
#[derive(Clone)]
pub struct Caches {
    source: Arc<dyn Source>,
    informers: Arc<Mutex<HashMap<CacheKey, Weak<dyn Any + Send + Sync>>>>,
    progress: Arc<Progress>,
}

#[derive(PartialEq, Eq, Hash)]
struct CacheKey {
    api_version: String,
    plural: String,
    selection: Selection,
    form: TypeId,
}

impl Caches {
    pub fn new(source: Arc<dyn Source>) -> Caches {
        Caches { source, informers: Arc::default(), progress: Arc::default() }
    }

    /// What a client needs around its transport, so that a reconcile that writes through it is not followed by one that
    /// reads caches without that write. See [`crate::written`].
    pub fn read_your_writes(&self) -> ReadYourWrites {
        ReadYourWrites::new(self.progress.clone())
    }

    /// A client over this transport, whose writes are in these caches before the key is worked on again.
    pub fn client<S, B>(&self, transport: S, default_namespace: &str) -> Client
    where
        S: Service<http::Request<Body>, Response = http::Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Client::new(self.read_your_writes().layer(transport), default_namespace)
    }

    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// All objects of a kind, as they are.
    pub fn objects<K>(&self) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.view(&ApiResource::erase::<K>(&()), Selection::default(), typed)
    }

    /// The objects of a kind that have this name: what is not watched is not kept.
    pub fn named<K>(&self, name: &'static str) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        let selection = Selection { name: Some(name), ..Selection::default() };
        self.view(&ApiResource::erase::<K>(&()), selection, typed)
    }

    /// What `make` makes of the objects of a resource. One type of view has one function that makes it.
    pub fn view<V: Send + Sync + 'static>(
        &self,
        resource: &ApiResource,
        selection: Selection,
        make: MakeView<V>,
    ) -> Informer<V> {
        self.view_as(resource, selection, make, TypeId::of::<V>())
    }

    /// `form` tells caches of one type apart that are made by several functions.
    pub(crate) fn view_as<V: Send + Sync + 'static>(
        &self,
        resource: &ApiResource,
        selection: Selection,
        make: MakeView<V>,
        form: TypeId,
    ) -> Informer<V> {
        let key = CacheKey {
            api_version: resource.api_version.clone(),
            plural: resource.plural.clone(),
            selection: selection.clone(),
            form,
        };
        let mut informers = self.informers.lock();
        let found = informers.get(&key).and_then(Weak::upgrade).and_then(|any| any.downcast::<Shared<V>>().ok());
        let shared = found.unwrap_or_else(|| {
            informers.retain(|_, informer| informer.strong_count() > 0);
            let shared = Shared::start(&self.source, resource, selection, make);
            self.progress.add(resource, &shared);
            let any: Arc<dyn Any + Send + Sync> = shared.clone();
            informers.insert(key, Arc::downgrade(&any));
            shared
        });
        Informer { shared, handlers: Vec::new() }
    }

    /// How many watches there are for informers.
    pub fn watches(&self) -> usize {
        self.informers.lock().values().filter(|informer| informer.strong_count() > 0).count()
    }
}

/// A kind as its type, with the resource version that the source knows.
pub(crate) fn typed<K: Resource<DynamicType = ()> + DeserializeOwned>(item: &Item) -> Option<K> {
    match item.parse::<K>() {
        Ok(mut object) => {
            if item.revision > 0 {
                object.meta_mut().resource_version = Some(item.revision.to_string());
            }
            Some(object)
        }
        Err(error) => {
            tracing::error!(kind = %K::kind(&()), name = %item.name, %error, "an object cannot be read and is left out");
            None
        }
    }
}

/// What has labels to select by.
pub trait Labeled {
    fn label(&self, key: &str) -> Option<&str>;
}

impl<K: Resource> Labeled for K {
    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }
}

/// All changes up to a revision are in a cache, and its handlers were told of them.
#[derive(Clone)]
pub struct Revision(Arc<AtomicU64>);

impl Revision {
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// One user's hold on a shared cache. Its handlers go with it.
pub struct Informer<V> {
    shared: Arc<Shared<V>>,
    handlers: Vec<u64>,
}

struct Shared<V> {
    store: RwLock<Store<V>>,
    /// Held while a change is made and told of, so that a new handler misses none and hears of none twice.
    handlers: Mutex<Handlers<V>>,
    /// The first list is in the store.
    synced: AtomicBool,
    /// All changes up to this revision are in the store, and handlers were told of them.
    seen: Arc<AtomicU64>,
    /// Something was seen.
    moved: Notify,
    selection: Selection,
    make: MakeView<V>,
    texts: Texts,
    task: Mutex<Option<AbortHandle>>,
}

/// A cache of whatever view, as its task knows it: so that the task is compiled once.
trait Cache: Send + Sync {
    fn take(&self, event: Event);
}

struct Handlers<V> {
    next: u64,
    all: Vec<(u64, Handler<V>)>,
}

impl<V: Send + Sync + 'static> Informer<V> {
    /// Handlers run on the watch's task: they put keys into queues, nothing more. A new one hears of all objects that
    /// are there as if they had come just now.
    pub fn on_change(mut self, handler: impl Fn(&Change<'_, V>) + Send + Sync + 'static) -> Self {
        let mut handlers = self.shared.handlers.lock();
        for (key, entry) in &self.shared.store.read().objects {
            handler(&Change { key, old: None, new: Some(&entry.object), listed: true });
        }
        let id = handlers.next;
        handlers.next += 1;
        handlers.all.push((id, Box::new(handler)));
        drop(handlers);
        self.handlers.push(id);
        self
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        self.shared.store.read().get(namespace, name).map(|entry| entry.object.clone())
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<Key> {
        self.shared.store.read().objects.keys().map(|key| Key::clone(key)).collect()
    }

    pub fn len(&self) -> usize {
        self.shared.store.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.shared.store.read().objects.values().map(|entry| entry.object.clone()).collect()
    }

    /// The objects of a namespace, by name. Costs what it finds.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        self.shared.store.read().in_namespace(namespace).map(|(_, object)| object.clone()).collect()
    }

    /// The objects of a namespace, or of all, that a selector selects. Looks at each object there: for what is asked
    /// often, take an index.
    pub fn select(&self, namespace: Option<&str>, selector: &Selector) -> Vec<Arc<V>>
    where
        V: Labeled,
    {
        let selects = |object: &&Arc<V>| selector.matches_pairs(|key| object.label(key));
        let store = self.shared.store.read();
        match namespace {
            Some(namespace) => {
                store.in_namespace(namespace).map(|(_, object)| object).filter(selects).cloned().collect()
            }
            None => store.objects.values().map(|entry| &entry.object).filter(selects).cloned().collect(),
        }
    }

    /// Whether one of them is like this.
    pub fn any(&self, test: impl Fn(&Key, &V) -> bool) -> bool {
        self.shared.store.read().objects.iter().any(|(key, entry)| test(key, &entry.object))
    }

    /// Makes an index, if there is none of this type yet. What is asked of one that was not made is made then.
    pub fn indexed<I: Index<V>>(self) -> Self {
        self.shared.store.write().add_index::<I>();
        self
    }

    /// What an index has under a key, by namespace and name.
    pub fn by_index<I: Index<V>, Q>(&self, key: &Q) -> Vec<Arc<V>>
    where
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.with_index::<I, Q, _>(key, |found| found.values().cloned().collect())
    }

    /// Looks at what an index has under a key, without a copy. The cache stands still meanwhile.
    pub fn with_index<I: Index<V>, Q, T>(&self, key: &Q, look: impl FnOnce(&BTreeMap<Arc<Key>, Arc<V>>) -> T) -> T
    where
        I::Key: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        match self.store_with_index::<I>().indexed::<I, Q>(key) {
            Some(found) => look(found),
            None => look(&BTreeMap::new()),
        }
    }

    /// The keys under which an index has something, in order.
    pub fn index_keys<I: Index<V, Key: Clone + Ord>>(&self) -> Vec<I::Key> {
        let mut keys: Vec<I::Key> = self.store_with_index::<I>().index_keys::<I>().cloned().collect();
        keys.sort_unstable();
        keys
    }

    fn store_with_index<I: Index<V>>(&self) -> RwLockReadGuard<'_, Store<V>> {
        let store = self.shared.store.read();
        if store.has_index::<I>() {
            return store;
        }
        drop(store);
        self.shared.store.write().add_index::<I>();
        self.shared.store.read()
    }

    /// How far the cache has come. It can be asked without holding the cache.
    pub fn seen(&self) -> Revision {
        Revision(self.shared.seen.clone())
    }

    /// Whether the first list is in the cache.
    pub fn is_synced(&self) -> bool {
        self.shared.synced.load(Ordering::Acquire)
    }

    /// Waits until the first list is in the cache.
    pub async fn synced(&self) {
        // Whoever waits goes on in the order of coming: a channel of tokio's would draw lots.
        while !self.shared.synced.load(Ordering::Acquire) {
            let mut moved = std::pin::pin!(self.shared.moved.notified());
            moved.as_mut().enable();
            if !self.shared.synced.load(Ordering::Acquire) {
                moved.await;
            }
        }
    }
}

impl<V> Drop for Informer<V> {
    fn drop(&mut self) {
        if !self.handlers.is_empty() {
            self.shared.handlers.lock().all.retain(|(id, _)| !self.handlers.contains(id));
        }
    }
}

impl<V: Send + Sync + 'static> Shared<V> {
    fn start(
        source: &Arc<dyn Source>,
        resource: &ApiResource,
        selection: Selection,
        make: MakeView<V>,
    ) -> Arc<Shared<V>> {
        let shared = Arc::new(Shared {
            store: RwLock::new(Store::new()),
            handlers: Mutex::new(Handlers { next: 0, all: Vec::new() }),
            synced: AtomicBool::new(false),
            seen: Arc::default(),
            moved: Notify::new(),
            selection: selection.clone(),
            make,
            texts: Texts::default(),
            task: Mutex::default(),
        });
        let cache: Weak<dyn Cache> = Arc::<Shared<V>>::downgrade(&shared);
        let following = follow(cache, source.clone(), resource.clone(), selection);
        *shared.task.lock() = Some(tokio::spawn(held(following)).abort_handle());
        shared
    }

    fn list(&self, items: &[Item], tell: impl Fn(&Change<'_, V>)) {
        let fresh: Objects<V> = {
            let store = self.store.read();
            let entries = items.iter().filter_map(|item| {
                let (key, known) = store.known(&item.namespace, &item.name).unzip();
                let key = key.map_or_else(|| Arc::new(Key::of_item(item)), Arc::clone);
                Some((key, self.texts.entry(item, known, self.make)?))
            });
            entries.collect()
        };
        let before = self.store.write().replace(fresh.clone());
        self.synced.store(true, Ordering::Release);
        // Before handlers are told: one of them may panic.
        self.moved.notify_waiters();
        for (key, entry) in before.iter().filter(|(key, _)| !fresh.contains_key(*key)) {
            tell(&Change { key, old: Some(&entry.object), new: None, listed: false });
        }
        for (key, entry) in &fresh {
            let old = before.get(key);
            let listed = old.is_none_or(|old| old.revision == entry.revision);
            tell(&Change { key, old: old.map(|old| &old.object), new: Some(&entry.object), listed });
        }
    }
}

impl<V: Send + Sync + 'static> Cache for Shared<V> {
    fn take(&self, event: Event) {
        let handlers = self.handlers.lock();
        let tell = |change: &Change<'_, V>| handlers.all.iter().for_each(|(_, handler)| handler(change));
        let seen = match event {
            Event::Listed(items) => {
                self.list(&items, tell);
                items.iter().map(|item| item.revision).max().unwrap_or(0)
            }
            Event::Applied(item) => {
                let new = self.texts.entry(&item, None, self.make);
                let object = new.as_ref().map(|entry| entry.object.clone());
                let told = match new {
                    Some(entry) => {
                        let known = self.store.read().known(&item.namespace, &item.name).map(|(key, _)| key.clone());
                        let key = known.unwrap_or_else(|| Arc::new(Key::of_item(&item)));
                        let old = self.store.write().insert(&key, entry);
                        Some((key, old))
                    }
                    None => self.store.write().remove(&item.namespace, &item.name).map(|(key, old)| (key, Some(old))),
                };
                if let Some((key, old)) = told {
                    tell(&Change { key: &key, old: old.as_ref(), new: object.as_ref(), listed: false });
                }
                item.revision
            }
            Event::Deleted(item) => {
                let removed = self.store.write().remove(&item.namespace, &item.name);
                if let Some((key, old)) = removed {
                    tell(&Change { key: &key, old: Some(&old), new: None, listed: false });
                }
                item.revision
            }
            Event::Progress(revision) => revision,
        };
        self.seen.fetch_max(seen, Ordering::Release);
        self.moved.notify_waiters();
    }
}

impl<V: Send + Sync + 'static> Following for Shared<V> {
    fn has(&self, note: &Note) -> bool {
        // What is listed first after a write has it.
        if !self.synced.load(Ordering::Acquire) {
            return true;
        }
        if let What::At(revision) = note.what
            && self.seen.load(Ordering::Acquire) >= revision
        {
            return true;
        }
        let (namespace, name) = note.place();
        let Selection { name: only, namespace: within, labels, fields, .. } = &self.selection;
        if only.is_some_and(|only| name != only) || within.as_ref().is_some_and(|within| namespace != within) {
            return true;
        }
        let store = self.store.read();
        let known = store.get(namespace, name);
        match note.what {
            What::At(revision) => {
                if known.is_some_and(|it| it.revision >= revision) {
                    return true;
                }
                // What neither was selected nor is now is never told of; by fields that is not known.
                let may_come = known.is_some() || labels.as_ref().is_none_or(|labels| note.has_labels(labels));
                known.is_none() && (fields.is_some() || !may_come)
            }
            What::Gone(uid) => known.is_none_or(|it| it.uid != uid),
        }
    }

    fn selects_labels(&self) -> bool {
        self.selection.labels.is_some()
    }

    fn moved(&self) -> &Notify {
        &self.moved
    }
}

impl<V> Drop for Shared<V> {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut() {
            task.abort();
        }
    }
}

/// Keeps the cache as the source says for as long as somebody has it. A panic of a handler is logged, and everything is
/// told anew.
async fn follow(cache: Weak<dyn Cache>, source: Arc<dyn Source>, resource: ApiResource, selection: Selection) {
    loop {
        let mut events = source.follow(&resource, &selection);
        let following = async {
            while let Some(event) = events.next().await {
                let Some(cache) = cache.upgrade() else { return };
                cache.take(event);
            }
            // The resource is served no more.
            if let Some(cache) = cache.upgrade() {
                cache.take(Event::Listed(Vec::new()));
            }
        };
        if let Err(panic) = AssertUnwindSafe(following).catch_unwind().await {
            tracing::error!(
                resource = resource.plural,
                why = panic_text(&*panic),
                "an informer panicked and begins again"
            );
        }
        drop(events);
        if cache.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}
