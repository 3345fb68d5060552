//! Holds pods back that have scheduling gates.

use super::{ClusterEvent, Kinds, Plugin};
use crate::view::{Pending, Pod};

pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn holds_back(&self, pending: &Pending) -> bool {
        pending.gates > 0
    }

    fn interest(&self) -> Kinds {
        Kinds::POD_GATES
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        matches!(event, ClusterEvent::WaitingPodUpdated { new, .. } if new.uid == pod.uid)
    }
}
