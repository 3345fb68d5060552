//! Who works on what: pods of the API and what the runtime has are brought together, each pod gets a worker, and what
//! happens is told to whom it concerns.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use rkube_machinery::{Text, Value};
use rkube_operator::Key;
use rkube_runtime::api::Event;
use tokio::task::JoinSet;

use super::inbox::{Found, Inbox};
use super::kubelet::{Kubelet, read_pod};
use super::labels;
use super::worker::{Origin, Worker};

/// How often all of the runtime is looked at, in case something was missed.
const RELIST_PERIOD: Duration = Duration::from_secs(60);
/// How long until the pod of a worker that panicked gets another one.
const AGAIN: Duration = Duration::from_secs(5);
/// When the runtime is asked again that did not answer at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// What the node runs, and why.
pub(super) struct Dispatch {
    kubelet: Arc<Kubelet>,
    workers: JoinSet<Text>,
    by_task: HashMap<tokio::task::Id, Text>,
    /// The pod of each object of the API.
    by_key: HashMap<Key, Text>,
    /// Pods whose worker panicked: they get another one.
    fallen: Vec<Text>,
}

impl Dispatch {
    pub fn new(kubelet: Arc<Kubelet>) -> Dispatch {
        Dispatch {
            kubelet,
            workers: JoinSet::new(),
            by_task: HashMap::new(),
            by_key: HashMap::new(),
            fallen: Vec::new(),
        }
    }

    pub async fn run(mut self) {
        // Before anything is listed: nothing that happens meanwhile is missed.
        let mut events = self.kubelet.runtime().events();
        self.begin().await;
        let mut relist = tokio::time::interval_at(tokio::time::Instant::now() + RELIST_PERIOD, RELIST_PERIOD);
        let mut again = tokio::time::interval(AGAIN);
        let changed = self.kubelet.changed.clone();
        loop {
            tokio::select! {
                biased;
                key = changed.next() => match key {
                    Some(key) => {
                        self.take_change(&key).await;
                        changed.done(&key);
                    }
                    None => return,
                },
                event = events.next() => match event {
                    Some(event) => self.take_event(event).await,
                    None => {
                        events = self.kubelet.runtime().events();
                        self.relist().await;
                    }
                },
                Some(ended) = self.workers.join_next_with_id() => self.take_ended(ended),
                _ = relist.tick() => self.relist().await,
                _ = again.tick(), if !self.fallen.is_empty() => self.pick_up().await,
            }
        }
    }

    /// Brings pods of the API and what runs together. What runs for nobody is ended.
    async fn begin(&mut self) {
        let mut found = loop {
            match self.list().await {
                Ok(found) => break found,
                Err(error) => {
                    tracing::warn!(%error, "the container runtime does not say what it runs");
                    tokio::time::sleep(RUNTIME_RETRY).await;
                }
            }
        };
        for key in self.kubelet.pods.keys() {
            let Some(view) = self.kubelet.pods.get(&key.namespace, &key.name) else { continue };
            let Some(pod) = read_pod(&view) else { continue };
            let of_pod = found.remove(&view.uid).unwrap_or_default();
            self.by_key.insert(key.clone(), view.uid.clone());
            self.begin_worker(Arc::new(pod), of_pod, Origin::Api);
        }
        for (_, found) in found {
            self.end_orphan(found);
        }
    }

    /// All that the runtime has, by the uids of pods.
    async fn list(&self) -> Result<BTreeMap<Text, Found>, rkube_runtime::api::Error> {
        let mut all: BTreeMap<Text, Found> = BTreeMap::new();
        let mut pods: HashMap<String, Text> = HashMap::new();
        for sandbox in self.kubelet.runtime().sandboxes().await? {
            let uid = Text::from(sandbox.config.pod_uid.as_str());
            pods.insert(sandbox.id.clone(), uid.clone());
            all.entry(uid).or_default().sandboxes.push(sandbox);
        }
        for container in self.kubelet.runtime().containers().await? {
            let uid = pods.get(&container.sandbox).cloned();
            let uid = uid.or_else(|| container.labels.get(labels::POD_UID).map(|uid| uid.as_str().into()));
            all.entry(uid.unwrap_or_default()).or_default().containers.push(container);
        }
        Ok(all)
    }

    fn begin_worker(&mut self, pod: Arc<Value>, found: Found, origin: Origin) -> Arc<Inbox> {
        let (uid, inbox) = (crate::pod::spec::uid(&pod), Arc::new(Inbox::default()));
        self.kubelet.workers.lock().insert(uid.clone(), inbox.clone());
        let worker = Worker::new(self.kubelet.clone(), inbox.clone(), pod, found, origin);
        let handle = self.workers.spawn({
            let uid = uid.clone();
            async move {
                worker.run().await;
                uid
            }
        });
        self.by_task.insert(handle.id(), uid);
        inbox
    }

    /// A pod of which there is nothing but what runs.
    fn end_orphan(&mut self, found: Found) {
        let Some(sandbox) = found.sandboxes.first() else { return };
        let pod = Arc::new(labels::restore_pod(&sandbox.config, &found.containers));
        tracing::info!(pod = %crate::pod::spec::display_name(&pod), "ends a pod that the API does not have");
        let inbox = self.begin_worker(pod, found, Origin::Orphan);
        inbox.tell(|news| news.gone = true);
    }

    async fn take_change(&mut self, key: &Key) {
        let view = self.kubelet.pods.get(&key.namespace, &key.name);
        let known = self.by_key.get(key).cloned();
        if let Some(uid) = known.filter(|uid| view.as_ref().is_none_or(|view| view.uid != *uid)) {
            self.by_key.remove(key);
            self.tell(&uid, |news| news.gone = true);
        }
        let Some(view) = view else { return };
        let Some(pod) = read_pod(&view) else { return };
        let pod = Arc::new(pod);
        if self.by_key.insert(key.clone(), view.uid.clone()).is_some() {
            let was_told = self.tell(&view.uid, |news| news.pod = Some(pod.clone()));
            if was_told {
                return;
            }
        }
        let has_worker = self.kubelet.workers.lock().contains_key(&view.uid);
        if !has_worker {
            self.begin_worker(pod, Found::default(), Origin::Api);
        }
    }

    fn tell(&self, uid: &str, what: impl FnOnce(&mut super::inbox::News)) -> bool {
        let inbox = self.kubelet.workers.lock().get(uid).cloned();
        inbox.map(|inbox| inbox.tell(what)).is_some()
    }

    async fn take_event(&mut self, event: Event) {
        let (sandbox, container) = match event {
            Event::Started { sandbox, container } | Event::Stopped { sandbox, container } => (sandbox, Some(container)),
            Event::SandboxLost { sandbox } => (sandbox, None),
            Event::Missed => return self.relist().await,
        };
        let uid = self.kubelet.sandboxes.lock().get(&sandbox).cloned();
        let Some(uid) = uid else { return };
        self.tell(&uid, |news| match container {
            Some(container) => {
                news.touched.insert(container);
            }
            None => news.sandbox_lost = Some(sandbox),
        });
    }

    /// Tells every worker what there is, and ends what belongs to none.
    async fn relist(&mut self) {
        let mut found = match self.list().await {
            Ok(found) => found,
            Err(error) => return tracing::warn!(%error, "the container runtime does not say what it runs"),
        };
        let workers: HashSet<Text> = self.kubelet.workers.lock().keys().cloned().collect();
        for uid in &workers {
            let of_pod = found.remove(uid).unwrap_or_default();
            self.tell(uid, |news| news.found = Some(of_pod));
        }
        for (_, of_nobody) in found {
            self.end_orphan(of_nobody);
        }
    }

    fn take_ended(&mut self, ended: Result<(tokio::task::Id, Text), tokio::task::JoinError>) {
        let (id, panicked) = match &ended {
            Ok((id, _)) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(uid) = self.by_task.remove(&id) else { return };
        self.kubelet.workers.lock().remove(&uid);
        if panicked {
            tracing::error!(uid = %uid, "the worker of a pod panicked, and is started again");
            self.fallen.push(uid);
        }
    }

    /// Pods whose worker fell get another one, which begins with what the runtime has.
    async fn pick_up(&mut self) {
        let Ok(mut found) = self.list().await else { return };
        for uid in std::mem::take(&mut self.fallen) {
            let key = self.by_key.iter().find(|(_, known)| **known == uid).map(|(key, _)| key.clone());
            let view = key.and_then(|key| self.kubelet.pods.get(&key.namespace, &key.name));
            let of_pod = found.remove(&uid).unwrap_or_default();
            match view.filter(|view| view.uid == uid).and_then(|view| read_pod(&view)) {
                Some(pod) => {
                    self.begin_worker(Arc::new(pod), of_pod, Origin::Api);
                }
                None => self.end_orphan(of_pod),
            }
        }
    }
}
