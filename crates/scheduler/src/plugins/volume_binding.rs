//! Keeps pods with claims where their volumes are, or can be.

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Verdict, is_claim_of};
use crate::snapshot::Node;
use crate::snapshot::storage::matching::{Needs, Picks};
use crate::view::{Capacity, Pod, Volume};

pub struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        if cycle.pod.volumes.as_ref().is_none_or(|volumes| volumes.claims.is_empty()) {
            return Filtering::Skip;
        }
        if let Err(reason) = check_claims(cycle) {
            return Filtering::Nowhere(reason.into());
        }
        match cycle.snapshot.storage().needs(cycle.pod, cycle.snapshot.symbols()) {
            Some(needs) => Filtering::Each(Box::new(Reached(needs))),
            None => Filtering::Nowhere("pod has unbound immediate PersistentVolumeClaims".into()),
        }
    }

    fn interest(&self) -> Kinds {
        let nodes = Kinds::NODE_ADDED.or(Kinds::NODE_LABELS);
        let claims = Kinds::CLAIM_ADDED.or(Kinds::CLAIM_UPDATED);
        nodes.or(claims).or(Kinds::VOLUME).or(Kinds::CLASS).or(Kinds::CSI_DRIVER).or(Kinds::CAPACITY)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) | ClusterEvent::NodeUpdated { .. } => true,
            ClusterEvent::Claim { new, .. } => is_claim_of(pod, new),
            ClusterEvent::Volume { new, .. } => could_have(pod, new),
            ClusterEvent::Class { old, new } => old.is_none_or(|old| old.topologies != new.topologies),
            ClusterEvent::CsiDriver { old, new } => old.is_some_and(|old| old.tells_capacity) && !new.tells_capacity,
            ClusterEvent::Capacity { old, new } => has_more_room(*old, new),
            _ => false,
        }
    }
}

/// Whether the claims are there and can be used; if not, which and why.
fn check_claims(cycle: &Cycle<'_>) -> Result<(), String> {
    let (pod, storage) = (cycle.pod, cycle.snapshot.storage());
    for wanted in pod.volumes.iter().flat_map(|volumes| &volumes.claims) {
        let name = &wanted.name;
        let Some(claim) = storage.claim(&pod.namespace, name) else {
            return Err(match wanted.is_ephemeral {
                true => {
                    format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\"")
                }
                false => format!("persistentvolumeclaim \"{name}\" not found"),
            });
        };
        if claim.is_lost {
            let volume = &claim.volume;
            return Err(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
            ));
        }
        if claim.is_terminating {
            return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if wanted.is_ephemeral && claim.controller != pod.uid {
            let namespace = &pod.namespace;
            let pod = &pod.name;
            return Err(format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"));
        }
    }
    Ok(())
}

/// Whether a volume is for nobody, or for a claim of the pod's.
fn could_have(pod: &Pod, volume: &Volume) -> bool {
    let is_ours = |name: &str| pod.volumes.as_ref().is_some_and(|volumes| volumes.claims(name));
    volume.claim.as_ref().is_none_or(|claim| claim.namespace == pod.namespace && is_ours(&claim.name))
}

fn has_more_room(old: Option<&Capacity>, new: &Capacity) -> bool {
    old.is_none_or(|old| new.limit > old.limit)
}

struct Reached<'a>(Needs<'a>);

impl Filter for Reached<'_> {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        let lacks = self.0.look(node, &mut Picks::new());
        let table = [
            (lacks.affinity, "node(s) didn't match PersistentVolume's node affinity"),
            (lacks.volumes, "node(s) didn't find available persistent volumes to bind"),
            (lacks.room, "node(s) did not have enough free storage"),
            (lacks.existence, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
        ];
        let before = reasons.len();
        reasons.extend(table.into_iter().filter(|(is_lacking, _)| *is_lacking).map(|(_, text)| Reason::Text(text)));
        if reasons.len() == before { Verdict::Fits } else { Verdict::Unresolvable }
    }
}
