//! Keeps pods away from nodes where another one has their host port.

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Verdict};
use crate::snapshot::Node;
use crate::view::{HostPort, Pod};

pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        if cycle.pod.ports.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Each(Box::new(Free(&cycle.pod.ports)))
    }

    fn interest(&self) -> Kinds {
        Kinds::NODE_ADDED.or(Kinds::POD_REMOVED)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::PodRemoved(gone) => is_taken(&pod.ports, &gone.ports),
            _ => false,
        }
    }
}

struct Free<'a>(&'a [HostPort]);

impl Filter for Free<'_> {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        if !is_taken(self.0, &node.details.ports) {
            return Verdict::Fits;
        }
        reasons.push(Reason::Text("node(s) didn't have free ports for the requested pod ports"));
        Verdict::Unschedulable
    }
}

fn is_taken(wanted: &[HostPort], used: &[HostPort]) -> bool {
    wanted.iter().any(|port| used.iter().any(|other| port.conflicts(other)))
}
