//! A DaemonSet has one pod on a node, and while it is updated one more on no more nodes than it may surge to. Its controller
//! takes no pod away that works, unless so many nodes may do without.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Change;
use super::lately::{Lately, Moments, is_recent};
use super::view::{DaemonSet, Node, Pod};

const CONTROLLER: &str = ":daemon-set-controller";

#[derive(Default)]
pub(super) struct DaemonSets {
    /// By uid.
    sets: HashMap<String, Known>,
    uids: HashMap<String, String>,
    /// Those that every set is to be on. One with a taint may be none that it is to be on.
    nodes: HashSet<String>,
    /// The opposite of how many there are, so that the least of late is known.
    count: Lately,
}

struct Known {
    set: DaemonSet,
    surge: Lately,
    unavailable: Lately,
    /// The opposite of the number of nodes that its controller wants it on.
    desired: Lately,
    /// By key.
    pods: BTreeMap<String, Member>,
    /// When nodes lost a pod that worked, by somebody else's doing: the controller may not have heard of it yet.
    lost_micros: HashMap<String, u64>,
    /// When pods were made without the controller being told: each may have been made again.
    unacknowledged: Moments,
}

struct Member {
    node: String,
    revision: String,
    is_active: bool,
    is_healthy: bool,
    /// When it began or ceased to be healthy.
    turned_micros: u64,
}

impl Member {
    /// Who hears of everything late may think that it is healthy.
    fn may_seem_healthy(&self, at_micros: u64) -> bool {
        self.is_healthy || self.turned_micros > 0 && is_recent(self.turned_micros, at_micros)
    }

    /// Even who hears of everything late knows that it is healthy.
    fn is_known_healthy(&self, at_micros: u64) -> bool {
        self.is_healthy && !is_recent(self.turned_micros, at_micros)
    }
}

impl Known {
    fn new(set: DaemonSet, nodes: i64) -> Known {
        Known {
            surge: Lately::starting(set.spec.surge(nodes)),
            unavailable: Lately::starting(set.spec.unavailable(nodes)),
            desired: Lately::starting(-set.status.desired_number_scheduled),
            set,
            pods: BTreeMap::new(),
            lost_micros: HashMap::new(),
            unacknowledged: Moments::default(),
        }
    }

    fn set_bounds(&mut self, nodes: i64, at_micros: u64) {
        self.surge.set(self.set.spec.surge(nodes), at_micros);
        self.unavailable.set(self.set.spec.unavailable(nodes), at_micros);
        self.desired.set(-self.set.status.desired_number_scheduled, at_micros);
    }
}

impl DaemonSets {
    pub fn node(&mut self, key: &str, node: Option<&Node>, at_micros: u64) {
        let counts = node.is_some_and(|node| node.spec.taints.is_empty());
        let changed = if counts { self.nodes.insert(key.to_owned()) } else { self.nodes.remove(key) };
        if changed {
            let nodes = self.node_count();
            self.count.set(-nodes, at_micros);
            self.sets.values_mut().for_each(|known| known.set_bounds(nodes, at_micros));
        }
    }

    fn node_count(&self) -> i64 {
        i64::try_from(self.nodes.len()).unwrap_or(i64::MAX)
    }

    pub fn set(&mut self, key: &str, set: Option<DaemonSet>, at_micros: u64) {
        let Some(set) = set else {
            if let Some(uid) = self.uids.remove(key) {
                self.sets.remove(&uid);
            }
            return;
        };
        let (uid, nodes) = (set.metadata.uid.clone(), self.node_count());
        self.uids.insert(key.to_owned(), uid.clone());
        match self.sets.get_mut(&uid) {
            Some(known) => {
                known.set = set;
                known.set_bounds(nodes, at_micros);
            }
            None => drop(self.sets.insert(uid, Known::new(set, nodes))),
        }
    }

    pub fn pod(&mut self, change: &Change<'_>) -> Option<String> {
        let known = self.sets.get_mut(change.controller("DaemonSet")?)?;
        let at_micros = change.at_micros;
        let found = match change.created() {
            Some(pod) => known.too_many(change.key, pod, at_micros),
            None if change.ends() && change.is_by(CONTROLLER) => {
                let wanted = (-known.desired.max(at_micros)).min(-self.count.max(at_micros));
                known.too_few(change.key, wanted, at_micros)
            }
            None => None,
        };
        let known = self.sets.get_mut(change.controller("DaemonSet")?)?;
        if change.created().is_some() && change.is_unacknowledged() {
            known.unacknowledged.add(at_micros);
        }
        known.note(change);
        found
    }
}

impl Known {
    fn note(&mut self, change: &Change<'_>) {
        let before = self.pods.remove(change.key);
        let is_healthy = change.new.is_some_and(Pod::is_healthy);
        if let Some(before) = before.as_ref().filter(|before| before.is_healthy && !is_healthy) {
            // The controller knows what it has done itself.
            if change.is_by(CONTROLLER) {
                self.lost_micros.remove(&before.node);
            } else {
                self.lost_micros.insert(before.node.clone(), change.at_micros);
            }
        }
        let Some(pod) = change.new else { return };
        let before = before.filter(|_| change.created().is_none());
        let turned_micros = match before {
            Some(before) if before.is_healthy == is_healthy => before.turned_micros,
            Some(_) => change.at_micros,
            None => 0,
        };
        let (node, revision) = (pod.target().to_owned(), pod.metadata.revision().to_owned());
        let member = Member { node, revision, is_active: pod.is_active(), is_healthy, turned_micros };
        self.pods.insert(change.key.to_owned(), member);
    }

    /// Whether there are more pods with this one than there may be.
    fn too_many(&mut self, key: &str, pod: &Pod, at_micros: u64) -> Option<String> {
        if self.unacknowledged.count(at_micros) > 0 {
            return None;
        }
        let (node, revision) = (pod.target(), pod.metadata.revision());
        let beside = || self.pods.iter().filter(|(known, it)| *known != key && it.is_active && it.node == node);
        let surge = self.surge.max(at_micros);
        if let Some((other, _)) = beside().find(|(_, it)| surge == 0 || it.revision == revision) {
            return Some(format!("is made for {node}, and {other} is there"));
        }
        // A pod that does not work is replaced at once, and who has a new one that works is not surged to.
        let is_surged = |old: &Member| {
            old.is_known_healthy(at_micros)
                && self.pods.values().any(|new| {
                    new.is_active
                        && new.node == old.node
                        && new.revision != old.revision
                        && !new.may_seem_healthy(at_micros)
                })
        };
        let is_here = beside().any(|(_, it)| it.is_known_healthy(at_micros));
        let others = self.pods.values().filter(|it| it.node != node && is_surged(it)).count();
        let surged = i64::try_from(others).unwrap_or(i64::MAX).saturating_add(i64::from(is_here));
        (is_here && surged > surge).then(|| format!("is the {surged}. pod beside an old one, and {surge} are allowed"))
    }

    /// Whether the controller takes a pod away that is missed.
    fn too_few(&self, key: &str, wanted: i64, at_micros: u64) -> Option<String> {
        let taken = self.pods.get(key).filter(|it| it.is_known_healthy(at_micros))?;
        let others = self.pods.iter().filter(|(known, it)| *known != key && it.is_healthy);
        let lost = self.lost_micros.iter().filter(|(node, then)| **node != taken.node && is_recent(**then, at_micros));
        let served = others.map(|(_, it)| &it.node).chain(lost.map(|(node, _)| node)).collect::<HashSet<_>>();
        let (left, unavailable) = (i64::try_from(served.len()).unwrap_or(i64::MAX), self.unavailable.max(at_micros));
        (left < wanted - unavailable)
            .then(|| format!("is taken away: {left} nodes of {wanted} are left, and {unavailable} may do without"))
    }
}
