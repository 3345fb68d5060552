//! A node in the snapshot: what it has and what pods take of it, in whole numbers. What every cycle looks at lies
//! together; the rest is behind a pointer.

use std::sync::Arc;

use rkube_machinery::Text;
use smallvec::SmallVec;

use super::symbols::{Symbol, Symbols};
use crate::view::{self, Effect, HostPort, Pod};

/// How much there is, and how much of it is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub allocatable: i64,
    pub requested: i64,
}

impl Amount {
    pub fn free(&self) -> i64 {
        self.allocatable.wrapping_sub(self.requested)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Node {
    pub cpu_milli: Amount,
    pub memory: Amount,
    pub ephemeral: Amount,
    pub nominal_cpu_milli: i64,
    pub nominal_memory: i64,
    pub pods_max: i64,
    pub pod_count: i64,
    pub is_unschedulable: bool,
    /// Whether it has taints that keep pods away.
    pub has_hard_taints: bool,
    pub has_soft_taints: bool,
    /// Whether there is such a node; of one that is not there yet, or no more, there may be pods.
    pub is_present: bool,
    pub details: Box<Details>,
}

#[derive(Clone, Debug, Default)]
pub struct Details {
    pub name: Text,
    /// Region and zone, by which nodes take turns.
    pub zone: Text,
    /// By key.
    pub labels: Vec<(Symbol, Symbol)>,
    pub taints: SmallVec<[Taint; 2]>,
    pub scalars: SmallVec<[(Text, Amount); 2]>,
    /// In order.
    pub images: Vec<Symbol>,
    pub ports: Vec<HostPort>,
    pub pods: Vec<Arc<Pod>>,
    /// How many pods of which priority there are; mostly there is one.
    pub priorities: SmallVec<[(i32, u32); 2]>,
}

#[derive(Clone, Copy, Debug)]
pub struct Taint {
    pub key: Symbol,
    pub value: Symbol,
    pub effect: Effect,
}

impl Node {
    pub fn scalar(&self, name: &str) -> Amount {
        self.details.scalars.iter().find(|(known, _)| known == name).map_or_else(Amount::default, |(_, amount)| *amount)
    }

    pub fn label(&self, key: Symbol) -> Option<Symbol> {
        let labels = &self.details.labels;
        labels.binary_search_by_key(&key, |(known, _)| *known).ok().map(|place| labels[place].1)
    }

    /// Whether there are pods of lower priority.
    pub fn has_below(&self, priority: i32) -> bool {
        self.details.priorities.iter().any(|(known, _)| *known < priority)
    }

    pub(super) fn add_pod(&mut self, pod: Arc<Pod>) {
        self.count(&pod, 1);
        self.details.ports.extend(pod.ports.iter().cloned());
        match self.details.priorities.iter_mut().find(|(known, _)| *known == pod.priority) {
            Some((_, count)) => *count += 1,
            None => self.details.priorities.push((pod.priority, 1)),
        }
        self.details.pods.push(pod);
    }

    pub(crate) fn remove_pod(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let place = self.details.pods.iter().position(|pod| pod.uid == uid)?;
        let pod = self.details.pods.swap_remove(place);
        self.count(&pod, -1);
        for port in &pod.ports {
            if let Some(place) = self.details.ports.iter().position(|known| known == port) {
                self.details.ports.swap_remove(place);
            }
        }
        if let Some(place) = self.details.priorities.iter().position(|(known, _)| *known == pod.priority) {
            self.details.priorities[place].1 -= 1;
            if self.details.priorities[place].1 == 0 {
                self.details.priorities.swap_remove(place);
            }
        }
        Some(pod)
    }

    /// Sums wrap: those that overflow come back to what they were when their pods go.
    fn count(&mut self, pod: &Pod, sign: i64) {
        let add = |sum: &mut i64, amount: i64| *sum = sum.wrapping_add(sign * amount);
        let requests = &pod.requests;
        add(&mut self.pod_count, 1);
        add(&mut self.cpu_milli.requested, requests.cpu_milli.unwrap_or(0));
        add(&mut self.memory.requested, requests.memory.unwrap_or(0));
        add(&mut self.ephemeral.requested, requests.ephemeral.unwrap_or(0));
        add(&mut self.nominal_cpu_milli, pod.nominal_cpu_milli);
        add(&mut self.nominal_memory, pod.nominal_memory);
        for (name, amount) in &requests.scalars {
            add(&mut self.scalar_mut(name).requested, *amount);
        }
        self.details.scalars.retain(|(_, amount)| *amount != Amount::default());
    }

    fn scalar_mut(&mut self, name: &Text) -> &mut Amount {
        let scalars = &mut self.details.scalars;
        let place = scalars.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            scalars.push((name.clone(), Amount::default()));
            scalars.len() - 1
        });
        &mut scalars[place].1
    }

    /// Takes over what the object says; what pods take stays.
    pub(super) fn describe(&mut self, view: &view::Node, symbols: &mut Symbols) {
        let allocatable = &view.allocatable;
        self.is_present = true;
        self.is_unschedulable = view.is_unschedulable;
        self.cpu_milli.allocatable = allocatable.cpu_milli.unwrap_or(0);
        self.memory.allocatable = allocatable.memory.unwrap_or(0);
        self.ephemeral.allocatable = allocatable.ephemeral.unwrap_or(0);
        self.pods_max = allocatable.pods.unwrap_or(0);
        self.has_soft_taints = view.taints.iter().any(|taint| taint.effect == Effect::PreferNoSchedule);
        self.has_hard_taints = view.taints.iter().any(|taint| taint.effect != Effect::PreferNoSchedule);
        self.details.scalars.iter_mut().for_each(|(_, amount)| amount.allocatable = 0);
        for (name, amount) in &allocatable.scalars {
            self.scalar_mut(name).allocatable = *amount;
        }
        let details = &mut *self.details;
        details.scalars.retain(|(_, amount)| *amount != Amount::default());
        details.zone = zone(view);
        let labels = view.labels.iter().map(|(key, value)| (symbols.acquire(key), symbols.acquire(value)));
        details.labels = labels.collect();
        details.labels.sort_unstable();
        let taints = view.taints.iter().map(|taint| Taint {
            key: symbols.acquire(&taint.key),
            value: symbols.acquire(&taint.value),
            effect: taint.effect,
        });
        details.taints = taints.collect();
        let names = view.images.iter().flat_map(|image| &image.names);
        details.images = names.map(|name| symbols.acquire(name)).collect();
        details.images.sort_unstable();
    }

    /// The node is gone; pods that are said to be on it stay.
    pub(super) fn forget(&mut self, symbols: &mut Symbols) {
        self.is_present = false;
        self.is_unschedulable = false;
        self.has_hard_taints = false;
        self.has_soft_taints = false;
        let details = &mut *self.details;
        for (key, value) in details.labels.drain(..) {
            symbols.release(key);
            symbols.release(value);
        }
        for taint in details.taints.drain(..) {
            symbols.release(taint.key);
            symbols.release(taint.value);
        }
        details.images.drain(..).for_each(|image| symbols.release(image));
    }
}

fn zone(view: &view::Node) -> Text {
    let part = |stable: &str, beta: &str| view.label(stable).or_else(|| view.label(beta)).map_or("", Text::as_str);
    let region = part("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region");
    let zone = part("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone");
    if region.is_empty() && zone.is_empty() { Text::default() } else { Text::from(format!("{region}:\0:{zone}")) }
}
