//! What there is for volumes: claims, volumes, classes and what drivers say, kept up to date change by change. What the
//! scheduler has decided on counts from that moment (it is assumed), whether the API has heard of it or not.
//!
//! What holds: a volume is assumed for one claim at most, and a claim for one node; whoever assumed it releases it, or
//! the API shows what became of it. Volumes that can still be had are found by class and size, and those that are for
//! a claim by that claim: nobody looks through all of them.

pub mod matching;
pub mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rkube_machinery::Text;

use crate::view::{Attachment, Capacity, Claim, ClaimReference, CsiDriver, CsiNode, Pod, StorageClass, Volume};

/// By namespace and name, found without a key of both.
type Namespaced<T> = HashMap<Text, HashMap<Text, T>>;

#[derive(Default)]
pub struct Storage {
    claims: Namespaced<ClaimEntry>,
    volumes: HashMap<Text, VolumeEntry>,
    /// Volumes that are nobody's, of each class by size.
    open: HashMap<Text, BTreeSet<(i64, Text)>>,
    /// Volumes that are for a claim.
    by_claim: Namespaced<BTreeSet<Text>>,
    classes: HashMap<Text, Arc<StorageClass>>,
    drivers: HashMap<Text, Arc<CsiDriver>>,
    csi_nodes: HashMap<Text, Arc<CsiNode>>,
    /// How many nodes have a limit: while there is none, nobody counts.
    limited_nodes: usize,
    /// By class.
    capacities: HashMap<Text, BTreeMap<(Text, Text), Arc<Capacity>>>,
    /// By node.
    attachments: HashMap<Text, BTreeMap<Text, Arc<Attachment>>>,
    /// How often pods that have a node, or are to have one, name a claim.
    users: Namespaced<usize>,
}

struct ClaimEntry {
    claim: Arc<Claim>,
    /// For which node its volume is to be made, and for which pod.
    assumed: Option<(Text, Text)>,
}

struct VolumeEntry {
    volume: Arc<Volume>,
    /// Which claim is to have it, and for which pod.
    assumed: Option<(ClaimReference, Text)>,
}

impl VolumeEntry {
    fn claim(&self) -> Option<&ClaimReference> {
        self.assumed.as_ref().map(|(claim, _)| claim).or(self.volume.claim.as_ref())
    }
}

impl Storage {
    pub fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<Claim>> {
        self.claims.get(namespace)?.get(name).map(|entry| &entry.claim)
    }

    pub fn volume(&self, name: &str) -> Option<&Arc<Volume>> {
        self.volumes.get(name).map(|entry| &entry.volume)
    }

    pub fn class(&self, name: &str) -> Option<&Arc<StorageClass>> {
        self.classes.get(name)
    }

    pub fn csi_node(&self, name: &str) -> Option<&Arc<CsiNode>> {
        self.csi_nodes.get(name)
    }

    pub fn has_limits(&self) -> bool {
        self.limited_nodes > 0
    }

    pub fn attachments(&self, node: &str) -> impl Iterator<Item = &Arc<Attachment>> {
        self.attachments.get(node).into_iter().flat_map(|all| all.values())
    }

    /// Whether a pod that has a node uses a claim.
    pub fn is_claim_used(&self, namespace: &str, name: &str) -> bool {
        self.users.get(namespace).is_some_and(|names| names.contains_key(name))
    }

    pub fn set_claim(&mut self, claim: &Arc<Claim>) {
        let names = self.claims.entry(claim.namespace.clone()).or_default();
        let before = names.insert(claim.name.clone(), ClaimEntry { claim: claim.clone(), assumed: None });
        if let (Some(entry), Some(before)) = (names.get_mut(&claim.name), before) {
            let is_same = before.claim.uid == claim.uid && claim.selected_node.is_none();
            entry.assumed = before.assumed.filter(|_| is_same);
        }
    }

    pub fn remove_claim(&mut self, claim: &Claim) {
        remove_named(&mut self.claims, &claim.namespace, &claim.name);
    }

    pub fn set_volume(&mut self, volume: &Arc<Volume>) {
        let before = self.unlist(&volume.name);
        // The API knows of a claim: that counts.
        let is_open = volume.claim.as_ref().is_none_or(|claim| claim.uid.is_empty());
        let assumed =
            before.filter(|before| is_open && before.volume.uid == volume.uid).and_then(|before| before.assumed);
        self.list(VolumeEntry { volume: volume.clone(), assumed });
    }

    pub fn remove_volume(&mut self, name: &str) {
        self.unlist(name);
    }

    pub fn set_class(&mut self, class: &Arc<StorageClass>) {
        self.classes.insert(class.name.clone(), class.clone());
    }

    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    pub fn set_driver(&mut self, driver: &Arc<CsiDriver>) {
        self.drivers.insert(driver.name.clone(), driver.clone());
    }

    pub fn remove_driver(&mut self, name: &str) {
        self.drivers.remove(name);
    }

    pub fn set_csi_node(&mut self, node: &Arc<CsiNode>) {
        self.remove_csi_node(&node.name);
        self.limited_nodes += usize::from(!node.limits.is_empty());
        self.csi_nodes.insert(node.name.clone(), node.clone());
    }

    pub fn remove_csi_node(&mut self, name: &str) {
        if let Some(node) = self.csi_nodes.remove(name) {
            self.limited_nodes -= usize::from(!node.limits.is_empty());
        }
    }

    pub fn set_capacity(&mut self, capacity: &Arc<Capacity>) {
        let key = (capacity.namespace.clone(), capacity.name.clone());
        self.capacities.entry(capacity.class.clone()).or_default().insert(key, capacity.clone());
    }

    pub fn remove_capacity(&mut self, capacity: &Capacity) {
        if let Some(all) = self.capacities.get_mut(&capacity.class) {
            all.remove(&(capacity.namespace.clone(), capacity.name.clone()));
            if all.is_empty() {
                self.capacities.remove(&capacity.class);
            }
        }
    }

    pub fn set_attachment(&mut self, attachment: &Arc<Attachment>) {
        let all = self.attachments.entry(attachment.node.clone()).or_default();
        all.insert(attachment.name.clone(), attachment.clone());
    }

    pub fn remove_attachment(&mut self, attachment: &Attachment) {
        if let Some(all) = self.attachments.get_mut(&attachment.node) {
            all.remove(&attachment.name);
            if all.is_empty() {
                self.attachments.remove(&attachment.node);
            }
        }
    }

    /// A pod has a node, or is to have one.
    pub fn add_pod(&mut self, pod: &Pod) {
        let Some(volumes) = &pod.volumes else { return };
        for name in volumes.named_claims() {
            *self.users.entry(pod.namespace.clone()).or_default().entry(name.clone()).or_default() += 1;
        }
    }

    pub fn remove_pod(&mut self, pod: &Pod) {
        let Some(volumes) = &pod.volumes else { return };
        for name in volumes.named_claims() {
            let count = self.users.get_mut(&pod.namespace).and_then(|names| names.get_mut(name));
            let Some(count) = count else { continue };
            *count -= 1;
            if *count == 0 {
                remove_named(&mut self.users, &pod.namespace, name);
            }
        }
    }

    fn list(&mut self, entry: VolumeEntry) {
        let volume = &entry.volume;
        match entry.claim() {
            Some(claim) => {
                let names = self.by_claim.entry(claim.namespace.clone()).or_default();
                names.entry(claim.name.clone()).or_default().insert(volume.name.clone());
            }
            None if volume.is_available && !volume.is_terminating => {
                let all = self.open.entry(volume.class.clone()).or_default();
                all.insert((volume.capacity, volume.name.clone()));
            }
            None => {}
        }
        self.volumes.insert(volume.name.clone(), entry);
    }

    fn unlist(&mut self, name: &str) -> Option<VolumeEntry> {
        let entry = self.volumes.remove(name)?;
        let volume = &entry.volume;
        if let Some(claim) = entry.claim() {
            let all = self.by_claim.get_mut(&claim.namespace).and_then(|names| names.get_mut(&claim.name));
            if all.is_some_and(|all| all.remove(name) && all.is_empty()) {
                remove_named(&mut self.by_claim, &claim.namespace, &claim.name);
            }
        } else if let Some(all) = self.open.get_mut(&volume.class) {
            all.remove(&(volume.capacity, volume.name.clone()));
            if all.is_empty() {
                self.open.remove(&volume.class);
            }
        }
        Some(entry)
    }
}

fn remove_named<T>(all: &mut Namespaced<T>, namespace: &str, name: &str) {
    if let Some(names) = all.get_mut(namespace) {
        names.remove(name);
        if names.is_empty() {
            all.remove(namespace);
        }
    }
}
