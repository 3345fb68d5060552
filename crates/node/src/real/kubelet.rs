//! What all workers of a node share.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use rkube_machinery::{Text, Value, json};
use rkube_operator::events::{EventType, Recorder, Reference};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Informer, Key, Queue, Selection};
use rkube_runtime::api::Runtime;

use super::config::Config;
use super::inbox::Inbox;
use crate::admission::Usage;
use crate::views::{self, NodeView, PodView};

pub(super) struct Kubelet {
    pub config: Arc<Config>,
    pub pods: Informer<PodView>,
    pub node: Informer<NodeView>,
    pub recorder: Recorder,
    /// What the pods take that were let in.
    pub usage: Mutex<Usage>,
    /// Pods of the API that are to be looked at.
    pub changed: Queue<Key>,
    /// By the uid of the pod.
    pub workers: Mutex<HashMap<Text, Arc<Inbox>>>,
    /// Whose a sandbox is.
    pub sandboxes: Mutex<HashMap<String, Text>>,
    pub known: Arc<Pods>,
}

/// The pods of the node with their newest status, for those who ask the node for them.
#[derive(Default)]
pub struct Pods {
    by_uid: Mutex<HashMap<Text, Arc<Value>>>,
}

impl Pods {
    pub fn all(&self) -> Vec<Arc<Value>> {
        self.by_uid.lock().values().cloned().collect()
    }

    pub fn by_uid(&self, uid: &str) -> Option<Arc<Value>> {
        self.by_uid.lock().get(uid).cloned()
    }

    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let pods = self.by_uid.lock();
        let mut found = pods.values().filter(|pod| {
            let metadata = pod.get("metadata");
            metadata.str("name") == name && metadata.str("namespace") == namespace
        });
        found.next().cloned()
    }

    pub(super) fn put(&self, uid: &Text, pod: Arc<Value>) {
        self.by_uid.lock().insert(uid.clone(), pod);
    }

    pub(super) fn remove(&self, uid: &str) {
        self.by_uid.lock().remove(uid);
    }
}

impl Kubelet {
    pub fn new(config: Arc<Config>, known: Arc<Pods>) -> Arc<Kubelet> {
        let changed: Queue<Key> = Queue::new();
        let (fields, queue) = (format!("spec.nodeName={}", config.name), changed.clone());
        let selection = Selection { fields: Some(fields.into()), ..Selection::default() };
        let pods = config
            .caches
            .view(&ApiResource::erase::<Pod>(&()), selection, views::pod)
            .on_change(move |change| queue.add(change.key.clone()));
        let fields = format!("metadata.name={}", config.name);
        let selection = Selection { fields: Some(fields.into()), ..Selection::default() };
        let node = config.caches.view(&ApiResource::erase::<Node>(&()), selection, views::node);
        let recorder = Recorder::start_on(config.client.clone(), config.clock.clone(), "kubelet", &config.name);
        Arc::new(Kubelet {
            config,
            pods,
            node,
            recorder,
            usage: Mutex::default(),
            changed,
            workers: Mutex::default(),
            sandboxes: Mutex::default(),
            known,
        })
    }

    pub fn now_micros(&self) -> i64 {
        self.config.clock.now_micros()
    }

    pub fn runtime(&self) -> &dyn Runtime {
        &*self.config.runtime
    }

    /// Tells about a pod or, with a path, one of its containers.
    pub fn tell(&self, pod: &Value, field_path: &str, warning: bool, reason: &str, message: impl Into<String>) {
        let metadata = pod.get("metadata");
        let about = Reference {
            kind: "Pod".into(),
            api_version: "v1".into(),
            namespace: metadata.str("namespace").into(),
            name: metadata.str("name").into(),
            uid: metadata.str("uid").into(),
            resource_version: metadata.str("resourceVersion").into(),
            field_path: field_path.into(),
        };
        let kind = if warning { EventType::Warning } else { EventType::Normal };
        self.recorder.event(&about, kind, reason, message);
    }

    /// Tells about the node itself.
    pub fn tell_of_node(&self, warning: bool, reason: &str, message: impl Into<String>) {
        let name = &self.config.name;
        let about = Reference {
            kind: "Node".into(),
            name: name.clone(),
            // Upstream's events name the node twice.
            uid: name.clone(),
            ..Reference::default()
        };
        let kind = if warning { EventType::Warning } else { EventType::Normal };
        self.recorder.event(&about, kind, reason, message);
    }
}

/// A pod as the cache has it, with the revision that it is of.
pub(super) fn read_pod(view: &PodView) -> Option<Value> {
    let mut pod = json::parse(&view.json).ok()?;
    pod.object_mut("metadata").set("resourceVersion", view.revision.to_string());
    Some(pod)
}

/// Of which revision an object is.
pub(super) fn revision(object: &Value) -> u64 {
    object.get("metadata").str("resourceVersion").parse().unwrap_or(0)
}
