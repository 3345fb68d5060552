//! Who works on what: pods of the API, static pods and what the runtime has are brought together, each pod gets a worker,
//! and what happens is told to whom it concerns.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use rkube_machinery::{Text, Value};
use rkube_operator::Key;
use rkube_runtime::api::{Error, Event};
use tokio::task::{self, JoinError, JoinSet};

use super::inbox::{Found, Inbox, News};
use super::kubelet::{Kubelet, read_pod};
use super::static_pods::{self, Files, Mirrors, is_mirror};
use super::worker::{Origin, Worker};
use super::{garbage, labels};
use crate::pod::spec;

/// How often all of the runtime is looked at, in case something was missed.
const RELIST_PERIOD: Duration = Duration::from_secs(60);
/// How long until the pod of a worker that panicked gets another one, and until mirrors are tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// When the runtime is asked again that did not answer at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// What the node runs, and why.
pub(super) struct Dispatch {
    kubelet: Arc<Kubelet>,
    workers: JoinSet<()>,
    by_task: HashMap<task::Id, Text>,
    /// The pod of each object of the API.
    by_key: HashMap<Key, Text>,
    /// Pods whose worker panicked: they get another one.
    fallen: Vec<Text>,
    files: Files,
    /// The static pods that are to run, and those that do: of a name there is one at a time.
    wanted: static_pods::Pods,
    running: HashMap<Key, Text>,
    mirrors: Mirrors,
}

impl Dispatch {
    pub fn new(kubelet: Arc<Kubelet>) -> Dispatch {
        let config = &kubelet.config;
        Dispatch {
            files: Files::new(config.directories.static_pods.clone(), &config.name),
            kubelet,
            workers: JoinSet::new(),
            by_task: HashMap::new(),
            by_key: HashMap::new(),
            fallen: Vec::new(),
            wanted: HashMap::new(),
            running: HashMap::new(),
            mirrors: Mirrors::default(),
        }
    }

    pub async fn run(mut self) {
        // Before anything is listed: nothing that happens meanwhile is missed.
        let mut events = self.kubelet.runtime().events();
        self.begin().await;
        let mut relist = tokio::time::interval_at(tokio::time::Instant::now() + RELIST_PERIOD, RELIST_PERIOD);
        let (mut again, mut scan) = (tokio::time::interval(AGAIN), tokio::time::interval(static_pods::PERIOD));
        let changed = self.kubelet.changed.clone();
        loop {
            tokio::select! {
                biased;
                key = changed.next() => match key {
                    Some(key) => {
                        self.take_change(&key);
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
                _ = scan.tick(), if self.files.is_used() => self.scan(),
                _ = again.tick() => self.try_again().await,
            }
        }
    }

    /// Brings pods and what runs together. What runs for nobody is ended.
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
        self.wanted = self.files.scan(self.kubelet.now_micros()).unwrap_or_default();
        for key in self.kubelet.pods.keys() {
            let Some(view) = self.kubelet.pods.get(&key.namespace, &key.name) else { continue };
            let Some(pod) = read_pod(&view).map(Arc::new) else { continue };
            if is_mirror(&pod) {
                self.mirrors.put(&key, Some(pod));
                continue;
            }
            let of_pod = found.remove(&view.uid).unwrap_or_default();
            self.by_key.insert(key.clone(), view.uid.clone());
            self.begin_worker(pod, of_pod, Origin::Api);
        }
        for (key, pod) in self.wanted.clone() {
            let of_pod = found.remove(&spec::uid(&pod)).unwrap_or_default();
            self.begin_static(&key, pod, of_pod);
        }
        for (_, found) in found {
            self.end_orphan(found);
        }
        garbage::remove_orphans(&self.kubelet).await;
    }

    /// All that the runtime has, by the uids of pods.
    async fn list(&self) -> Result<BTreeMap<Text, Found>, Error> {
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
        let (uid, inbox) = (spec::uid(&pod), Arc::new(Inbox::default()));
        self.kubelet.workers.lock().insert(uid.clone(), inbox.clone());
        let worker = Worker::new(self.kubelet.clone(), inbox.clone(), pod, found, origin);
        let handle = self.workers.spawn(worker.run());
        self.by_task.insert(handle.id(), uid);
        inbox
    }

    /// A pod of which there is nothing but what runs.
    fn end_orphan(&mut self, found: Found) {
        let Some(sandbox) = found.sandboxes.first() else { return };
        let pod = Arc::new(labels::restore_pod(&sandbox.config, &found.containers));
        tracing::info!(pod = %spec::display_name(&pod), "ends a pod that the API does not have");
        let inbox = self.begin_worker(pod, found, Origin::Orphan);
        inbox.tell(|news| news.gone = true);
    }

    fn take_change(&mut self, key: &Key) {
        let view = self.kubelet.pods.get(&key.namespace, &key.name);
        let known = self.by_key.get(key).cloned();
        if let Some(uid) = known.filter(|uid| view.as_ref().is_none_or(|view| view.uid != *uid)) {
            self.by_key.remove(key);
            self.tell(&uid, |news| news.gone = true);
        }
        let pod = view.as_deref().and_then(read_pod).map(Arc::new);
        if self.mirrors.get(key).is_some() || pod.as_deref().is_some_and(is_mirror) {
            return self.take_mirror(key, pod.filter(|pod| is_mirror(pod)));
        }
        let (Some(view), Some(pod)) = (view, pod) else { return };
        self.by_key.insert(key.clone(), view.uid.clone());
        let was_told = self.tell(&view.uid, |news| news.pod = Some(pod.clone()));
        if !was_told {
            self.begin_worker(pod, Found::default(), Origin::Api);
        }
    }

    /// Whether there is somebody who could be told.
    fn tell(&self, uid: &str, what: impl FnOnce(&mut News)) -> bool {
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
        let fallen: HashSet<Text> = self.fallen.iter().cloned().collect();
        for (_, of_nobody) in found.into_iter().filter(|(uid, _)| !fallen.contains(uid)) {
            self.end_orphan(of_nobody);
        }
    }

    fn take_ended(&mut self, ended: Result<(task::Id, ()), JoinError>) {
        let (id, panicked) = match &ended {
            Ok((id, ())) => (*id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(uid) = self.by_task.remove(&id) else { return };
        self.kubelet.workers.lock().remove(&uid);
        if panicked {
            tracing::error!(uid = %uid, "the worker of a pod panicked, and is started again");
            return self.fallen.push(uid);
        }
        let key = self.running.iter().find(|(_, known)| **known == uid).map(|(key, _)| key.clone());
        if let Some(key) = key {
            self.running.remove(&key);
            self.follow_static(&key);
        }
    }

    async fn try_again(&mut self) {
        let mut keys = self.mirrors.keys();
        keys.extend(self.wanted.keys().cloned());
        for key in keys {
            self.reconcile_mirror(&key);
        }
        if !self.fallen.is_empty() {
            self.pick_up().await;
        }
    }

    /// Pods whose worker fell get another one, which begins with what the runtime has.
    async fn pick_up(&mut self) {
        let Ok(mut found) = self.list().await else { return };
        for uid in std::mem::take(&mut self.fallen) {
            let of_pod = found.remove(&uid).unwrap_or_default();
            let key = self.by_key.iter().find(|(_, known)| **known == uid).map(|(key, _)| key.clone());
            let view = key.and_then(|key| self.kubelet.pods.get(&key.namespace, &key.name));
            let of_file = self.wanted.iter().find(|(_, pod)| spec::uid(pod) == uid);
            let of_file = of_file.map(|(key, pod)| (key.clone(), pod.clone()));
            match (view.filter(|view| view.uid == uid).and_then(|view| read_pod(&view)), of_file) {
                (Some(pod), _) => {
                    self.begin_worker(Arc::new(pod), of_pod, Origin::Api);
                }
                (None, Some((key, pod))) => self.begin_static(&key, pod, of_pod),
                (None, None) => self.end_orphan(of_pod),
            }
        }
    }
}

/// Static pods.
impl Dispatch {
    fn scan(&mut self) {
        let Some(wanted) = self.files.scan(self.kubelet.now_micros()) else { return };
        self.wanted = wanted;
        let mut keys: HashSet<Key> = self.running.keys().cloned().collect();
        keys.extend(self.wanted.keys().cloned());
        for key in keys {
            self.follow_static(&key);
        }
    }

    /// Has the pod of this name run that is to, once no other one of the name does.
    fn follow_static(&mut self, key: &Key) {
        let wanted = self.wanted.get(key).cloned();
        match (wanted, self.running.get(key).cloned()) {
            (Some(pod), Some(uid)) if spec::uid(&pod) == uid => {}
            (_, Some(uid)) => {
                self.tell(&uid, |news| news.gone = true);
            }
            (Some(pod), None) => self.begin_static(key, pod, Found::default()),
            (None, None) => {}
        }
        self.reconcile_mirror(key);
    }

    fn begin_static(&mut self, key: &Key, pod: Arc<Value>, found: Found) {
        self.running.insert(key.clone(), spec::uid(&pod));
        let inbox = self.begin_worker(pod, found, Origin::File);
        let mirror = self.mirrors.get(key);
        inbox.tell(|news| news.mirror = Some(mirror));
        self.reconcile_mirror(key);
    }

    fn take_mirror(&mut self, key: &Key, mirror: Option<Arc<Value>>) {
        self.mirrors.put(key, mirror.clone());
        if let Some(uid) = self.running.get(key) {
            self.tell(uid, |news| news.mirror = Some(mirror));
        }
        self.reconcile_mirror(key);
    }

    /// The mirror of a pod that is to go stays until it is gone.
    fn reconcile_mirror(&mut self, key: &Key) {
        let pod = self.wanted.get(key).cloned();
        if pod.is_none() && self.running.contains_key(key) {
            return;
        }
        self.mirrors.reconcile(&self.kubelet, key, pod.as_ref());
    }
}
