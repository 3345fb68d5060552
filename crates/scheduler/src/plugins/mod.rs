//! What decides where a pod goes: one plugin, one file, one line in [`PLUGINS`].
//!
//! A plugin looks at a pod once per cycle and returns what it asks every node, or that it has nothing to ask: what does
//! not concern the pod, or no node, costs nothing per node. It names the events that could change its mind, and says of one
//! whether it does: a pod that was refused is tried again only then.

mod balanced_allocation;
mod image_locality;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod scheduling_gates;
mod taint_toleration;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use std::borrow::Cow;

use rkube_machinery::Text;
use smallvec::SmallVec;

use crate::snapshot::{Node, Snapshot};
use crate::view::{self, Attachment, Capacity, Claim, CsiDriver, CsiNode, Pending, Pod, StorageClass, Volume};

/// In upstream's order: a node is refused by the first that does not want it, and the message says so.
pub static PLUGINS: &[&dyn Plugin] = &[
    &scheduling_gates::SchedulingGates,
    &node_unschedulable::NodeUnschedulable,
    &node_name::NodeName,
    &taint_toleration::TaintToleration,
    &node_affinity::NodeAffinity,
    &node_ports::NodePorts,
    &node_resources_fit::NodeResourcesFit,
    &volume_restrictions::VolumeRestrictions,
    &node_volume_limits::NodeVolumeLimits,
    &volume_binding::VolumeBinding,
    &volume_zone::VolumeZone,
    &balanced_allocation::BalancedAllocation,
    &image_locality::ImageLocality,
];

/// The best score that a plugin gives before its weight.
pub const SCORE_MAX: i64 = 100;

pub trait Plugin: Sync {
    /// As in upstream's configuration.
    fn name(&self) -> &'static str;

    /// Whether the pod is not even to be tried.
    fn holds_back(&self, _: &Pending) -> bool {
        false
    }

    /// What is asked of nodes that a pod is to go to.
    fn filter<'a>(&self, _: &Cycle<'a>) -> Filtering<'a> {
        Filtering::Skip
    }

    fn weight(&self) -> i64 {
        1
    }

    /// How nodes are compared; None if that makes no difference.
    fn score<'a>(&self, _: &Cycle<'a>) -> Option<Box<dyn Score + 'a>> {
        None
    }

    /// What could make it accept a pod that it refused.
    fn interest(&self) -> Kinds {
        Kinds::NONE
    }

    /// Whether an event of interest could help this pod.
    fn is_helped(&self, _: &Pod, _: &ClusterEvent<'_>) -> bool {
        true
    }
}

/// One pod, looking for a node.
#[derive(Clone, Copy)]
pub struct Cycle<'a> {
    pub pod: &'a Pod,
    pub pending: &'a Pending,
    pub snapshot: &'a Snapshot,
}

pub enum Filtering<'a> {
    /// The plugin does not mind.
    Skip,
    Each(Box<dyn Filter + 'a>),
    /// Only nodes of these names need to be asked.
    Only(Vec<Text>, Box<dyn Filter + 'a>),
    /// No node will do, and why.
    Nowhere(Cow<'static, str>),
}

pub trait Filter {
    /// Whether the pod may go to this node; if not, why.
    fn check(&self, node: &Node, reasons: &mut Reasons) -> Verdict;
}

/// The filters of a cycle, each with its plugin's place.
pub type Filters<'a> = Vec<(usize, Box<dyn Filter + 'a>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fits,
    /// Not now: it would do if other pods went.
    Unschedulable,
    /// Whatever pods go.
    Unresolvable,
}

pub type Reasons = SmallVec<[Reason; 4]>;

/// Why a node will not do, as counted in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Text(&'static str),
    Insufficient(Text),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Text(text) => formatter.write_str(text),
            Reason::Insufficient(resource) => write!(formatter, "Insufficient {resource}"),
        }
    }
}

pub trait Score {
    fn score(&self, node: &Node) -> i64;

    fn scale(&self) -> Scale {
        Scale::AsIs
    }
}

/// How scores become comparable with those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// They are between 0 and [`SCORE_MAX`] already.
    AsIs,
    /// The highest becomes [`SCORE_MAX`].
    ByHighest,
    /// The highest becomes 0, and 0 [`SCORE_MAX`].
    Reversed,
}

/// Plugins by their places in [`PLUGINS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PluginSet(u32);

impl PluginSet {
    pub const NONE: PluginSet = PluginSet(0);
    /// No plugin, but that there are no nodes at all.
    pub const NO_NODES: PluginSet = PluginSet(1 << 31);

    pub fn insert(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    pub fn contains(self, place: usize) -> bool {
        self.0 & 1 << place != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of them that an event could help.
    pub fn iter(self) -> impl Iterator<Item = &'static dyn Plugin> {
        PLUGINS.iter().enumerate().filter(move |(place, _)| self.contains(*place)).map(|(_, plugin)| *plugin)
    }

    /// What could help a pod that these refused.
    pub fn interest(self) -> Kinds {
        let none = if self.0 & PluginSet::NO_NODES.0 == 0 { Kinds::NONE } else { Kinds::NODE_ADDED };
        self.iter().fold(none, |all, plugin| all.or(plugin.interest()))
    }

    /// Whether an event could help a pod that these refused.
    pub fn is_helped(self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        let kinds = event.kinds();
        if self.0 & PluginSet::NO_NODES.0 != 0 && kinds.intersects(Kinds::NODE_ADDED) {
            return true;
        }
        self.iter().any(|plugin| kinds.intersects(plugin.interest()) && plugin.is_helped(pod, event))
    }
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    pub const NONE: Kinds = Kinds(0);
    pub const NODE_ADDED: Kinds = Kinds(1);
    pub const NODE_ALLOCATABLE: Kinds = Kinds(1 << 1);
    pub const NODE_LABELS: Kinds = Kinds(1 << 2);
    /// Also that a node has become schedulable.
    pub const NODE_TAINTS: Kinds = Kinds(1 << 3);
    /// A pod that was on a node, or was to be, is gone.
    pub const POD_REMOVED: Kinds = Kinds(1 << 4);
    pub const POD_SCALED_DOWN: Kinds = Kinds(1 << 5);
    pub const POD_TOLERATIONS: Kinds = Kinds(1 << 6);
    pub const POD_GATES: Kinds = Kinds(1 << 7);
    pub const CLAIM_ADDED: Kinds = Kinds(1 << 8);
    pub const CLAIM_UPDATED: Kinds = Kinds(1 << 9);
    pub const VOLUME: Kinds = Kinds(1 << 10);
    pub const CLASS: Kinds = Kinds(1 << 11);
    pub const CSI_NODE: Kinds = Kinds(1 << 12);
    pub const CSI_DRIVER: Kinds = Kinds(1 << 13);
    pub const CAPACITY: Kinds = Kinds(1 << 14);
    pub const ATTACHMENT_REMOVED: Kinds = Kinds(1 << 15);

    #[must_use]
    pub const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    pub const fn intersects(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }
}

/// What happened in the cluster.
#[derive(Clone, Copy)]
pub enum ClusterEvent<'a> {
    NodeAdded(&'a view::Node),
    NodeUpdated {
        old: &'a view::Node,
        new: &'a view::Node,
    },
    /// A pod that is on a node.
    PodUpdated {
        old: &'a Pod,
        new: &'a Pod,
    },
    PodRemoved(&'a Pod),
    /// The pod itself that waits.
    WaitingPodUpdated {
        old: &'a Pod,
        new: &'a Pod,
    },
    /// One that has come, or is another than before.
    Claim {
        old: Option<&'a Claim>,
        new: &'a Claim,
    },
    Volume {
        old: Option<&'a Volume>,
        new: &'a Volume,
    },
    Class {
        old: Option<&'a StorageClass>,
        new: &'a StorageClass,
    },
    CsiNode {
        old: Option<&'a CsiNode>,
        new: &'a CsiNode,
    },
    CsiDriver {
        old: Option<&'a CsiDriver>,
        new: &'a CsiDriver,
    },
    Capacity {
        old: Option<&'a Capacity>,
        new: &'a Capacity,
    },
    AttachmentRemoved(&'a Attachment),
}

impl ClusterEvent<'_> {
    pub fn kinds(&self) -> Kinds {
        let mut kinds = Kinds::NONE;
        let mut on = |condition: bool, kind: Kinds| kinds = if condition { kinds.or(kind) } else { kinds };
        match self {
            ClusterEvent::NodeAdded(_) => on(true, Kinds::NODE_ADDED),
            ClusterEvent::PodRemoved(_) => on(true, Kinds::POD_REMOVED),
            ClusterEvent::NodeUpdated { old, new } => {
                on(old.allocatable != new.allocatable, Kinds::NODE_ALLOCATABLE);
                on(old.labels != new.labels, Kinds::NODE_LABELS);
                on(old.taints != new.taints, Kinds::NODE_TAINTS);
                on(old.is_unschedulable && !new.is_unschedulable, Kinds::NODE_TAINTS);
            }
            ClusterEvent::PodUpdated { old, new } => on(is_scaled_down(old, new), Kinds::POD_SCALED_DOWN),
            ClusterEvent::WaitingPodUpdated { old, new } => {
                on(is_scaled_down(old, new), Kinds::POD_SCALED_DOWN);
                if let (Some(old), Some(new)) = (&old.pending, &new.pending) {
                    on(old.tolerations.len() != new.tolerations.len(), Kinds::POD_TOLERATIONS);
                    on(old.gates != 0 && new.gates == 0, Kinds::POD_GATES);
                }
            }
            ClusterEvent::Claim { old: None, .. } => on(true, Kinds::CLAIM_ADDED),
            ClusterEvent::Claim { old: Some(_), .. } => on(true, Kinds::CLAIM_UPDATED),
            ClusterEvent::Volume { .. } => on(true, Kinds::VOLUME),
            ClusterEvent::Class { .. } => on(true, Kinds::CLASS),
            ClusterEvent::CsiNode { .. } => on(true, Kinds::CSI_NODE),
            ClusterEvent::CsiDriver { .. } => on(true, Kinds::CSI_DRIVER),
            ClusterEvent::Capacity { .. } => on(true, Kinds::CAPACITY),
            ClusterEvent::AttachmentRemoved(_) => on(true, Kinds::ATTACHMENT_REMOVED),
        }
        kinds
    }
}

/// Whether the pod uses this claim.
fn is_claim_of(pod: &Pod, claim: &Claim) -> bool {
    pod.namespace == claim.namespace && pod.volumes.as_ref().is_some_and(|volumes| volumes.claims(&claim.name))
}

/// Whether a pod takes less of something than before.
fn is_scaled_down(old: &Pod, new: &Pod) -> bool {
    let (old, new) = (&old.requests, &new.requests);
    let fixed = [(old.cpu_milli, new.cpu_milli), (old.memory, new.memory), (old.ephemeral, new.ephemeral)];
    let fewer = |(name, amount): &(Text, i64)| {
        new.scalars.iter().find(|(known, _)| known == name).map_or(0, |(_, amount)| *amount) < *amount
    };
    fixed.iter().any(|(old, new)| old.unwrap_or(0) > new.unwrap_or(0)) || old.scalars.iter().any(fewer)
}
