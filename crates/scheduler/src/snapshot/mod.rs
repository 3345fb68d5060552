//! All nodes with the pods on them, kept up to date change by change. Pods that the scheduler has decided on count from
//! that moment (they are assumed), whether the API has heard of it or not.
//!
//! What holds: a pod is on one node at most; a node's sums are those of its pods; an assumed pod stays until the API
//! shows it on a node, or gone, or its binding is known to have failed. There is no time after which it is forgotten.

mod node;
pub mod storage;
mod symbols;
mod wanted;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rkube_machinery::Text;

pub use node::{Amount, Details, Node, Taint};
pub use symbols::{Symbol, Symbols};
pub use wanted::{NAME_FIELD, Wanted, is_field_match};

use storage::Storage;

use crate::view::{self, Pod};

/// A node's place in the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(u32);

#[derive(Default)]
pub struct Snapshot {
    nodes: Vec<Node>,
    free: Vec<NodeIndex>,
    by_name: HashMap<Text, NodeIndex>,
    /// The nodes that are there, zones taking turns. Made anew when one has come or gone.
    order: Vec<NodeIndex>,
    order_is_stale: bool,
    pods: HashMap<Text, Placed>,
    symbols: Symbols,
    storage: Storage,
    images: HashMap<Symbol, ImageState>,
    counts: Counts,
    /// Counts changes.
    generation: u64,
}

/// How many nodes are out of the ordinary: while there are none, nobody looks for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub unschedulable: usize,
    pub with_hard_taints: usize,
    pub with_soft_taints: usize,
}

struct Placed {
    pod: Arc<Pod>,
    node: NodeIndex,
}

/// An image that is on some node.
#[derive(Clone, Copy, Debug)]
pub struct ImageState {
    pub size: i64,
    pub nodes: usize,
}

impl Snapshot {
    /// All nodes, zones taking turns.
    pub fn order(&mut self) -> &[NodeIndex] {
        if self.order_is_stale {
            self.order = self.interleaved();
            self.order_is_stale = false;
        }
        &self.order
    }

    /// As of the last call of [`Snapshot::order`].
    pub fn ordered(&self) -> &[NodeIndex] {
        debug_assert!(!self.order_is_stale, "a cycle begins with the order of the nodes");
        &self.order
    }

    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.0 as usize]
    }

    /// None if there is no such node.
    pub fn find(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied().filter(|index| self.node(*index).is_present)
    }

    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// What there is for volumes.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    pub fn storage_mut(&mut self) -> &mut Storage {
        &mut self.storage
    }

    pub fn image(&self, name: &str) -> Option<(Symbol, ImageState)> {
        let symbol = self.symbols.find(name)?;
        Some((symbol, *self.images.get(&symbol)?))
    }

    /// Another one each time that something has changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.pods.get(uid).map(|placed| &placed.pod)
    }

    /// A node is there, or is like this now.
    pub fn set_node(&mut self, view: &view::Node) {
        self.generation += 1;
        let index = self.entry(&view.name);
        self.count_out(index);
        if !self.nodes[index.0 as usize].is_present {
            self.order_is_stale = true;
        }
        let node = &mut self.nodes[index.0 as usize];
        // The new texts are acquired before the old ones are released, so that those that stay keep their symbols.
        let mut old = Node { details: Box::new(node.details.texts()), ..Node::default() };
        let zone = node.details.zone.clone();
        node.describe(view, &mut self.symbols);
        self.order_is_stale |= zone != node.details.zone;
        self.count_in(index, view);
        old.forget(&mut self.symbols);
    }

    /// A node is gone. Pods that are said to be on it stay known: it may come back under the same name.
    pub fn remove_node(&mut self, name: &str) {
        let Some(index) = self.by_name.get(name).copied() else { return };
        if !self.node(index).is_present {
            return;
        }
        self.generation += 1;
        self.count_out(index);
        self.nodes[index.0 as usize].forget(&mut self.symbols);
        self.order_is_stale = true;
        self.drop_if_unused(index);
    }

    /// A pod is on a node, as the API says.
    pub fn assign(&mut self, pod: &Arc<Pod>) {
        self.remove_pod(&pod.uid);
        let node = self.entry(&pod.node);
        self.place(pod.clone(), node);
    }

    /// A pod is to be on a node. It must not be on any.
    pub fn assume(&mut self, pod: Arc<Pod>, node: NodeIndex) {
        assert!(!self.pods.contains_key(&pod.uid), "a pod that has a place is not given another");
        self.place(pod, node);
    }

    /// A pod is gone, or is not to be where it was assumed to be.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let placed = self.pods.remove(uid)?;
        self.generation += 1;
        self.nodes[placed.node.0 as usize].remove_pod(uid);
        self.storage.remove_pod(&placed.pod);
        self.drop_if_unused(placed.node);
        Some(placed.pod)
    }

    fn place(&mut self, pod: Arc<Pod>, node: NodeIndex) {
        self.generation += 1;
        self.nodes[node.0 as usize].add_pod(pod.clone());
        self.storage.add_pod(&pod);
        self.pods.insert(pod.uid.clone(), Placed { pod, node });
    }

    fn entry(&mut self, name: &Text) -> NodeIndex {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let node = Node { details: Box::new(Details { name: name.clone(), ..Details::default() }), ..Node::default() };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index.0 as usize] = node;
                index
            }
            None => {
                let number = u32::try_from(self.nodes.len()).expect("a cluster has fewer nodes than that");
                self.nodes.push(node);
                NodeIndex(number)
            }
        };
        self.by_name.insert(name.clone(), index);
        index
    }

    fn drop_if_unused(&mut self, index: NodeIndex) {
        let node = self.node(index);
        if !node.is_present && node.pod_count == 0 {
            let name = node.details.name.clone();
            self.by_name.remove(&name);
            self.nodes[index.0 as usize] = Node::default();
            self.free.push(index);
        }
    }

    fn count_in(&mut self, index: NodeIndex, view: &view::Node) {
        let node = &self.nodes[index.0 as usize];
        self.counts.unschedulable += usize::from(node.is_unschedulable);
        self.counts.with_hard_taints += usize::from(node.has_hard_taints);
        self.counts.with_soft_taints += usize::from(node.has_soft_taints);
        for image in &view.images {
            for symbol in image.names.iter().filter_map(|name| self.symbols.find(name)) {
                let state = self.images.entry(symbol).or_insert(ImageState { size: image.size, nodes: 0 });
                state.nodes += 1;
            }
        }
    }

    fn count_out(&mut self, index: NodeIndex) {
        let node = &self.nodes[index.0 as usize];
        self.counts.unschedulable -= usize::from(node.is_unschedulable);
        self.counts.with_hard_taints -= usize::from(node.has_hard_taints);
        self.counts.with_soft_taints -= usize::from(node.has_soft_taints);
        for symbol in &node.details.images {
            if let Some(state) = self.images.get_mut(symbol) {
                state.nodes -= 1;
                if state.nodes == 0 {
                    self.images.remove(symbol);
                }
            }
        }
    }

    /// One node of each zone in turn, zones and nodes by name.
    fn interleaved(&self) -> Vec<NodeIndex> {
        let mut zones: BTreeMap<&str, BTreeMap<&str, NodeIndex>> = BTreeMap::new();
        let present = self.by_name.iter().filter(|(_, index)| self.node(**index).is_present);
        let mut count = 0;
        for (name, index) in present {
            zones.entry(&self.node(*index).details.zone).or_default().insert(name, *index);
            count += 1;
        }
        let mut zones: Vec<_> = zones.values().map(|nodes| nodes.values()).collect();
        let mut order = Vec::with_capacity(count);
        while order.len() < count {
            order.extend(zones.iter_mut().filter_map(|nodes| nodes.next()));
        }
        order
    }

    /// Whether every sum is what its pods add up to: for tests.
    pub fn check(&self) -> Result<(), String> {
        for (name, index) in &self.by_name {
            let node = self.node(*index);
            let cpu: i64 = node.details.pods.iter().map(|pod| pod.requests.cpu_milli.unwrap_or(0)).sum();
            if cpu != node.cpu_milli.requested || node.details.pods.len() as i64 != node.pod_count {
                return Err(format!("{name}: {cpu} and {} pods are not what was counted", node.details.pods.len()));
            }
            if let Some(pod) =
                node.details.pods.iter().find(|pod| self.pods.get(&pod.uid).map(|it| it.node) != Some(*index))
            {
                return Err(format!("{name}: {} is known to be elsewhere", pod.name));
            }
        }
        Ok(())
    }
}

impl Details {
    /// Only what is held by symbols.
    fn texts(&mut self) -> Details {
        Details {
            labels: std::mem::take(&mut self.labels),
            taints: std::mem::take(&mut self.taints),
            images: std::mem::take(&mut self.images),
            ..Details::default()
        }
    }
}
