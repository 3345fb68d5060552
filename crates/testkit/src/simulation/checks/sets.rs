//! No set has more pods than were asked for of late, and no Deployment more than that and its surge. No Deployment takes
//! pods away that it cannot do without.

use std::collections::HashMap;

use super::Change;
use super::lately::{Lately, Moments, is_recent};
use super::view::{Pod, Set};
use crate::Writer;

const CONTROLLER: &str = ":deployment-controller";

#[derive(Default)]
pub(super) struct Sets {
    /// Of ReplicaSets and ReplicationControllers, by uid.
    asked: HashMap<String, Lately>,
    active: HashMap<String, i64>,
    /// When pods of a ReplicaSet were made without its controller being told: each may have been made again.
    unacknowledged: HashMap<String, Moments>,
    /// How many pods of a ReplicaSet are ready.
    ready: HashMap<String, Lately>,
    /// Of Deployments, by uid.
    deployments: HashMap<String, Deployment>,
    /// What the ReplicaSets of a Deployment ask for.
    total: HashMap<String, i64>,
    replica_sets: HashMap<String, Set>,
}

struct Deployment {
    replicas: i64,
    /// When that was last another number: then more than availability counts.
    scaled_micros: Option<u64>,
    /// The number of pods that there may be.
    allowed: Lately,
    /// The opposite of how many are to be available at least, so that the least of late is known; None: none.
    wanted: Option<Lately>,
}

impl Sets {
    pub fn pod(&mut self, change: &Change<'_>) -> Option<String> {
        let at_micros = change.at_micros;
        let of = |pod: &Pod| set(pod).filter(|_| pod.is_active()).map(str::to_owned);
        self.count_ready(change.old, -1, at_micros);
        self.count_ready(change.new, 1, at_micros);
        let (was, is) = (change.old.and_then(of), change.new.and_then(of));
        if was == is {
            return None;
        }
        if let Some(was) = was {
            *self.active.entry(was).or_default() -= 1;
        }
        let uid = is?;
        let active = self.active.entry(uid.clone()).or_default();
        *active += 1;
        let asked = self.asked.get(&uid)?.max(at_micros);
        let twice = self.unacknowledged.get_mut(&uid).map_or(0, |moments| moments.count(at_micros));
        // All that nobody has and that fit are taken in, and then some go.
        change.created()?;
        if change.is_unacknowledged() {
            self.unacknowledged.entry(uid).or_default().add(at_micros);
        }
        (*active > asked + twice).then(|| format!("its set has {active} pods, and {asked} were asked for"))
    }

    fn count_ready(&mut self, pod: Option<&Pod>, change: i64, at_micros: u64) {
        if let Some(uid) = pod.filter(|pod| pod.is_healthy()).and_then(set) {
            let ready = self.ready.entry(uid.to_owned()).or_default();
            ready.set(ready.now() + change, at_micros);
        }
    }

    pub fn replica_set(
        &mut self,
        key: &str,
        set: Option<Set>,
        writer: Option<&Writer<'_>>,
        at_micros: u64,
    ) -> Option<String> {
        let old = self.replica_sets.remove(key);
        let owner = |set: &Set| set.metadata.controller("Deployment").map(str::to_owned);
        let before = old.as_ref().map_or(0, |old| old.spec.replicas);
        if let Some(old) = &old
            && let Some(owner) = owner(old)
        {
            *self.total.entry(owner).or_default() -= before;
        }
        let Some(set) = set else {
            if let Some(old) = old {
                self.asked.remove(&old.metadata.uid);
                self.active.remove(&old.metadata.uid);
                self.ready.remove(&old.metadata.uid);
                self.unacknowledged.remove(&old.metadata.uid);
            }
            return None;
        };
        let (replicas, uid) = (set.spec.replicas, set.metadata.uid.clone());
        self.asked.entry(uid.clone()).or_default().set(replicas, at_micros);
        let owner = owner(&set);
        self.replica_sets.insert(key.to_owned(), set);
        let owner = owner?;
        let total = self.total.entry(owner.clone()).or_default();
        *total += replicas;
        let allowed = self.deployments.get(&owner)?.allowed.max(at_micros);
        if replicas > before && *total > allowed {
            return Some(format!("the ReplicaSets of its Deployment ask for {total} pods, and {allowed} are allowed"));
        }
        let by_controller = writer.is_some_and(|writer| writer.user.ends_with(CONTROLLER));
        if by_controller && replicas < before { self.too_few(&owner, &uid, before, at_micros) } else { None }
    }

    /// Whether a Deployment has taken pods away from a ReplicaSet, which had so many before, that are missed.
    fn too_few(&self, owner: &str, uid: &str, before: i64, at_micros: u64) -> Option<String> {
        let deployment = self.deployments.get(owner)?;
        if deployment.scaled_micros.is_some_and(|then| is_recent(then, at_micros)) {
            return None;
        }
        let wanted = -deployment.wanted.as_ref()?.max(at_micros);
        let (mut left, mut taken) = (0, 0);
        for set in self.replica_sets.values().filter(|set| set.metadata.controller("Deployment") == Some(owner)) {
            let Some(ready) = self.ready.get(&set.metadata.uid) else { continue };
            left += ready.max(at_micros).min(set.spec.replicas);
            if set.metadata.uid == uid {
                taken = ready.now().min(before) - ready.now().min(set.spec.replicas);
            }
        }
        (taken > 0 && left < wanted).then(|| format!("loses {taken} pods: {left} are left, and {wanted} are wanted"))
    }

    pub fn deployment(&mut self, set: Option<Set>, at_micros: u64) {
        let Some(Set { metadata, spec }) = set else { return };
        let (allowed, wanted) = (spec.replicas + spec.surge(), spec.unavailable().map(|most| most - spec.replicas));
        let known = self.deployments.entry(metadata.uid).or_insert_with(|| Deployment {
            replicas: spec.replicas,
            scaled_micros: None,
            allowed: Lately::starting(allowed),
            wanted: wanted.map(Lately::starting),
        });
        if known.replicas != spec.replicas {
            known.replicas = spec.replicas;
            known.scaled_micros = Some(at_micros);
        }
        known.allowed.set(allowed, at_micros);
        match (&mut known.wanted, wanted) {
            (Some(known), Some(wanted)) => known.set(wanted, at_micros),
            (known, wanted) => *known = wanted.map(Lately::starting),
        }
    }
}

/// The uid of the set that has a pod.
fn set(pod: &Pod) -> Option<&str> {
    let metadata = &pod.metadata;
    metadata.controller("ReplicaSet").or_else(|| metadata.controller("ReplicationController"))
}
