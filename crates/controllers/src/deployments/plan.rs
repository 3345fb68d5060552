//! What a Deployment has to do next about its ReplicaSets, as pure functions.
//!
//! One reconcile does one kind of work, and the next one goes on from what came out of it.

use std::cmp::Reverse;

use rkube_machinery::Text;

use crate::deployments::revisions::{self, DESIRED, MAX};
use crate::deployments::sets::{Set, Sets, by_age};
use crate::deployments::status::{self, Progress};
use crate::deployments::view::{Deployment, Status, Strategy};
use crate::template_hash::template_hash;

/// A name may have so many letters.
const NAME_MAX: usize = 253;

#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Work {
    Nothing,
    /// The new set is to be made.
    Create(NewSet),
    /// The new set's annotations, and how long its pods have to be ready, are to be what the Deployment says.
    Adjust {
        set: String,
        annotations: Vec<(Text, Text)>,
    },
    Scale(Vec<Scaling>),
    /// Old sets that nobody will go back to.
    Delete(Vec<String>),
    /// The Deployment is to have the template of this revision, if there is one: 0 is the last one.
    RollBack(i64),
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct NewSet {
    pub name: String,
    pub hash: String,
    pub replicas: i64,
    pub revision: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scaling {
    pub set: String,
    pub from: i64,
    /// The same where only annotations change.
    pub to: i64,
}

#[derive(Debug)]
pub struct Plan {
    pub work: Work,
    /// The revision that the Deployment is to have, if it has another.
    pub revision: Option<String>,
    /// As it is, with what is to be said before the work.
    pub status: Status,
    pub progress: Progress,
}

/// `old_pods_run`: whether a pod of an old set may still run; asked only if it matters.
pub fn plan(deployment: &Deployment, sets: &Sets, old_pods_run: impl FnOnce() -> bool, now_seconds: i64) -> Plan {
    let mut plan = Plan {
        work: Work::Nothing,
        revision: None,
        status: deployment.status.clone(),
        progress: Progress::NotEstimated,
    };
    if deployment.deleted.is_none() {
        status::note_pause(deployment, &mut plan.status, now_seconds);
    }
    if let Some(new) = &sets.new {
        let annotations = revisions::changes(deployment, new, next_revision(sets));
        if !annotations.is_empty() || new.min_ready_seconds != deployment.min_ready_seconds {
            plan.work = Work::Adjust { set: new.item.name.to_string(), annotations };
        } else {
            let revision = new.annotations.get(revisions::REVISION).unwrap_or_default();
            let known = deployment.annotations.get(revisions::REVISION) == Some(revision);
            plan.revision = (!known).then(|| revision.to_owned());
            status::note_new_set(deployment, new, &mut plan.status, now_seconds);
        }
    }
    if deployment.deleted.is_some() || plan.work != Work::Nothing {
        return plan;
    }
    let roll_back = deployment.annotations.get(revisions::ROLLBACK_TO).and_then(|text| text.parse().ok());
    if deployment.paused || roll_back.is_none() && is_scaled(deployment, sets) {
        plan.work = scale(deployment, sets);
        if plan.work == Work::Nothing && deployment.paused && roll_back.is_none() {
            plan.work = clean_up(deployment, sets);
        }
    } else if let Some(revision) = roll_back {
        plan.work = if sets.new.is_some() { Work::RollBack(revision) } else { create(deployment, sets) };
    } else {
        plan.progress = Progress::Estimated;
        plan.work = match deployment.strategy {
            Strategy::RollingUpdate { .. } => roll(deployment, sets),
            Strategy::Recreate => recreate(deployment, sets, old_pods_run),
        };
        if plan.work == Work::Nothing && sets.new.is_some() && status::is_complete(deployment, &deployment.status) {
            plan.work = clean_up(deployment, sets);
        }
    }
    plan
}

fn next_revision(sets: &Sets) -> i64 {
    revisions::max_revision(sets.old.iter().map(|set| &**set)) + 1
}

fn create(deployment: &Deployment, sets: &Sets) -> Work {
    let hash = template_hash(&deployment.item.json, deployment.status.collision_count);
    let room = NAME_MAX - 1 - hash.len();
    let name = &deployment.item.name;
    let name = name.get(..room).unwrap_or(name);
    Work::Create(NewSet {
        name: format!("{name}-{hash}"),
        hash,
        replicas: new_size(deployment, sets),
        revision: next_revision(sets),
    })
}

/// How many replicas the new set should have during a rollout.
fn new_size(deployment: &Deployment, sets: &Sets) -> i64 {
    if deployment.strategy == Strategy::Recreate {
        return deployment.replicas;
    }
    let has = sets.new.as_ref().map_or(0, |set| set.replicas);
    let room = deployment.max_replicas() - sets.wanted();
    if room <= 0 { has } else { has + room.min(deployment.replicas - has) }
}

/// Whether the Deployment was given another size: a set that is in use was made for a different one.
fn is_scaled(deployment: &Deployment, sets: &Sets) -> bool {
    sets.active().filter_map(|set| revisions::replicas(set, DESIRED)).any(|desired| desired != deployment.replicas)
}

fn scaling(set: &Set, to: i64) -> Scaling {
    Scaling { set: set.item.name.to_string(), from: set.replicas, to }
}

/// Scales those of which the size is to be another.
fn scale_to(scalings: impl IntoIterator<Item = Scaling>) -> Work {
    let changed: Vec<Scaling> = scalings.into_iter().filter(|scaling| scaling.from != scaling.to).collect();
    if changed.is_empty() { Work::Nothing } else { Work::Scale(changed) }
}

fn roll(deployment: &Deployment, sets: &Sets) -> Work {
    let Some(new) = &sets.new else { return create(deployment, sets) };
    let size = if new.replicas > deployment.replicas { deployment.replicas } else { new_size(deployment, sets) };
    match scale_to([scaling(new, size)]) {
        Work::Nothing => shrink_old(deployment, sets, new),
        work => work,
    }
}

/// Takes replicas from old sets, as far as enough pods stay available: those that are not available first, in a step of
/// their own.
fn shrink_old(deployment: &Deployment, sets: &Sets, new: &Set) -> Work {
    let min_available = deployment.replicas - deployment.max_unavailable();
    let new_unavailable = new.replicas - new.status.available_replicas;
    let mut may_go = sets.wanted() - min_available - new_unavailable;
    let old: Vec<&Set> = sets.old.iter().filter(|set| set.replicas > 0).collect();
    if old.is_empty() || may_go <= 0 {
        return Work::Nothing;
    }
    let (mut scalings, mut sizes) = (Vec::new(), Vec::new());
    for set in &old {
        let unhealthy = set.replicas - set.status.available_replicas;
        // It was made smaller just now: what is available without those pods is known once its status tells.
        if unhealthy < 0 && may_go > 0 {
            return scale_to(scalings);
        }
        let cleaned = scaling(set, set.replicas - unhealthy.clamp(0, may_go));
        may_go -= cleaned.from - cleaned.to;
        sizes.push(cleaned.to);
        scalings.push(cleaned);
    }
    let available: i64 = old.iter().map(|set| set.status.available_replicas).sum();
    let mut too_many = available + new.status.available_replicas - min_available;
    for (set, size) in old.iter().zip(sizes) {
        let less = size.min(too_many.max(0));
        too_many -= less;
        scalings.push(Scaling { from: size, ..scaling(set, size - less) });
    }
    scale_to(scalings)
}

fn recreate(deployment: &Deployment, sets: &Sets, old_pods_run: impl FnOnce() -> bool) -> Work {
    let down = scale_to(sets.old.iter().map(|set| scaling(set, 0)));
    if down != Work::Nothing {
        return down;
    }
    if sets.old.iter().any(|set| set.status.replicas > 0) || old_pods_run() {
        return Work::Nothing;
    }
    match &sets.new {
        None => create(deployment, sets),
        Some(new) => scale_to([scaling(new, deployment.replicas)]),
    }
}

/// Gives the sets their part of another size: all to the only one in use, or in proportion, so that a rollout neither
/// goes faster nor slower for it.
fn scale(deployment: &Deployment, sets: &Sets) -> Work {
    let active: Vec<&Set> = sets.active().collect();
    match active[..] {
        [] => {
            let latest = sets.new.as_ref().or_else(|| sets.old.last());
            return scale_to(latest.map(|set| scaling(set, deployment.replicas)));
        }
        [only] => return scale_to([scaling(only, deployment.replicas)]),
        _ => {}
    }
    if sets.new.as_ref().is_some_and(|new| is_saturated(deployment, new)) {
        return scale_to(sets.old.iter().map(|set| scaling(set, 0)));
    }
    if deployment.strategy == Strategy::Recreate {
        return Work::Nothing;
    }
    let scalings = proportions(deployment, active);
    if scalings.is_empty() { Work::Nothing } else { Work::Scale(scalings) }
}

/// Whether the new set has all pods that are wanted, and they are available.
fn is_saturated(deployment: &Deployment, new: &Set) -> bool {
    let wanted = deployment.replicas;
    revisions::replicas(new, DESIRED) == Some(wanted)
        && new.replicas == wanted
        && new.status.available_replicas == wanted
}

fn proportions(deployment: &Deployment, mut active: Vec<&Set>) -> Vec<Scaling> {
    let allowed = if deployment.replicas > 0 { deployment.max_replicas() } else { 0 };
    let to_add = allowed - active.iter().map(|set| set.replicas).sum::<i64>();
    // The largest first; of those of one size the newest where replicas come, the oldest where they go.
    match to_add {
        0 => {}
        1.. => active.sort_by(|one, other| {
            Reverse(one.replicas).cmp(&Reverse(other.replicas)).then_with(|| by_age(other).cmp(&by_age(one)))
        }),
        _ => active.sort_by(|one, other| {
            Reverse(one.replicas).cmp(&Reverse(other.replicas)).then_with(|| by_age(one).cmp(&by_age(other)))
        }),
    }
    let mut added = 0;
    let mut scalings: Vec<Scaling> = Vec::with_capacity(active.len());
    for set in &active {
        let (part, left) = (fraction(deployment, set), to_add - added);
        let part = match to_add {
            _ if left == 0 => 0,
            1.. => part.min(left),
            _ => part.max(left),
        };
        added += part;
        scalings.push(scaling(set, set.replicas + part));
    }
    if let Some(largest) = scalings.first_mut() {
        largest.to = (largest.to + to_add - added).max(0);
    }
    // A set that keeps its size is told of the Deployment's.
    let changed = |place: usize, scaling: &Scaling| {
        scaling.from != scaling.to || !revisions::has_sizes(deployment, active[place])
    };
    scalings.into_iter().enumerate().filter(|(place, scaling)| changed(*place, scaling)).map(|(_, it)| it).collect()
}

/// By how much a set grows or shrinks with its Deployment.
fn fraction(deployment: &Deployment, set: &Set) -> i64 {
    if deployment.replicas == 0 {
        return -set.replicas;
    }
    let before = revisions::replicas(set, MAX).filter(|max| *max > 0).unwrap_or(deployment.status.replicas);
    if before == 0 {
        return 0;
    }
    let size = i128::from(set.replicas) * i128::from(deployment.max_replicas());
    // To the nearest, and half away from zero.
    let rounded = (2 * size + i128::from(before)).div_euclid(2 * i128::from(before));
    i64::try_from(rounded).unwrap_or(i64::MAX) - set.replicas
}

/// The old sets beyond those that are kept, if nothing is left of them.
fn clean_up(deployment: &Deployment, sets: &Sets) -> Work {
    let Some(limit) = deployment.history_limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return Work::Nothing;
    };
    let mut old: Vec<&Set> = sets.old.iter().filter(|set| set.deleted.is_none()).collect();
    let beyond = old.len().saturating_sub(limit);
    old.sort_by_key(|set| revisions::revision(set));
    let unused =
        |set: &&&Set| set.replicas == 0 && set.status.replicas == 0 && set.generation <= set.status.observed_generation;
    let unused: Vec<String> = old[..beyond].iter().filter(unused).map(|set| set.item.name.to_string()).collect();
    if unused.is_empty() { Work::Nothing } else { Work::Delete(unused) }
}
