//! Pods that have a node, and whose volumes have to be bound before they are: what others do to claims and volumes
//! meanwhile is told here, and whoever waits for it is woken.

use std::collections::HashMap;
use std::sync::Arc;

use rkube_machinery::Text;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::Core;
use crate::plugins::ClusterEvent;
use crate::snapshot::NodeIndex;
use crate::snapshot::storage::work::{Work, Written};
use crate::view::{Attachment, Capacity, Claim, CsiDriver, CsiNode, Pod, StorageClass, Volume};

/// How far the volumes of a pod are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// [`Core::take_woken`] tells when it is worth to ask again.
    Waits,
    Done,
    /// Why they will not be bound, in upstream's words.
    Failed(String),
    /// The pod is gone, or has a node.
    Gone,
}

#[derive(Default)]
pub struct Preparations {
    by_pod: HashMap<Text, Prepared>,
    /// The pods that wait for a claim, by its namespace and name; mostly there is one.
    by_claim: HashMap<Text, HashMap<Text, SmallVec<[Text; 1]>>>,
    woken: Vec<Text>,
}

struct Prepared {
    work: Arc<Work>,
    /// None: it is still being written.
    written: Option<Written>,
}

impl Preparations {
    fn insert(&mut self, pod: &Text, work: Arc<Work>) {
        for claim in work.claims() {
            let names = self.by_claim.entry(claim.namespace.clone()).or_default();
            names.entry(claim.name.clone()).or_default().push(pod.clone());
        }
        self.by_pod.insert(pod.clone(), Prepared { work, written: None });
    }

    fn remove(&mut self, pod: &str) -> Option<(Text, Arc<Work>)> {
        let (pod, prepared) = self.by_pod.remove_entry(pod)?;
        for claim in prepared.work.claims() {
            let Some(names) = self.by_claim.get_mut(&claim.namespace) else { continue };
            let Some(pods) = names.get_mut(&claim.name) else { continue };
            pods.retain(|known| *known != pod);
            if pods.is_empty() {
                names.remove(&claim.name);
            }
            if names.is_empty() {
                self.by_claim.remove(&claim.namespace);
            }
        }
        self.woken.push(pod.clone());
        Some((pod, prepared.work))
    }

    fn claim_changed(&mut self, namespace: &str, name: &str) {
        if let Some(pods) = self.by_claim.get(namespace).and_then(|names| names.get(name)) {
            self.woken.extend(pods.iter().cloned());
        }
    }

    fn volume_changed(&mut self, volume: &Volume) {
        if let Some(claim) = &volume.claim {
            self.claim_changed(&claim.namespace, &claim.name);
        }
    }

    /// Nodes rarely change so that it matters: whoever waits is looked at.
    pub fn node_changed(&mut self, node: &str) {
        let there = self.by_pod.iter().filter(|(_, prepared)| prepared.work.node == node);
        self.woken.extend(there.map(|(pod, _)| pod.clone()));
        self.woken.sort_unstable();
    }
}

impl Core {
    /// Reserves what the pod's claims get on its node. None if they have all that they need.
    pub(super) fn prepare(&mut self, pod: &Pod, node: NodeIndex) -> Option<Arc<Work>> {
        pod.volumes.as_ref()?;
        let needs = self.snapshot.storage().needs(pod, self.snapshot.symbols())?;
        let work = Arc::new(Work::of(&needs, self.snapshot.node(node))?);
        self.snapshot.storage_mut().assume(&work, &pod.uid);
        self.preparations.insert(&pod.uid, work.clone());
        Some(work)
    }

    pub(super) fn end_preparation(&mut self, uid: &str, now: Instant) {
        let Some((pod, work)) = self.preparations.remove(uid) else { return };
        self.snapshot.storage_mut().release(&work, &pod);
        // Volumes that the pod did not get are there for others again.
        for (volume, _) in &work.bindings {
            let volume = self.snapshot.storage().volume(&volume.name).filter(|volume| volume.claim.is_none()).cloned();
            if let Some(volume) = volume {
                self.queue.happened(&ClusterEvent::Volume { old: Some(&volume), new: &volume }, now);
            }
        }
    }

    /// What the work of a pod's volumes asks for was written; the rest is up to others.
    pub fn volumes_written(&mut self, uid: &str, written: Written) {
        if let Some(prepared) = self.preparations.by_pod.get_mut(uid) {
            prepared.written = Some(written);
        }
    }

    pub fn preparation(&self, uid: &str) -> Preparation {
        let Some(Prepared { work, written }) = self.preparations.by_pod.get(uid) else { return Preparation::Gone };
        let Some(written) = written else { return Preparation::Waits };
        let Some(node) = self.snapshot.find(&work.node) else {
            return Preparation::Failed(format!("failed to get node \"{0}\": node \"{0}\" not found", work.node));
        };
        let (storage, symbols) = (self.snapshot.storage(), self.snapshot.symbols());
        match storage.progress(work, written, self.snapshot.node(node), symbols) {
            Ok(true) => Preparation::Done,
            Ok(false) => Preparation::Waits,
            Err(why) => Preparation::Failed(why),
        }
    }

    /// The pods of which [`Core::preparation`] may say something new.
    pub fn take_woken(&mut self) -> Vec<Text> {
        std::mem::take(&mut self.preparations.woken)
    }

    pub fn claim_changed(&mut self, old: Option<&Arc<Claim>>, new: Option<&Arc<Claim>>, now: Instant) {
        if old == new {
            return;
        }
        match (old, new) {
            (old, Some(new)) => {
                self.snapshot.storage_mut().set_claim(new);
                self.queue.happened(&ClusterEvent::Claim { old: old.map(|old| &**old), new }, now);
            }
            (Some(old), None) => self.snapshot.storage_mut().remove_claim(old),
            (None, None) => {}
        }
        if let Some(claim) = new.or(old) {
            self.preparations.claim_changed(&claim.namespace, &claim.name);
        }
    }

    pub fn volume_changed(&mut self, old: Option<&Arc<Volume>>, new: Option<&Arc<Volume>>, now: Instant) {
        if old == new {
            return;
        }
        match (old, new) {
            (old, Some(new)) => {
                self.snapshot.storage_mut().set_volume(new);
                self.queue.happened(&ClusterEvent::Volume { old: old.map(|old| &**old), new }, now);
            }
            (Some(old), None) => self.snapshot.storage_mut().remove_volume(&old.name),
            (None, None) => {}
        }
        old.into_iter().chain(new).for_each(|volume| self.preparations.volume_changed(volume));
    }

    pub fn class_changed(&mut self, old: Option<&Arc<StorageClass>>, new: Option<&Arc<StorageClass>>, now: Instant) {
        match (old, new) {
            (old, new) if old == new => {}
            (old, Some(new)) => {
                self.snapshot.storage_mut().set_class(new);
                self.queue.happened(&ClusterEvent::Class { old: old.map(|old| &**old), new }, now);
            }
            (Some(old), None) => self.snapshot.storage_mut().remove_class(&old.name),
            (None, None) => {}
        }
    }

    pub fn csi_node_changed(&mut self, old: Option<&Arc<CsiNode>>, new: Option<&Arc<CsiNode>>, now: Instant) {
        match (old, new) {
            (old, new) if old == new => {}
            (old, Some(new)) => {
                self.snapshot.storage_mut().set_csi_node(new);
                self.queue.happened(&ClusterEvent::CsiNode { old: old.map(|old| &**old), new }, now);
            }
            (Some(old), None) => self.snapshot.storage_mut().remove_csi_node(&old.name),
            (None, None) => {}
        }
    }

    pub fn csi_driver_changed(&mut self, old: Option<&Arc<CsiDriver>>, new: Option<&Arc<CsiDriver>>, now: Instant) {
        match (old, new) {
            (old, new) if old == new => {}
            (old, Some(new)) => {
                self.snapshot.storage_mut().set_driver(new);
                self.queue.happened(&ClusterEvent::CsiDriver { old: old.map(|old| &**old), new }, now);
            }
            (Some(old), None) => self.snapshot.storage_mut().remove_driver(&old.name),
            (None, None) => {}
        }
    }

    pub fn capacity_changed(&mut self, old: Option<&Arc<Capacity>>, new: Option<&Arc<Capacity>>, now: Instant) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.snapshot.storage_mut().remove_capacity(old);
        }
        if let Some(new) = new {
            self.snapshot.storage_mut().set_capacity(new);
            self.queue.happened(&ClusterEvent::Capacity { old: old.map(|old| &**old), new }, now);
        }
    }

    pub fn attachment_changed(&mut self, old: Option<&Arc<Attachment>>, new: Option<&Arc<Attachment>>, now: Instant) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.snapshot.storage_mut().remove_attachment(old);
        }
        match (old, new) {
            (_, Some(new)) => self.snapshot.storage_mut().set_attachment(new),
            (Some(old), None) => self.queue.happened(&ClusterEvent::AttachmentRemoved(old), now),
            (None, None) => {}
        }
    }
}
