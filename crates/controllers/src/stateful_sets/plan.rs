//! What to do about the pods of a StatefulSet, as pure functions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::history::REVISION_HASH;
use crate::pods::{Phase, Pod};
use crate::stateful_sets::retention::{self, Claims};
use crate::stateful_sets::view::{StatefulSet, Status, Strategy};

pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The names of the revisions that pods come from, and are to come to.
#[derive(Clone, Copy, Debug)]
pub struct Revisions<'a> {
    pub current: &'a str,
    pub update: &'a str,
    pub collisions: i64,
}

/// What else a plan goes by.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub now: i64,
    /// Whether `maxUnavailable` counts, by its gate. Where it does not, pods are updated one after the other.
    pub max_unavailable: bool,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// Claims first, then the pod: of the new revision, or of the current one.
    Create {
        ordinal: i64,
        updated: bool,
    },
    Delete(Arc<Pod>),
    /// Claims of a pod that waits may be missing.
    Claims(Arc<Pod>),
    /// What makes the pod this one, and its claims, is not as it should be; if it waits, claims may be missing as well.
    Update(Arc<Pod>),
    /// The claims of a pod that is not wanted go with it, or not.
    Retain(Arc<Pod>),
}

#[derive(Debug)]
pub struct Plan {
    pub status: Status,
    /// One part after the other; those of a part at the same time, if the set is parallel.
    pub parts: Vec<Vec<Action>>,
    /// How many pods the last part deletes so that they come back with the new template.
    pub updates: i64,
}

pub fn plan(set: &StatefulSet, pods: &[Arc<Pod>], claims: &Claims<'_>, revisions: Revisions<'_>, terms: Terms) -> Plan {
    let now = terms.now;
    let mut plan = Plan { status: status(set, pods, revisions, now), parts: Vec::new(), updates: 0 };
    if set.deleted.is_some() {
        return plan;
    }
    let mut by_ordinal: HashMap<i64, &Arc<Pod>> = HashMap::new();
    let mut condemned: Vec<(i64, &Arc<Pod>)> = Vec::new();
    for pod in pods {
        match set.ordinal(&pod.name) {
            Some(ordinal) if set.wants(ordinal) => drop(by_ordinal.insert(ordinal, pod)),
            Some(ordinal) => condemned.push((ordinal, pod)),
            None => {}
        }
    }
    condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
    let wanted: Vec<(i64, Option<&Arc<Pod>>)> =
        (set.start..set.start.saturating_add(set.replicas)).map(|at| (at, by_ordinal.get(&at).copied())).collect();
    let goes_on = replicas(set, &wanted, claims, revisions, now, &mut plan)
        && remove(set, &wanted, &condemned, claims, now, &mut plan);
    if goes_on {
        update(set, &wanted, revisions, terms, &mut plan);
    }
    plan
}

/// The pods that are wanted, in their order. Whether all is well with them, as far as it is waited for.
fn replicas(
    set: &StatefulSet,
    wanted: &[(i64, Option<&Arc<Pod>>)],
    claims: &Claims<'_>,
    revisions: Revisions<'_>,
    now: i64,
    plan: &mut Plan,
) -> bool {
    let mut part = Vec::new();
    let mut goes_on = true;
    for (ordinal, pod) in wanted {
        let waits = match pod {
            None if claims.has_stale(set, *ordinal) => true,
            None => {
                part.push(Action::Create { ordinal: *ordinal, updated: is_updated(set, *ordinal, revisions) });
                true
            }
            Some(pod) if pod.is_terminal() => {
                if pod.deleted.is_none() {
                    part.push(Action::Delete(Arc::clone(pod)));
                }
                true
            }
            Some(pod) => {
                let is_kept = retention::is_kept(set, *ordinal, pod, claims);
                let waits = pod.deleted.is_some() || !is_ready(pod) || !pod.is_available(set.min_ready_seconds, now);
                // One action for a pod: two would write the same claims at the same time.
                if !(waits && !set.parallel || is_itself(set, *ordinal, pod) && is_kept) {
                    part.push(Action::Update(Arc::clone(pod)));
                } else if pod.phase == Phase::Pending && (!is_kept || claims.misses(set, *ordinal)) {
                    part.push(Action::Claims(Arc::clone(pod)));
                }
                waits
            }
        };
        if waits && !set.parallel {
            goes_on = false;
            break;
        }
    }
    plan.parts.push(part);
    goes_on
}

/// Whether a pod that is made now has the new template.
fn is_updated(set: &StatefulSet, ordinal: i64, revisions: Revisions<'_>) -> bool {
    let below = match set.strategy {
        Strategy::OnDelete => 0,
        Strategy::RollingUpdate { partition: None, .. } => set.status.current_replicas,
        Strategy::RollingUpdate { partition: Some(partition), .. } => partition,
    };
    ordinal >= set.start.saturating_add(below) || revisions.current == revisions.update
}

fn is_ready(pod: &Pod) -> bool {
    pod.phase == Phase::Running && pod.ready
}

fn is_itself(set: &StatefulSet, ordinal: i64, pod: &Pod) -> bool {
    let has_claim = |template: &str| {
        pod.claims.iter().any(|(volume, claim)| volume == template && *claim == set.claim_name(template, ordinal))
    };
    pod.labels.get(POD_NAME) == Some(&pod.name) && set.claims.iter().all(|template| has_claim(template))
}

/// Pods that are not wanted, the last first. Whether none has to be waited for.
fn remove(
    set: &StatefulSet,
    wanted: &[(i64, Option<&Arc<Pod>>)],
    condemned: &[(i64, &Arc<Pod>)],
    claims: &Claims<'_>,
    now: i64,
    plan: &mut Plan,
) -> bool {
    let unkept = condemned.iter().filter(|(ordinal, pod)| !retention::is_kept(set, *ordinal, pod, claims));
    plan.parts.push(unkept.map(|(_, pod)| Action::Retain(Arc::clone(pod))).collect());
    let is_bad = |pod: &Pod| !pod.is_available(set.min_ready_seconds, now) || pod.deleted.is_some();
    // One that is not well need not be waited for, if it is the first of those.
    let all_are_well = wanted.iter().all(|(_, pod)| pod.is_some_and(|pod| !is_bad(pod)));
    let first_bad = condemned.iter().rev().find(|(_, pod)| is_bad(pod)).filter(|_| all_are_well);
    let (mut part, mut goes_on) = (Vec::new(), true);
    for (ordinal, pod) in condemned {
        let is_first_bad = first_bad.is_some_and(|(first, _)| first == ordinal);
        let is_well = is_ready(pod) && pod.is_available(set.min_ready_seconds, now);
        if set.parallel {
            if pod.deleted.is_none() {
                part.push(Action::Delete(Arc::clone(pod)));
            }
            continue;
        }
        if pod.deleted.is_none() && (is_well || is_first_bad) {
            part.push(Action::Delete(Arc::clone(pod)));
        }
        goes_on = false;
        break;
    }
    plan.parts.push(part);
    goes_on
}

/// Pods with an old template, the last first.
fn update(
    set: &StatefulSet,
    wanted: &[(i64, Option<&Arc<Pod>>)],
    revisions: Revisions<'_>,
    terms: Terms,
    plan: &mut Plan,
) {
    let Strategy::RollingUpdate { partition, max_unavailable } = set.strategy else { return };
    let Terms { now, max_unavailable: counts } = terms;
    let is_bad = |pod: Option<&Arc<Pod>>| {
        pod.is_none_or(|pod| !pod.is_available(set.min_ready_seconds, now) || pod.deleted.is_some())
    };
    let made_of = |ordinal: i64, pod: Option<&Arc<Pod>>| match pod {
        Some(pod) => pod.labels.get(REVISION_HASH) == Some(revisions.update),
        None => is_updated(set, ordinal, revisions),
    };
    let first = usize::try_from(partition.unwrap_or(0)).unwrap_or(usize::MAX);
    let mut part = Vec::new();
    let mut room = if counts {
        let bad = wanted.iter().filter(|(_, pod)| is_bad(*pod)).count();
        max_unavailable.map_or(1, |amount| amount.of(set.replicas, false).max(1))
            - i64::try_from(bad).unwrap_or(i64::MAX)
    } else {
        1
    };
    for (ordinal, pod) in wanted.iter().skip(first).rev() {
        if room <= 0 {
            break;
        }
        match pod {
            Some(pod) if !made_of(*ordinal, Some(pod)) && pod.deleted.is_none() => {
                part.push(Action::Delete(Arc::clone(pod)));
                room -= 1;
            }
            // Those before one that is not well wait for it.
            pod if !counts && is_bad(*pod) => break,
            _ => {}
        }
    }
    plan.updates = i64::try_from(part.len()).unwrap_or(i64::MAX);
    plan.parts.push(part);
}

fn status(set: &StatefulSet, pods: &[Arc<Pod>], revisions: Revisions<'_>, now: i64) -> Status {
    let members = || pods.iter().filter(|pod| set.ordinal(&pod.name).is_some());
    let count = |test: &dyn Fn(&Pod) -> bool| i64::try_from(members().filter(|pod| test(pod)).count()).unwrap_or(0);
    let of = |pod: &Pod, revision: &str| pod.deleted.is_none() && pod.labels.get(REVISION_HASH) == Some(revision);
    Status {
        observed_generation: set.generation,
        replicas: count(&|_| true),
        ready_replicas: count(&is_ready),
        available_replicas: count(&|pod| is_ready(pod) && pod.is_available(set.min_ready_seconds, now)),
        current_replicas: count(&|pod| of(pod, revisions.current)),
        updated_replicas: count(&|pod| of(pod, revisions.update)),
        current_revision: revisions.current.to_owned(),
        update_revision: revisions.update.to_owned(),
        collision_count: Some(revisions.collisions),
    }
}

/// Once all pods have the new template it is the current one.
pub fn complete(set: &StatefulSet, status: &mut Status) {
    let is_rolling = set.strategy != Strategy::OnDelete;
    if is_rolling && [status.updated_replicas, status.ready_replicas, status.replicas] == [set.replicas; 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// Whether a status tells anything new.
pub fn is_news(set: &StatefulSet, status: &Status) -> bool {
    let told = |status: &Status| Status { observed_generation: 0, collision_count: None, ..status.clone() };
    status.observed_generation > set.status.observed_generation || told(status) != told(&set.status)
}

/// When the next pod that is ready will be available.
pub fn next_available(set: &StatefulSet, pods: &[Arc<Pod>], now: i64) -> Option<Duration> {
    if set.min_ready_seconds <= 0 {
        return None;
    }
    let waits = pods.iter().filter_map(|pod| pod.available_in(set.min_ready_seconds, now));
    waits.filter(|micros| *micros > 0).min().map(|micros| Duration::from_micros(micros.unsigned_abs()))
}
