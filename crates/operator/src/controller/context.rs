//! What a reconcile gets.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::Api;
use kube::{Client, Resource};
use parking_lot::Mutex;
use rkube_machinery::host::{Clock, Entropy};
use serde::de::DeserializeOwned;

use crate::events::Recorder;
use crate::fence::Fence;
use crate::informer::{Caches, Informer, Key};

/// What controllers of a process share.
#[derive(Clone)]
pub struct Environment {
    /// One whose writes the caches note ([`Caches::client`]).
    pub client: Client,
    pub caches: Caches,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    /// Around the client's transport: with an election it is open only while the process leads.
    pub fence: Fence,
    /// Where the process runs.
    pub host_name: String,
}

/// What a reconcile gets: a client to act with, caches to read, and a recorder to say what happened.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub caches: Caches,
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
    held: Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>,
}

impl Context {
    pub(super) fn new(environment: &Environment, name: &str) -> Context {
        let Environment { client, caches, clock, .. } = environment.clone();
        let recorder = Recorder::start(client.clone(), clock.clone(), name);
        Context { client, caches, clock, recorder, held: Arc::default() }
    }

    /// The cache of a kind: of what the controller watches of it, or of all there is. Waits for the first list.
    pub async fn cache<K>(&self) -> Arc<Informer<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        let informer = self.hold(|| self.caches.objects::<K>());
        informer.synced().await;
        informer
    }

    /// An object as the cache of its kind has it.
    pub async fn get<K>(&self, key: &Key) -> Option<Arc<K>>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.cache::<K>().await.get(&key.namespace, &key.name)
    }

    /// The API of a kind, in this namespace if the kind has namespaces.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope: ScopedApi<K>>,
    {
        <K::Scope as ScopedApi<K>>::api(self.client.clone(), namespace)
    }

    /// Keeps the first cache of each type for as long as the controller runs.
    pub(super) fn hold<V: Send + Sync + 'static>(&self, make: impl FnOnce() -> Informer<V>) -> Arc<Informer<V>> {
        let known = self.held.lock().get(&TypeId::of::<V>()).cloned();
        let known = known.and_then(|any| any.downcast::<Informer<V>>().ok());
        known.unwrap_or_else(|| {
            let informer = Arc::new(make());
            self.held.lock().insert(TypeId::of::<V>(), informer.clone());
            informer
        })
    }
}

/// How the API of a kind is reached.
pub trait ScopedApi<K: Resource<DynamicType = ()>> {
    fn api(client: Client, namespace: &str) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> ScopedApi<K> for NamespaceResourceScope {
    fn api(client: Client, namespace: &str) -> Api<K> {
        Api::namespaced(client, namespace)
    }
}

impl<K: Resource<DynamicType = (), Scope = ClusterResourceScope>> ScopedApi<K> for ClusterResourceScope {
    fn api(client: Client, _: &str) -> Api<K> {
        Api::all(client)
    }
}
