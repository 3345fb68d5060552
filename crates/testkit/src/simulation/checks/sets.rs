//! No set has more pods than were asked for of late, and no Deployment more than that and its surge.

use std::collections::HashMap;

use super::STALE_MAX;
use super::view::{Pod, Set};

/// A number that controllers may still think of for a while.
#[derive(Default)]
struct Lately {
    now: i64,
    /// A greater one, and until when it counts.
    before: Option<(i64, u64)>,
}

impl Lately {
    fn set(&mut self, number: i64, at_micros: u64) {
        if number < self.now {
            let stale = u64::try_from(STALE_MAX.as_micros()).unwrap_or(u64::MAX);
            self.before = Some((self.max(at_micros), at_micros + stale));
        }
        self.now = number;
    }

    fn max(&self, at_micros: u64) -> i64 {
        match self.before {
            Some((before, until)) if at_micros < until => before.max(self.now),
            _ => self.now,
        }
    }
}

#[derive(Default)]
pub(super) struct Sets {
    /// Of ReplicaSets, by uid.
    asked: HashMap<String, Lately>,
    active: HashMap<String, i64>,
    /// How many creations of pods were not acknowledged, and when: each may have been tried again.
    lost: Vec<(u64, u64)>,
    /// Of Deployments, by uid: the number of pods that there may be.
    allowed: HashMap<String, Lately>,
    /// What the ReplicaSets of a Deployment ask for.
    total: HashMap<String, i64>,
    replica_sets: HashMap<String, Set>,
}

impl Sets {
    pub fn pod(&mut self, old: Option<&Pod>, new: Option<&Pod>, at_micros: u64, lost: u64) -> Option<String> {
        let of = |pod: &Pod| pod.metadata.controller("ReplicaSet").filter(|_| pod.is_active()).map(str::to_owned);
        let (was, is) = (old.and_then(of), new.and_then(of));
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
        let twice = lost_lately(&mut self.lost, lost, at_micros);
        (*active > asked + twice).then(|| format!("its ReplicaSet has {active} pods, and {asked} were asked for"))
    }

    pub fn replica_set(&mut self, key: &str, set: Option<Set>, at_micros: u64) -> Option<String> {
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
            }
            return None;
        };
        let replicas = set.spec.replicas;
        self.asked.entry(set.metadata.uid.clone()).or_default().set(replicas, at_micros);
        let owner = owner(&set);
        self.replica_sets.insert(key.to_owned(), set);
        let owner = owner?;
        let total = self.total.entry(owner.clone()).or_default();
        *total += replicas;
        let allowed = self.allowed.get(&owner)?.max(at_micros);
        (replicas > before && *total > allowed)
            .then(|| format!("the ReplicaSets of its Deployment ask for {total} pods, and {allowed} are allowed"))
    }

    pub fn deployment(&mut self, _key: &str, set: Option<Set>, at_micros: u64) {
        if let Some(set) = set {
            let allowed = set.spec.replicas + set.spec.surge();
            self.allowed.entry(set.metadata.uid).or_default().set(allowed, at_micros);
        }
    }
}

/// How many of them there were in the time that matters.
fn lost_lately(known: &mut Vec<(u64, u64)>, lost: u64, at_micros: u64) -> i64 {
    if known.last().is_none_or(|(count, _)| *count < lost) {
        known.push((lost, at_micros));
    }
    let stale = u64::try_from(STALE_MAX.as_micros()).unwrap_or(u64::MAX);
    // One from before the time that matters stays: it is what is counted from.
    while known.len() > 1 && known[1].1 + stale < at_micros {
        known.remove(0);
    }
    let first = if known[0].1 + stale < at_micros { known[0].0 } else { 0 };
    i64::try_from(lost.saturating_sub(first)).unwrap_or(i64::MAX)
}
