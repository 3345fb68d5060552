//! An eviction leaves as many healthy pods as the budget wants. What others delete, and what nodes lose, is no eviction.

use std::collections::HashMap;

use super::lately::{Lately, is_recent};
use super::view::{Budget, Pod};

#[derive(Default)]
pub(super) struct Budgets {
    /// By namespace and then by key.
    all: HashMap<String, HashMap<String, Known>>,
}

struct Known {
    budget: Budget,
    /// The opposite of how many are to be healthy: so the least of late is known.
    desired: Lately,
    /// When pods ceased to be healthy without having been evicted.
    lost_micros: Vec<u64>,
}

impl Budgets {
    pub fn budget(&mut self, key: &str, budget: Option<Budget>, at_micros: u64) {
        let here = self.all.entry(namespace(key).to_owned()).or_default();
        let Some(budget) = budget else {
            here.remove(key);
            return;
        };
        let desired = -budget.status.desired_healthy;
        let known = here.entry(key.to_owned()).or_insert_with(|| {
            let desired = Lately::starting(desired);
            Known { budget: Budget::default(), desired, lost_micros: Vec::new() }
        });
        known.desired.set(desired, at_micros);
        known.budget = budget;
    }

    /// `pods` are all, without this one.
    pub fn pod(
        &mut self,
        key: &str,
        (old, new): (Option<&Pod>, Option<&Pod>),
        pods: &HashMap<String, Pod>,
        at_micros: u64,
    ) -> Option<String> {
        let old = old.filter(|pod| pod.is_healthy())?;
        if new.is_some_and(|new| new.is_healthy() && new.metadata.uid == old.metadata.uid) {
            return None;
        }
        let evicted = old.is_evicted() || new.is_some_and(Pod::is_evicted);
        let namespace = namespace(key);
        let prefix = format!("/registry/pods/{namespace}/");
        for known in self.all.get_mut(namespace)?.values_mut().filter(|known| known.budget.covers(old)) {
            known.lost_micros.retain(|then| is_recent(*then, at_micros));
            if !evicted {
                known.lost_micros.push(at_micros);
                continue;
            }
            let here = pods.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(_, pod)| pod);
            let healthy = here.filter(|pod| pod.is_healthy() && known.budget.covers(pod)).count();
            let (desired, lost) = (-known.desired.max(at_micros), known.lost_micros.len());
            if i64::try_from(healthy + lost).unwrap_or(i64::MAX) < desired {
                return Some(format!(
                    "is evicted: {healthy} healthy pods are left, {lost} were lost, {desired} wanted"
                ));
            }
        }
        None
    }
}

fn namespace(key: &str) -> &str {
    key.split('/').nth(3).unwrap_or_default()
}
