//! What the pods of a node take, kept as sums: a pod that comes costs no look at the others.

use std::collections::HashMap;

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Map, Text, Value};

use super::ports::{self, HostPort};
use super::{Rejection, amount, rejection};
use crate::resources;

/// What one pod takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    amounts: Vec<(Text, i64)>,
    ports: Vec<HostPort>,
}

impl Claim {
    pub fn of(pod: &Value) -> Claim {
        let requests = resources::of_pod(pod, "requests");
        let amounts = requests.into_iter().map(|(name, quantity)| (name.clone(), amount(&name, &quantity)));
        Claim { amounts: amounts.filter(|(_, amount)| *amount > 0).collect(), ports: ports::of_pod(pod) }
    }
}

/// What all pods of a node take, by their uids.
#[derive(Debug, Default)]
pub struct Usage {
    claims: HashMap<Text, Claim>,
    sums: HashMap<Text, i64>,
    ports: Vec<HostPort>,
}

/// The order in which upstream looks at them.
const FIRST: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

impl Usage {
    pub fn has(&self, uid: &str) -> bool {
        self.claims.contains_key(uid)
    }

    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    pub fn add(&mut self, uid: &str, claim: Claim) {
        self.remove(uid);
        for (name, amount) in &claim.amounts {
            *self.sums.entry(name.clone()).or_default() += amount;
        }
        self.ports.extend(claim.ports.iter().cloned());
        self.claims.insert(uid.into(), claim);
    }

    pub fn remove(&mut self, uid: &str) {
        let Some(claim) = self.claims.remove(uid) else { return };
        for (name, amount) in &claim.amounts {
            if let Some(sum) = self.sums.get_mut(name) {
                *sum -= amount;
            }
        }
        for port in &claim.ports {
            if let Some(place) = self.ports.iter().position(|known| known == port) {
                self.ports.swap_remove(place);
            }
        }
    }

    pub fn ports_conflict(&self, claim: &Claim) -> bool {
        claim.ports.iter().any(|port| self.ports.iter().any(|known| known.conflicts(port)))
    }

    /// The first resource of which too little is left.
    pub fn lacking(&self, claim: &Claim, allocatable: &Map) -> Option<Rejection> {
        let capacity = |name: &str| {
            let quantity = allocatable.get(name).and_then(|text| Quantity::parse(text.as_str()).ok());
            quantity.map(|quantity| amount(name, &quantity))
        };
        let pods = i64::try_from(self.claims.len()).unwrap_or(i64::MAX);
        let room = capacity("pods").unwrap_or(0);
        if pods + 1 > room {
            return Some(out_of("pods", 1, pods, room));
        }
        let mut wanted: Vec<&(Text, i64)> = claim.amounts.iter().collect();
        wanted.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
        wanted.into_iter().find_map(|(name, requested)| {
            // What a node has nothing to do with is the cluster's to count.
            let is_extended = name.contains('/') && !name.contains("kubernetes.io/");
            let capacity = match capacity(name) {
                None if is_extended => return None,
                capacity => capacity.unwrap_or(0),
            };
            let used = self.sums.get(name).copied().unwrap_or(0);
            (*requested > capacity - used).then(|| out_of(name, *requested, used, capacity))
        })
    }
}

fn out_of(resource: &str, requested: i64, used: i64, capacity: i64) -> Rejection {
    let message = format!(
        "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    );
    rejection(&format!("OutOf{resource}"), message)
}
