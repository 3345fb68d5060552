//! Keeps pods in the zones of their volumes, where these say it by labels.

use smallvec::SmallVec;

use super::{ClusterEvent, Cycle, Filter, Filtering, Kinds, Plugin, Reason, Reasons, Verdict, is_claim_of};
use crate::snapshot::{Node, Symbol, Symbols};
use crate::view::{Pod, Volume};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// The labels that are looked at, and by what they are called today.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    (ZONE, ZONE),
    (REGION, REGION),
];
/// Between the zones of a volume that is in several.
const DELIMITER: &str = "__";

pub struct VolumeZone;

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn filter<'a>(&self, cycle: &Cycle<'a>) -> Filtering<'a> {
        let Some(volumes) = &cycle.pod.volumes else { return Filtering::Skip };
        let (storage, symbols) = (cycle.snapshot.storage(), cycle.snapshot.symbols());
        let mut zones = Vec::new();
        for name in volumes.named_claims() {
            let claim = storage.claim(&cycle.pod.namespace, name);
            // Claims that are not there, or not bound though they should be, were refused before.
            let Some(claim) = claim.filter(|claim| !claim.volume.is_empty()) else { continue };
            let Some(volume) = storage.volume(&claim.volume) else {
                return Filtering::Nowhere(format!("persistentvolume \"{}\" not found", claim.volume).into());
            };
            zones.extend(topologies(volume).map(|topology| Zone::of(&topology, symbols)));
        }
        if zones.is_empty() {
            return Filtering::Skip;
        }
        let known = LABELS.iter().filter_map(|(key, _)| symbols.find(key)).collect();
        Filtering::Each(Box::new(Zones { zones, known }))
    }

    fn interest(&self) -> Kinds {
        let nodes = Kinds::NODE_ADDED.or(Kinds::NODE_LABELS);
        nodes.or(Kinds::CLASS).or(Kinds::CLAIM_ADDED).or(Kinds::CLAIM_UPDATED).or(Kinds::VOLUME)
    }

    fn is_helped(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) | ClusterEvent::NodeUpdated { .. } => true,
            ClusterEvent::Class { old, new } => old.is_none() && new.waits_for_consumer,
            ClusterEvent::Claim { new, .. } => is_claim_of(pod, new),
            ClusterEvent::Volume { old, new } => old.is_none_or(|old| !topologies(old).eq(topologies(new))),
            _ => false,
        }
    }
}

/// In which zones a volume is, by the label that says so.
#[derive(PartialEq, Eq)]
struct Topology<'a> {
    key: &'static str,
    current_key: &'static str,
    values: SmallVec<[&'a str; 2]>,
}

/// A label that has an empty zone among others is ignored.
fn topologies(volume: &Volume) -> impl Iterator<Item = Topology<'_>> {
    LABELS.iter().filter_map(|(key, current_key)| {
        let values: SmallVec<_> = volume.label(key)?.split(DELIMITER).map(str::trim).collect();
        (!values.contains(&"")).then_some(Topology { key, current_key, values })
    })
}

struct Zone {
    /// None: no node has such a label.
    keys: [Option<Symbol>; 2],
    /// Those that some node has.
    values: SmallVec<[Symbol; 2]>,
}

impl Zone {
    fn of(topology: &Topology<'_>, symbols: &Symbols) -> Zone {
        Zone {
            keys: [topology.key, topology.current_key].map(|key| symbols.find(key)),
            values: topology.values.iter().filter_map(|value| symbols.find(value)).collect(),
        }
    }
}

struct Zones {
    zones: Vec<Zone>,
    known: SmallVec<[Symbol; 4]>,
}

impl Filter for Zones {
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict {
        // A node that is in no zone is in all.
        if self.known.iter().all(|key| node.label(*key).is_none()) {
            return Verdict::Fits;
        }
        let is_there = |zone: &Zone| {
            let value = zone.keys.iter().flatten().find_map(|key| node.label(*key));
            value.is_some_and(|value| zone.values.contains(&value))
        };
        if self.zones.iter().all(is_there) {
            return Verdict::Fits;
        }
        reasons.push(Reason::Text("node(s) had no available volume zone"));
        Verdict::Unresolvable
    }
}
