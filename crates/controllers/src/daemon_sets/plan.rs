//! What to do about the pods of a DaemonSet, as pure functions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::Text;

use crate::daemon_sets::backoff::Backoffs;
use crate::daemon_sets::placement::Fit;
use crate::daemon_sets::view::{DaemonSet, Status, Strategy};
use crate::history::REVISION_HASH;
use crate::nodes::Node;
use crate::pods::{Phase, Pod};

pub const GENERATION_LABEL: &str = "pod-template-generation";

/// What is known when a DaemonSet is looked at.
pub struct Look<'a> {
    pub set: &'a DaemonSet,
    /// The hash of its template.
    pub hash: &'a str,
    pub fits: BTreeMap<Text, Fit>,
    /// By node.
    pub pods: BTreeMap<Text, Vec<Arc<Pod>>>,
    pub now_micros: i64,
}

#[derive(Debug, Default)]
pub struct Plan {
    /// Nodes that get a pod.
    pub create: Vec<Text>,
    pub delete: Vec<Arc<Pod>>,
    /// What is told of pods that have ended: whether it is a warning, the reason and the message.
    pub told: Vec<(bool, &'static str, String)>,
    /// When to look at a pod that failed again.
    pub retry: Option<Duration>,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

impl<'a> Look<'a> {
    pub fn new(set: &'a DaemonSet, hash: &'a str, nodes: &[Arc<Node>], pods: &[Arc<Pod>], now_micros: i64) -> Look<'a> {
        let fits = nodes.iter().map(|node| (node.name.clone(), set.placement.fit(node))).collect();
        let mut by_node: BTreeMap<Text, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in pods {
            if !(pod.is_terminal() && pod.deleted.is_some() || pod.target.is_empty()) {
                by_node.entry(pod.target.clone()).or_default().push(pod.clone());
            }
        }
        // Those that are scheduled first, then the oldest.
        for pods in by_node.values_mut() {
            pods.sort_by(|one, other| place(one).cmp(&place(other)));
        }
        Look { set, hash, fits, pods: by_node, now_micros }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.min_ready_seconds, self.now_micros)
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        let generation = self.set.template_generation.map(|generation| generation.to_string());
        let has_hash = !self.hash.is_empty() && pod.labels.get(REVISION_HASH) == Some(self.hash);
        has_hash || generation.is_some() && pod.labels.get(GENERATION_LABEL) == generation.as_deref()
    }

    fn fit(&self, node: &str) -> Fit {
        self.fits.get(node).copied().unwrap_or(Fit { runs: false, stays: false })
    }
}

fn place(pod: &Pod) -> (bool, Option<i64>, &Text) {
    (pod.node.is_empty(), pod.created, &pod.name)
}

/// Pods where they should be and are not, and the other way round.
pub fn manage(look: &Look<'_>, backoffs: &mut Backoffs) -> Plan {
    let mut plan = Plan::default();
    for (node, fit) in &look.fits {
        match look.pods.get(node) {
            None if fit.runs => plan.create.push(node.clone()),
            None => {}
            Some(pods) if fit.stays => manage_node(look, node, *fit, pods, backoffs, &mut plan),
            Some(pods) => plan.delete.extend(pods.iter().filter(|pod| pod.deleted.is_none()).cloned()),
        }
    }
    for (node, pods) in &look.pods {
        if !look.fits.contains_key(node) {
            plan.delete.extend(pods.iter().filter(|pod| pod.node.is_empty()).cloned());
        }
    }
    plan
}

fn manage_node(look: &Look<'_>, node: &Text, fit: Fit, pods: &[Arc<Pod>], backoffs: &mut Backoffs, plan: &mut Plan) {
    let set = look.set;
    let mut running: Vec<&Arc<Pod>> = Vec::new();
    for pod in pods.iter().filter(|pod| pod.deleted.is_none()) {
        let which = format!("{}/{} on node {node}", pod.namespace, pod.name);
        match pod.phase {
            Phase::Failed => {
                let place = (set.item.uid.clone(), set.status.observed_generation, node.clone());
                if let Some(delay) = backoffs.fail(&place, look.now_micros) {
                    plan.retry = Some(plan.retry.map_or(delay, |known| known.min(delay)));
                    continue;
                }
                let message = format!("Found failed daemon pod {which}, will try to kill it");
                plan.told.push((true, "FailedDaemonPod", message));
                plan.delete.push(pod.clone());
            }
            Phase::Succeeded => {
                let message = format!("Found succeeded daemon pod {which}, will try to delete it");
                plan.told.push((false, "SucceededDaemonPod", message));
                plan.delete.push(pod.clone());
            }
            _ => running.push(pod),
        }
    }
    if !set.allows_surge() {
        plan.delete.extend(running.into_iter().skip(1).cloned());
        return;
    }
    if running.is_empty() && fit.runs {
        plan.create.push(node.clone());
    }
    if running.len() <= 1 {
        return;
    }
    let (new, old): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) =
        running.into_iter().partition(|pod| pod.labels.get(REVISION_HASH) == Some(look.hash));
    plan.delete.extend(new.iter().skip(1).chain(old.iter().skip(1)).copied().cloned());
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.ready || look.is_available(new))
    {
        plan.delete.push(Arc::clone(old));
    }
}

/// Pods with an old template, as far as that may be.
pub fn roll(look: &Look<'_>) -> Plan {
    let desired = look.fits.values().filter(|fit| fit.runs).count();
    let (surge, unavailable) = look.set.bounds(i64::try_from(desired).unwrap_or(i64::MAX));
    let size = |number: i64| usize::try_from(number).unwrap_or(0);
    match look.set.strategy {
        Strategy::OnDelete => Plan::default(),
        _ if surge == 0 => replace(look, size(unavailable)),
        Strategy::RollingUpdate { .. } => overlap(look, size(surge), desired),
    }
}

/// The pods of a node.
type Both<'a> = (Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>);

/// The pod with the new template and that with an old one. None: there are too many, who are dealt with elsewhere.
fn on_node<'a>(look: &Look<'_>, pods: &'a [Arc<Pod>]) -> Option<Both<'a>> {
    let (new, old): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) =
        pods.iter().filter(|pod| pod.deleted.is_none()).partition(|pod| look.is_updated(pod));
    (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
}

/// Old pods go first, no more than may be missing.
fn replace(look: &Look<'_>, max_unavailable: usize) -> Plan {
    let without = look.fits.iter().filter(|(node, fit)| fit.runs && !look.pods.contains_key(*node));
    let (mut unavailable, mut delete, mut candidates) = (without.count(), Vec::new(), Vec::new());
    for pods in look.pods.values() {
        match on_node(look, pods) {
            Some((Some(new), None)) if look.is_available(new) => {}
            Some((None, Some(old))) if look.is_available(old) => candidates.push(old.clone()),
            Some((None, Some(old))) => {
                delete.push(old.clone());
                unavailable += 1;
            }
            _ => unavailable += 1,
        }
    }
    delete.extend(candidates.into_iter().take(max_unavailable.saturating_sub(unavailable)));
    Plan { delete, ..Plan::default() }
}

/// New pods come first, no more than there may be.
fn overlap(look: &Look<'_>, max_surge: usize, desired: usize) -> Plan {
    let (mut plan, mut surge, mut available) = (Plan::default(), 0, 0);
    let (mut misplaced, mut candidates) = (Vec::new(), Vec::new());
    for (node, pods) in &look.pods {
        let Some((new, old)) = on_node(look, pods) else {
            surge += 1;
            continue;
        };
        available += usize::from(old.or(new).is_some_and(|pod| look.is_available(pod)));
        let Some(old) = old else { continue };
        match new {
            None => match (look.is_available(old), look.fit(node).runs) {
                (false, false) => plan.delete.push(old.clone()),
                (false, true) => plan.create.push(node.clone()),
                (true, false) => misplaced.push(old.clone()),
                (true, true) => candidates.push(node.clone()),
            },
            Some(new) if look.is_available(new) => plan.delete.push(old.clone()),
            Some(_) => surge += 1,
        }
    }
    plan.delete.extend(misplaced.into_iter().take(available.saturating_sub(desired)));
    plan.create.extend(candidates.into_iter().take(max_surge.saturating_sub(surge)));
    plan
}

pub fn status(look: &Look<'_>) -> Status {
    let mut status = Status {
        observed_generation: look.set.generation,
        collision_count: look.set.status.collision_count,
        conditions: look.set.status.conditions.clone(),
        ..Status::default()
    };
    for (node, fit) in &look.fits {
        let pod = look.pods.get(node).and_then(|pods| pods.first());
        if !fit.runs {
            status.number_misscheduled += i64::from(pod.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = pod else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i64::from(pod.ready);
        status.number_available += i64::from(look.is_available(pod));
        status.updated_number_scheduled += i64::from(look.is_updated(pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// When the next pod that is ready will be available.
pub fn next_available(look: &Look<'_>) -> Option<Duration> {
    let seconds = look.set.min_ready_seconds;
    let waits = look.pods.values().flatten().filter_map(|pod| pod.available_in(seconds, look.now_micros));
    waits.filter(|micros| *micros > 0).min().map(|micros| Duration::from_micros(micros.unsigned_abs()))
}
