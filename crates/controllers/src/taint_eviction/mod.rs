//! Deletes pods that do not stand the taints of their nodes, when they stand them no longer. Watches pods and nodes; writes
//! the status of pods, and deletes them. When a pod is to go is known here alone, as with upstream: whoever starts anew
//! counts anew.

mod plan;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Action, Informer, Key, Queue};
use serde_json::json;
use tokio::time::Instant;

use crate::Context;
use crate::nodes::{self, Node, Taint};
use crate::owner::path_of;
use crate::pods::tolerations::NO_EXECUTE;
use crate::pods::{self, ByNode, Pod};
use crate::requests::{self, is_not_found};
use plan::Step;

const NAME: &str = "taint-eviction-controller";
/// So many pods are deleted at a time.
const WORKERS: usize = 64;

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let queue: Queue<Key> = Queue::new();
    let planned: Arc<Mutex<Planned>> = Arc::default();
    let (adding, known, waiting) = (queue.clone(), nodes::informer(&caches), planned.clone());
    let pods = pods::informer(&caches).indexed::<ByNode>().on_change(move |change| {
        let same = |old: &Pod, new: &Pod| old.tolerations == new.tolerations && old.node == new.node;
        if change.old.zip(change.new).is_some_and(|(old, new)| same(old, new)) {
            return;
        }
        // Pods come and go; hardly any is on a node that has such taints.
        let is_tainted = |pod: &Arc<Pod>| {
            let node = if pod.node.is_empty() { None } else { known.get("", &pod.node) };
            node.is_some_and(|node| evicting(&node.taints).next().is_some())
        };
        if change.new.is_some_and(is_tainted) || waiting.lock().0.contains_key(change.key) {
            adding.add(change.key.clone());
        }
    });
    pods.synced().await;
    let pods = Arc::new(pods);
    let (adding, placed) = (queue.clone(), pods.clone());
    let nodes = nodes::informer(&caches).on_change(move |change| {
        let taints = |node: Option<&Arc<Node>>| -> Vec<Taint> {
            node.map(|node| evicting(&node.taints).cloned().collect()).unwrap_or_default()
        };
        if change.new.is_some() && taints(change.old) != taints(change.new) {
            for pod in placed.by_index::<ByNode, _>(&*change.key.name) {
                adding.add(Key { namespace: pod.namespace.to_string(), name: pod.name.to_string() });
            }
        }
    });
    nodes.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), NAME);
    let manager = Arc::new(Manager { client, clock, events, pods, nodes, planned });
    rkube_operator::run(NAME, queue, WORKERS, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(key).await }
    })
    .await;
}

/// When pods are to go that stand their nodes' taints for a while; None: it is being deleted.
#[derive(Default)]
struct Planned(HashMap<Key, Option<Instant>>);

struct Manager {
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
    pods: Arc<Informer<Pod>>,
    nodes: Informer<Node>,
    planned: Arc<Mutex<Planned>>,
}

impl Manager {
    async fn reconcile(&self, key: Key) -> Result<Action, kube::Error> {
        let now = Instant::now();
        let planned = self.planned.lock().0.get(&key).copied();
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else {
            self.cancel(&key);
            return Ok(Action::done());
        };
        let node = if pod.node.is_empty() { None } else { self.nodes.get("", &pod.node) };
        let step = match &node {
            Some(node) => plan::step(&pod.tolerations, &node.taints, planned.flatten(), now),
            // What is planned happens, though the node is gone.
            None => match planned.flatten() {
                Some(until) if until <= now => Step::Evict,
                Some(until) => Step::Until(until),
                None => Step::Stay,
            },
        };
        match step {
            Step::Stay => self.cancel(&key),
            Step::Until(until) => {
                self.planned.lock().0.insert(key, Some(until));
                return Ok(Action::done().requeue_after(until.duration_since(now)));
            }
            Step::Evict if pod.deleted.is_some() => drop(self.planned.lock().0.remove(&key)),
            Step::Evict => return self.evict(key, &pod, planned, now).await,
        }
        Ok(Action::done())
    }

    async fn evict(
        &self,
        key: Key,
        pod: &Pod,
        planned: Option<Option<Instant>>,
        now: Instant,
    ) -> Result<Action, kube::Error> {
        if planned != Some(None) {
            // What was to happen later happens now.
            if planned.flatten().is_some_and(|until| until > now) {
                self.cancel(&key);
            }
            self.tell(&key, "Marking for deletion Pod");
            self.planned.lock().0.insert(key.clone(), None);
        }
        self.mark_and_delete(pod).await?;
        self.planned.lock().0.remove(&key);
        Ok(Action::done())
    }

    async fn mark_and_delete(&self, pod: &Pod) -> Result<(), kube::Error> {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "observedGeneration": pod.generation,
            "lastTransitionTime": time::format_seconds(self.clock.now_seconds()),
        });
        let path = path_of(pod);
        // A conflict is tried again: somebody may have been faster, or it is another pod, which is heard of.
        match requests::set_pod_condition(&self.client, &path, &pod.uid, json!({}), condition).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let options = json!({ "preconditions": { "uid": pod.uid.as_str() } });
        match requests::delete_with(&self.client, &path, options).await {
            Err(error) if is_gone(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    /// It stays, or is gone by itself.
    fn cancel(&self, key: &Key) {
        if self.planned.lock().0.remove(key).flatten().is_some() {
            self.tell(key, "Cancelling deletion of Pod");
        }
    }

    fn tell(&self, key: &Key, what: &str) {
        let about = Reference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: key.namespace.as_str().into(),
            name: key.name.as_str().into(),
            ..Reference::default()
        };
        let message = format!("{what} {}/{}", key.namespace, key.name);
        self.events.normal(&about, "TaintManagerEviction", message);
    }
}

/// The pod is gone, or another one.
fn is_gone(error: &kube::Error) -> bool {
    is_not_found(error) || matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn evicting(taints: &[Taint]) -> impl Iterator<Item = &Taint> {
    taints.iter().filter(|taint| taint.effect == NO_EXECUTE)
}
