//! A shared informer: one watch, one cache, and everybody in the process who wants to know.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;

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
}

type Handler<K> = Box<dyn Fn(&Arc<K>) + Send + Sync>;

/// What an informer is made from: the handlers, called for every object that appeared, changed or went.
pub struct Builder<K> {
    api: Api<K>,
    config: watcher::Config,
    handlers: Vec<Handler<K>>,
}

impl<K> Builder<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    /// Only objects of this name: what is not watched is not kept.
    pub fn named(mut self, name: &str) -> Self {
        self.config = self.config.fields(&format!("metadata.name={name}"));
        self
    }

    /// Handlers run on the watch's task: they put keys into queues, nothing more.
    pub fn on_change(mut self, handler: impl Fn(&Arc<K>) + Send + Sync + 'static) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }

    /// Starts watching. The watch ends when the informer is dropped.
    pub fn start(self) -> Informer<K> {
        let objects: Arc<RwLock<HashMap<Key, Arc<K>>>> = Arc::default();
        let synced = watch::Sender::new(false);
        let receiver = synced.subscribe();
        let task = tokio::spawn(follow(self.api, self.config, self.handlers, objects.clone(), synced));
        Informer { objects, synced: receiver, task }
    }
}

pub struct Informer<K> {
    objects: Arc<RwLock<HashMap<Key, Arc<K>>>>,
    synced: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl<K> Informer<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
{
    pub fn on(api: Api<K>) -> Builder<K> {
        Builder { api, config: watcher::Config::default(), handlers: Vec::new() }
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = Key { namespace: namespace.to_owned(), name: name.to_owned() };
        self.objects.read().get(&key).cloned()
    }

    /// All objects, in no order.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.objects.read().values().cloned().collect()
    }

    /// Waits until the first list is in the cache.
    pub async fn synced(&self) {
        let mut synced = self.synced.clone();
        // An error means that the task is gone, and with it the process' interest.
        let _ = synced.wait_for(|synced| *synced).await;
    }
}

impl<K> Drop for Informer<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    handlers: Vec<Handler<K>>,
    objects: Arc<RwLock<HashMap<Key, Arc<K>>>>,
    synced: watch::Sender<bool>,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let notify = |object: &Arc<K>| handlers.iter().for_each(|handler| handler(object));
    let mut events = pin!(watcher(api, config).default_backoff());
    let mut incoming: HashMap<Key, Arc<K>> = HashMap::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => incoming.clear(),
            Ok(Event::InitApply(object)) => {
                incoming.insert(Key::of(&object), Arc::new(object));
            }
            Ok(Event::InitDone) => {
                let fresh = std::mem::take(&mut incoming);
                let before = std::mem::replace(&mut *objects.write(), fresh.clone());
                synced.send_replace(true);
                let gone = before.iter().filter(|(key, _)| !fresh.contains_key(*key));
                gone.map(|(_, object)| object).chain(fresh.values()).for_each(notify);
            }
            Ok(Event::Apply(object)) => {
                let object = Arc::new(object);
                objects.write().insert(Key::of(&*object), object.clone());
                notify(&object);
            }
            Ok(Event::Delete(object)) => {
                let object = Arc::new(object);
                objects.write().remove(&Key::of(&*object));
                notify(&object);
            }
            Err(error) => tracing::debug!(%error, "a watch was interrupted and goes on"),
        }
    }
}
