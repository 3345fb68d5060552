//! What is remembered for hints by the size of zones: the sizes, and how many endpoints of each service a zone has.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_operator::{Informer, Key};
use tokio::sync::Notify;

use crate::endpointslice::zones::{Counts, Shares};
use crate::nodes::Node;
use crate::services::Family;

/// An event: whether it is a warning, its reason and its message.
#[derive(Debug, PartialEq, Eq)]
pub struct Told {
    pub warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Default)]
pub struct Topology {
    /// That nodes came, went, or became other than they were.
    pub changed: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shares: Option<Arc<Shares>>,
    /// Of services that have hints.
    services: BTreeMap<Key, Hinted>,
}

#[derive(Default)]
struct Hinted {
    counts: BTreeMap<Family, Counts>,
    /// Whether that was told, and still holds for all families.
    told: bool,
}

impl Topology {
    pub fn shares(&self) -> Option<Arc<Shares>> {
        self.state.lock().shares.clone()
    }

    /// Looks at all nodes. The services that need other hints now.
    pub fn look(&self, nodes: &Informer<Node>) -> Vec<Key> {
        let shares = Shares::of(&nodes.all()).map(Arc::new);
        let state = &mut *self.state.lock();
        state.shares = shares;
        let is_overloaded =
            |counts: &Counts| !counts.is_empty() && state.shares.as_ref().is_none_or(|shares| shares.overload(counts));
        let overloaded = state.services.iter().filter(|(_, hinted)| hinted.counts.values().any(is_overloaded));
        overloaded.map(|(key, _)| key.clone()).collect()
    }

    /// Remembers the hints that a service has now, or why it has none. What is told of it.
    pub fn remember(&self, key: &Key, family: Family, given: Result<Counts, String>) -> Option<Told> {
        match given {
            Ok(counts) => {
                let mut state = self.state.lock();
                let hinted = state.services.entry(key.clone()).or_default();
                hinted.counts.insert(family, counts);
                let is_news = !std::mem::replace(&mut hinted.told, true);
                is_news.then(|| told(false, "Topology Aware Hints has been enabled", family))
            }
            Err(why) => {
                self.remove(key, family);
                Some(told(true, &why, family))
            }
        }
    }

    /// The service wants no hints of this kind, or none of this family. What is told of it.
    pub fn forget_family(&self, key: &Key, family: Family) -> Option<Told> {
        self.remove(key, family).then(|| told(true, "Topology Aware Hints has been disabled", family))
    }

    /// The service is gone.
    pub fn forget(&self, key: &Key) {
        self.state.lock().services.remove(key);
    }

    /// Whether it was told that the service has hints.
    fn remove(&self, key: &Key, family: Family) -> bool {
        let mut state = self.state.lock();
        let Some(hinted) = state.services.get_mut(key) else { return false };
        let was_told = std::mem::take(&mut hinted.told);
        hinted.counts.remove(&family);
        if hinted.counts.is_empty() {
            state.services.remove(key);
        }
        was_told
    }
}

fn told(warning: bool, message: &str, family: Family) -> Told {
    let reason = if warning { "TopologyAwareHintsDisabled" } else { "TopologyAwareHintsEnabled" };
    Told { warning, reason, message: format!("{message}, addressType: {}", family.name()) }
}

/// Whether zones have other shares of what nodes have.
pub fn is_concerned(old: Option<&Arc<Node>>, new: Option<&Arc<Node>>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.ready != new.ready || old.zone != new.zone,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_told_of_when_they_come_and_go() {
        let topology = Topology::default();
        let key = Key { namespace: "n".into(), name: "s".into() };
        let counts = || Ok(Counts::from([("z".into(), 1)]));
        let text = |told: Option<Told>| told.map(|told| format!("{} {}", told.reason, told.message));
        let enabled = "TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4";
        let disabled = "TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4";
        let why = "TopologyAwareHintsDisabled too few, addressType: IPv4";
        assert_eq!(text(topology.forget_family(&key, Family::V4)), None);
        assert_eq!(text(topology.remember(&key, Family::V4, counts())).as_deref(), Some(enabled));
        assert_eq!(text(topology.remember(&key, Family::V4, counts())), None, "once is enough");
        assert_eq!(text(topology.forget_family(&key, Family::V4)).as_deref(), Some(disabled));
        assert_eq!(text(topology.forget_family(&key, Family::V4)), None);
        for _ in 0..2 {
            assert_eq!(text(topology.remember(&key, Family::V4, Err("too few".into()))).as_deref(), Some(why));
        }
        assert_eq!(text(topology.remember(&key, Family::V4, counts())).as_deref(), Some(enabled));
        topology.forget(&key);
        assert_eq!(text(topology.forget_family(&key, Family::V4)), None);
    }
}
