//! Shared informers: one watch and one cache per kind and process, for everybody in it who wants to know.
//!
//! A cache keeps whole typed objects, or a view: a small struct that a function makes of an object. Who asks for the same
//! again gets the same; when the last one lets go of it, the watch ends.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use kube::Resource;
use kube::core::ApiResource;
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::panic::panic_text;
use crate::source::{Event, Item, Selection, Source};

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
}

/// Makes of an object what the cache keeps of it. None: nothing, as if it was not there.
pub type MakeView<V> = fn(&Item) -> Option<V>;

type Handler<V> = Box<dyn Fn(&Change<'_, V>) + Send + Sync>;

/// The informers of a process.
#[derive(Clone)]
pub struct Caches {
    source: Arc<dyn Source>,
    informers: Arc<Mutex<HashMap<CacheKey, Weak<dyn Any + Send + Sync>>>>,
}

#[derive(PartialEq, Eq, Hash)]
struct CacheKey {
    api_version: String,
    plural: String,
    selection: Selection,
    view: TypeId,
}

impl Caches {
    pub fn new(source: Arc<dyn Source>) -> Caches {
        Caches { source, informers: Arc::default() }
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
        let key = CacheKey {
            api_version: resource.api_version.clone(),
            plural: resource.plural.clone(),
            selection: selection.clone(),
            view: TypeId::of::<V>(),
        };
        let mut informers = self.informers.lock();
        let found = informers.get(&key).and_then(Weak::upgrade).and_then(|any| any.downcast::<Shared<V>>().ok());
        let shared = found.unwrap_or_else(|| {
            informers.retain(|_, informer| informer.strong_count() > 0);
            let shared = Shared::start(&self.source, resource, selection, make);
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
fn typed<K: Resource<DynamicType = ()> + DeserializeOwned>(item: &Item) -> Option<K> {
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

/// One user's hold on a shared cache. Its handlers go with it.
pub struct Informer<V> {
    shared: Arc<Shared<V>>,
    handlers: Vec<u64>,
}

struct Shared<V> {
    objects: RwLock<HashMap<Key, Arc<V>>>,
    /// Held while a change is made and told of, so that a new handler misses none and hears of none twice.
    handlers: Mutex<Handlers<V>>,
    synced: watch::Sender<bool>,
    task: Mutex<Option<AbortHandle>>,
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
        for (key, object) in self.shared.objects.read().iter() {
            handler(&Change { key, old: None, new: Some(object) });
        }
        let id = handlers.next;
        handlers.next += 1;
        handlers.all.push((id, Box::new(handler)));
        drop(handlers);
        self.handlers.push(id);
        self
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        self.shared.objects.read().get(&key).cloned()
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.shared.objects.read().values().cloned().collect()
    }

    /// Whether one of them is like this.
    pub fn any(&self, test: impl Fn(&Key, &V) -> bool) -> bool {
        self.shared.objects.read().iter().any(|(key, object)| test(key, object))
    }

    /// Waits until the first list is in the cache.
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender is in what we hold.
        let _ = synced.wait_for(|synced| *synced).await;
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
            objects: RwLock::default(),
            handlers: Mutex::new(Handlers { next: 0, all: Vec::new() }),
            synced: watch::Sender::new(false),
            task: Mutex::default(),
        });
        let following = follow(Arc::downgrade(&shared), source.clone(), resource.clone(), selection, make);
        *shared.task.lock() = Some(tokio::spawn(following).abort_handle());
        shared
    }

    fn take(&self, event: Event, make: MakeView<V>) {
        let handlers = self.handlers.lock();
        let tell = |change: &Change<'_, V>| handlers.all.iter().for_each(|(_, handler)| handler(change));
        match event {
            Event::Listed(items) => {
                let made = items.iter().filter_map(|item| Some((Key::of_item(item), Arc::new(make(item)?))));
                let fresh: HashMap<Key, Arc<V>> = made.collect();
                let before = std::mem::replace(&mut *self.objects.write(), fresh.clone());
                self.synced.send_replace(true);
                for (key, object) in before.iter().filter(|(key, _)| !fresh.contains_key(*key)) {
                    tell(&Change { key, old: Some(object), new: None });
                }
                for (key, object) in &fresh {
                    tell(&Change { key, old: before.get(key), new: Some(object) });
                }
            }
            Event::Applied(item) => {
                let (key, new) = (Key::of_item(&item), make(&item).map(Arc::new));
                let old = match &new {
                    Some(object) => self.objects.write().insert(key.clone(), object.clone()),
                    None => self.objects.write().remove(&key),
                };
                if old.is_some() || new.is_some() {
                    tell(&Change { key: &key, old: old.as_ref(), new: new.as_ref() });
                }
            }
            Event::Deleted(item) => {
                let key = Key::of_item(&item);
                let old = self.objects.write().remove(&key);
                if old.is_some() {
                    tell(&Change { key: &key, old: old.as_ref(), new: None });
                }
            }
        }
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
async fn follow<V: Send + Sync + 'static>(
    shared: Weak<Shared<V>>,
    source: Arc<dyn Source>,
    resource: ApiResource,
    selection: Selection,
    make: MakeView<V>,
) {
    loop {
        let mut events = source.follow(&resource, &selection);
        let following = async {
            while let Some(event) = events.next().await {
                let Some(shared) = shared.upgrade() else { return };
                shared.take(event, make);
            }
            // The resource is served no more.
            if let Some(shared) = shared.upgrade() {
                shared.take(Event::Listed(Vec::new()), make);
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
        if shared.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::testing::Script;

    fn map(name: &str, revision: u64) -> Item {
        let json = format!(r#"{{"metadata":{{"namespace":"a","name":"{name}"}},"data":{{"at":"{revision}"}}}}"#);
        Item { namespace: "a".into(), name: name.into(), uid: "".into(), revision, json: json.into() }
    }

    /// An informer that writes down what it hears.
    fn heard(caches: &Caches) -> (Informer<ConfigMap>, Arc<Mutex<Vec<String>>>) {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let said = heard.clone();
        let at = |map: Option<&Arc<ConfigMap>>| map.and_then(|map| map.metadata.resource_version.clone());
        let informer = caches.objects::<ConfigMap>().on_change(move |change| {
            let (old, new) = (at(change.old).unwrap_or_default(), at(change.new).unwrap_or_default());
            said.lock().push(format!("{} {old}>{new}", change.key.name));
        });
        (informer, heard)
    }

    async fn settle() {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_watch_serves_all_who_ask_and_ends_with_the_last() {
        let source = Arc::new(Script::default());
        let caches = Caches::new(source.clone());
        let (one, of_one) = heard(&caches);
        settle().await;
        source.tell("configmaps", Event::Listed(vec![map("x", 1)]));
        one.synced().await;
        let (other, of_other) = heard(&caches);
        source.tell("configmaps", Event::Applied(map("x", 2)));
        source.tell("configmaps", Event::Deleted(map("x", 3)));
        settle().await;
        assert_eq!(*of_one.lock(), ["x >1", "x 1>2", "x 2>"]);
        assert_eq!(*of_other.lock(), ["x >1", "x 1>2", "x 2>"], "who comes later hears of what is there");
        assert_eq!((source.followed.load(Ordering::Relaxed), caches.watches()), (1, 1));
        drop(one);
        source.tell("configmaps", Event::Applied(map("y", 4)));
        settle().await;
        assert_eq!((of_one.lock().len(), of_other.lock().len()), (3, 4), "handlers go with who added them");
        drop(other);
        settle().await;
        assert!(!source.is_followed("configmaps"));
        assert_eq!(caches.watches(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_listed_again_is_gone() {
        let source = Arc::new(Script::default());
        let (informer, heard) = heard(&Caches::new(source.clone()));
        settle().await;
        source.tell("configmaps", Event::Listed(vec![map("x", 1), map("y", 2)]));
        settle().await;
        heard.lock().clear();
        source.tell("configmaps", Event::Listed(vec![map("y", 3)]));
        settle().await;
        assert_eq!(*heard.lock(), ["x 1>", "y 2>3"]);
        assert!(informer.get("a", "x").is_none() && informer.get("a", "y").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_panics_ends_nothing() {
        let source = Arc::new(Script::default());
        let caches = Caches::new(source.clone());
        let informer = caches.objects::<ConfigMap>().on_change(|change| assert_ne!(change.key.name, "bad"));
        settle().await;
        source.tell("configmaps", Event::Applied(map("bad", 1)));
        tokio::time::sleep(AGAIN * 2).await;
        source.tell("configmaps", Event::Listed(vec![map("good", 2)]));
        informer.synced().await;
        assert!(informer.get("a", "good").is_some());
    }
}
