//! No node has more pods than it has room for, and none is put on a node that takes no more.

use std::collections::HashMap;

use rkube_machinery::quantity::Quantity;

use super::lately::is_recent;
use super::view::{Amounts, Node, Pod};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Taken {
    cpu_milli: i64,
    memory_bytes: i64,
    pods: i64,
}

#[derive(Default)]
pub(super) struct Nodes {
    /// What there is to take; it stays the same when a node comes back.
    room: HashMap<String, Taken>,
    taken: HashMap<String, Taken>,
    /// Those that take no more pods, and since when.
    cordoned: HashMap<String, u64>,
}

impl Nodes {
    pub fn node(&mut self, key: &str, node: Option<Node>, at_micros: u64) {
        let name = key.rsplit('/').next().unwrap_or_default();
        if node.as_ref().is_some_and(|node| node.spec.unschedulable) {
            self.cordoned.entry(name.to_owned()).or_insert(at_micros);
        } else {
            self.cordoned.remove(name);
        }
        if let Some(node) = node {
            let Amounts { cpu, memory, pods } = &node.status.allocatable;
            let room = Taken { cpu_milli: milli(cpu), memory_bytes: whole(memory), pods: whole(pods) };
            self.room.insert(name.to_owned(), room);
        }
    }

    /// Whether a pod comes to a node that takes none, of which who puts it there must have heard. Those of DaemonSets do.
    pub fn bound(&self, old: Option<&Pod>, new: Option<&Pod>, at_micros: u64) -> Option<String> {
        let new = new.filter(|pod| holds(pod) && pod.metadata.controller("DaemonSet").is_none())?;
        let is_new = !old.is_some_and(|old| old.metadata.uid == new.metadata.uid && holds(old));
        let node = &new.spec.node_name;
        let since = *self.cordoned.get(node).filter(|_| is_new)?;
        (!is_recent(since, at_micros)).then(|| format!("comes to {node}, which takes no more pods"))
    }

    pub fn pod(&mut self, old: Option<&Pod>, new: Option<&Pod>) -> Option<String> {
        let held = old.filter(|pod| holds(pod));
        let holding = new.filter(|pod| holds(pod));
        if let Some(old) = held {
            let taken = self.taken.entry(old.spec.node_name.clone()).or_default();
            let its = needs(old);
            taken.cpu_milli -= its.cpu_milli;
            taken.memory_bytes -= its.memory_bytes;
            taken.pods -= its.pods;
        }
        let new = holding?;
        let node = &new.spec.node_name;
        let taken = self.taken.entry(node.clone()).or_default();
        let its = needs(new);
        taken.cpu_milli += its.cpu_milli;
        taken.memory_bytes += its.memory_bytes;
        taken.pods += its.pods;
        if held.is_some() {
            return None;
        }
        let room = self.room.get(node)?;
        let is_over =
            taken.cpu_milli > room.cpu_milli || taken.memory_bytes > room.memory_bytes || taken.pods > room.pods;
        is_over.then(|| {
            format!(
                "node {node} has room for {}m, {} bytes and {} pods, and {}m, {} bytes and {} pods are on it",
                room.cpu_milli, room.memory_bytes, room.pods, taken.cpu_milli, taken.memory_bytes, taken.pods
            )
        })
    }
}

/// It takes room on a node.
fn holds(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty() && !pod.is_over()
}

fn needs(pod: &Pod) -> Taken {
    let requests = || pod.spec.containers.iter().map(|container| &container.resources.requests);
    Taken {
        cpu_milli: requests().map(|amounts| milli(&amounts.cpu)).sum(),
        memory_bytes: requests().map(|amounts| whole(&amounts.memory)).sum(),
        pods: 1,
    }
}

fn milli(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, |amount| amount.milli_value())
}

fn whole(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, |amount| amount.value())
}
