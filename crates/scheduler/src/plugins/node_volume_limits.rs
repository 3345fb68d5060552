//! Keeps pods away from nodes that have as many volumes of a driver as they can.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Verdict, is_claim_of};
use crate::snapshot::Node;
use crate::snapshot::storage::Storage;
use crate::view::{Claim, CsiNode, Pod};

pub struct NodeVolumeLimits;

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        let storage = cycle.snapshot.storage();
        if !has_claims(cycle.pod) || !storage.has_limits() {
            return Filtering::Skip;
        }
        let mut wanted: Vec<VolumeId<'a>> = volumes_of(cycle.pod, storage).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Filtering::Skip;
        }
        Filtering::Each(Box::new(Limits { wanted, storage, there: RefCell::default() }))
    }

    fn interest(&self) -> Kinds {
        Kinds::CSI_NODE.or(Kinds::POD_REMOVED).or(Kinds::CLAIM_ADDED).or(Kinds::ATTACHMENT_REMOVED)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::CsiNode { old, new } => old.is_none_or(|old| has_more(old, new)),
            ClusterEvent::PodRemoved(gone) => has_claims(gone),
            ClusterEvent::Claim { new, .. } => is_claim_of(pod, new),
            ClusterEvent::AttachmentRemoved(_) => true,
            _ => false,
        }
    }
}

fn has_claims(pod: &Pod) -> bool {
    pod.volumes.as_ref().is_some_and(|volumes| !volumes.claims.is_empty())
}

/// Whether more volumes of some driver can be there than before.
fn has_more(old: &CsiNode, new: &CsiNode) -> bool {
    let is_raised = new.limits.iter().any(|(driver, limit)| *limit > old.limit(driver).unwrap_or(0));
    is_raised || old.limits.iter().any(|(driver, _)| new.limit(driver).is_none())
}

/// One volume, however many pods use it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct VolumeId<'a> {
    driver: &'a str,
    /// The driver's name for it, or of one that is still to be made the claim's namespace and name.
    name: (&'a str, &'a str),
}

/// The volumes of a pod by drivers; others are not counted.
fn volumes_of<'a>(pod: &Pod, storage: &'a Storage) -> impl Iterator<Item = VolumeId<'a>> {
    let wanted = pod.volumes.iter().flat_map(|volumes| &volumes.claims);
    wanted.filter_map(move |wanted| {
        let claim = storage.claim(&pod.namespace, &wanted.name)?;
        if wanted.is_ephemeral && claim.controller != pod.uid { None } else { volume_of(claim, storage) }
    })
}

fn volume_of<'a>(claim: &'a Claim, storage: &'a Storage) -> Option<VolumeId<'a>> {
    let id = match storage.volume(&claim.volume) {
        Some(volume) => {
            let csi = volume.csi.as_ref()?;
            VolumeId { driver: &csi.driver, name: ("", &csi.handle) }
        }
        None => {
            let class = storage.class(&claim.class)?;
            VolumeId { driver: &class.provisioner, name: (&claim.namespace, &claim.name) }
        }
    };
    (!id.driver.is_empty() && !id.name.1.is_empty()).then_some(id)
}

struct Limits<'a> {
    wanted: Vec<VolumeId<'a>>,
    storage: &'a Storage,
    /// The volumes of the node that is asked; kept for its room.
    there: RefCell<Vec<VolumeId<'a>>>,
}

impl Filter for Limits<'_> {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        let Some(csi_node) = self.storage.csi_node(&node.details.name) else { return Verdict::Fits };
        if self.wanted.iter().all(|volume| csi_node.limit(volume.driver).is_none()) {
            return Verdict::Fits;
        }
        let mut there = self.there.borrow_mut();
        there.clear();
        there.extend(node.details.pods.iter().flat_map(|pod| volumes_of(pod, self.storage)));
        there.sort_unstable();
        there.dedup();
        let new: SmallVec<[&VolumeId<'_>; 8]> =
            self.wanted.iter().filter(|volume| there.binary_search(volume).is_err()).collect();
        // What is attached counts, too; also if it is one of the new ones, as upstream counts.
        there.extend(self.storage.attachments(&node.details.name).filter_map(|attachment| {
            let volume = self.storage.volume(&attachment.volume)?.csi.as_ref()?;
            let id = VolumeId { driver: &attachment.attacher, name: ("", &volume.handle) };
            (!id.driver.is_empty()).then_some(id)
        }));
        there.sort_unstable();
        there.dedup();
        let is_exceeded = |volume: &&VolumeId<'_>| {
            let driver = volume.driver;
            let count = there.iter().filter(|volume| volume.driver == driver).count()
                + new.iter().filter(|volume| volume.driver == driver).count();
            csi_node.limit(driver).is_some_and(|limit| i64::try_from(count).is_ok_and(|count| count > limit))
        };
        if !new.iter().copied().any(|volume| is_exceeded(&volume)) {
            return Verdict::Fits;
        }
        reasons.push(Reason::Text("node(s) exceed max volume count"));
        Verdict::Unschedulable
    }
}
