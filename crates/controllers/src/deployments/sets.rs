//! The ReplicaSets of a Deployment, sorted.

use std::sync::Arc;

use rkube_machinery::Text;

use crate::deployments::view::Deployment;
use crate::replica_sets::ReplicaSet;

pub type Set = Arc<ReplicaSet>;

/// The sets of a Deployment.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// The one with the Deployment's template.
    pub new: Option<Set>,
    /// All others, the oldest first.
    pub old: Vec<Set>,
}

impl Sets {
    /// Of several with the Deployment's template the oldest is the new one.
    pub fn sort(deployment: &Deployment, mut all: Vec<Set>) -> Sets {
        all.sort_by(|one, other| by_age(one).cmp(&by_age(other)));
        let is_new = |set: &Set| set.template.fingerprint == deployment.template.fingerprint;
        let new = all.iter().position(is_new).map(|place| all.remove(place));
        Sets { new, old: all }
    }

    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    /// Those that are to have pods.
    pub fn active(&self) -> impl Iterator<Item = &Set> {
        self.all().filter(|set| set.replicas > 0)
    }

    /// How many pods they are to have.
    pub fn wanted(&self) -> i64 {
        self.all().map(|set| set.replicas).sum()
    }
}

/// The oldest first.
pub fn by_age(set: &Set) -> (Option<i64>, &Text) {
    (set.created, &set.item.name)
}
