//! Keeps pods away from nodes that are cordoned off, unless they tolerate the taint that says so.

use super::taint_toleration::{Tolerations, tolerates};
use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Verdict};
use crate::snapshot::Node;
use crate::view::{Effect, Pod};

const TAINT: &str = "node.kubernetes.io/unschedulable";

pub struct NodeUnschedulable;

struct Cordoned;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        if cycle.snapshot.counts().unschedulable == 0 || is_tolerated(&cycle.pending.tolerations) {
            return Filtering::Skip;
        }
        Filtering::Each(Box::new(Cordoned))
    }

    fn interest(&self) -> Kinds {
        Kinds::NODE_ADDED.or(Kinds::NODE_TAINTS).or(Kinds::POD_TOLERATIONS)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(node) => !node.is_unschedulable,
            ClusterEvent::NodeUpdated { old, new } => old.is_unschedulable && !new.is_unschedulable,
            ClusterEvent::WaitingPodUpdated { new, .. } => {
                new.uid == pod.uid && new.pending.as_ref().is_some_and(|pending| is_tolerated(&pending.tolerations))
            }
            _ => false,
        }
    }
}

impl Filter for Cordoned {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        if !node.is_unschedulable {
            return Verdict::Fits;
        }
        reasons.push(Reason::Text("node(s) were unschedulable"));
        Verdict::Unresolvable
    }
}

fn is_tolerated(tolerations: &Tolerations) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, TAINT, "", Effect::NoSchedule))
}
