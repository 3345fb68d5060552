//! Keeps pods apart that cannot share a volume: disks that a node can have once, and claims that are for one pod.

use rkube_machinery::Text;

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Verdict, is_claim_of};
use crate::snapshot::{Node, Snapshot};
use crate::view::{AccessModes, Disk, Pod};

pub struct VolumeRestrictions;

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        let Some(volumes) = &cycle.pod.volumes else { return Filtering::Skip };
        let (namespace, storage) = (&cycle.pod.namespace, cycle.snapshot.storage());
        let mut used = Vec::new();
        for name in volumes.named_claims() {
            let Some(claim) = storage.claim(namespace, name) else {
                return Filtering::Nowhere(format!("persistentvolumeclaim \"{name}\" not found").into());
            };
            let is_for_one = claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD);
            if is_for_one && storage.is_claim_used(namespace, name) && !used.contains(&name) {
                used.push(name);
            }
        }
        if used.is_empty() && volumes.disks.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Each(Box::new(Apart { namespace, used, disks: &volumes.disks, snapshot: cycle.snapshot }))
    }

    fn interest(&self) -> Kinds {
        Kinds::NODE_ADDED.or(Kinds::POD_REMOVED).or(Kinds::CLAIM_ADDED)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::Claim { new, .. } => is_claim_of(pod, new),
            ClusterEvent::PodRemoved(gone) => {
                let Some((volumes, other)) = pod.volumes.as_ref().zip(gone.volumes.as_ref()) else { return false };
                let mut shared = volumes.named_claims().filter(|name| other.named_claims().any(|known| known == *name));
                pod.namespace == gone.namespace && (has_conflict(&volumes.disks, gone) || shared.next().is_some())
            }
            _ => false,
        }
    }
}

struct Apart<'a> {
    namespace: &'a Text,
    /// Claims for one pod that another one has.
    used: Vec<&'a Text>,
    disks: &'a [Disk],
    snapshot: &'a Snapshot,
}

impl Filter for Apart<'_> {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        let reason = if node.details.pods.iter().any(|pod| has_conflict(self.disks, pod)) {
            "node(s) had no available disk"
        } else if self.is_used(node) {
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
        } else {
            return Verdict::Fits;
        };
        reasons.push(Reason::Text(reason));
        Verdict::Unschedulable
    }
}

impl Apart<'_> {
    /// Whether one of the claims is used, also without the pods that are thought away from this node.
    fn is_used(&self, node: &Node) -> bool {
        if self.used.is_empty() {
            return false;
        }
        let there = self.snapshot.find(&node.details.name).map_or(0, |index| self.uses(self.snapshot.node(index)));
        self.used.len() + self.uses(node) > there
    }

    fn uses(&self, node: &Node) -> usize {
        let pods = node.details.pods.iter().filter(|pod| pod.namespace == *self.namespace);
        let named = pods.filter_map(|pod| pod.volumes.as_ref()).flat_map(|volumes| volumes.named_claims());
        named.filter(|name| self.used.contains(name)).count()
    }
}

fn has_conflict(disks: &[Disk], pod: &Pod) -> bool {
    let Some(volumes) = &pod.volumes else { return false };
    disks.iter().any(|disk| volumes.disks.iter().any(|other| disk.conflicts(other)))
}
