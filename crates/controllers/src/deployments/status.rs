//! The status of a Deployment: counts, and how its rollout goes.

use std::time::Duration;

use rkube_machinery::time;

use crate::conditions::{self, Condition};
use crate::deployments::sets::Sets;
use crate::deployments::view::{Deployment, Status};
use crate::replica_sets::ReplicaSet;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";

const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// Whether it is looked at how the rollout goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Estimated,
    NotEstimated,
}

/// Whether all pods are of the new set and available, and no others are there.
pub fn is_complete(deployment: &Deployment, status: &Status) -> bool {
    let wanted = deployment.replicas;
    [status.updated_replicas, status.replicas, status.available_replicas] == [wanted; 3]
        && status.observed_generation >= deployment.generation
}

/// Says that the Deployment is paused or goes on, so that the time of the pause is none without progress.
pub fn note_pause(deployment: &Deployment, status: &mut Status, now_seconds: i64) {
    let current = conditions::find(&status.conditions, PROGRESSING).map(|condition| condition.reason.as_str());
    if deployment.progress_seconds.is_none() || current == Some(TIMED_OUT) {
        return;
    }
    let (reason, message) = match (deployment.paused, current == Some(PAUSED)) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => ("DeploymentResumed", "Deployment is resumed"),
        _ => return,
    };
    progress(status, "Unknown", reason, message.to_owned(), now_seconds);
}

/// Begins to estimate progress where nobody did.
pub fn note_new_set(deployment: &Deployment, new: &ReplicaSet, status: &mut Status, now_seconds: i64) {
    if deployment.progress_seconds.is_some() && conditions::find(&status.conditions, PROGRESSING).is_none() {
        let message = format!("Found new replica set {:?}", new.item.name.as_str());
        progress(status, "True", "FoundNewReplicaSet", message, now_seconds);
    }
}

pub fn note_created(deployment: &Deployment, name: &str, status: &mut Status, now_seconds: i64) {
    if deployment.progress_seconds.is_some() {
        let message = format!("Created new replica set {name:?}");
        progress(status, "True", "NewReplicaSetCreated", message, now_seconds);
    }
}

pub fn note_not_created(deployment: &Deployment, message: String, status: &mut Status, now_seconds: i64) {
    if deployment.progress_seconds.is_some() {
        progress(status, "False", "ReplicaSetCreateError", message, now_seconds);
    }
}

fn progress(status: &mut Status, state: &str, reason: &str, message: String, now_seconds: i64) {
    conditions::set(&mut status.conditions, condition(PROGRESSING, state, reason, message, now_seconds));
}

fn condition(kind: &str, status: &str, reason: &str, message: String, now_seconds: i64) -> Condition {
    let now = Some(time::format_seconds(now_seconds));
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_update_time: now.clone(),
        last_transition_time: now,
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    }
}

/// The status that a Deployment should have. `noted` is the one it has, with what was said in this reconcile.
pub fn status(deployment: &Deployment, noted: &Status, sets: &Sets, progress: Progress, now_seconds: i64) -> Status {
    let sum = |of: fn(&ReplicaSet) -> i64| sets.all().map(|set| of(set)).sum::<i64>();
    let available = sum(|set| set.status.available_replicas);
    let mut status = Status {
        observed_generation: deployment.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: sets.new.as_ref().map_or(0, |set| set.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (sets.wanted() - available).max(0),
        terminating_replicas: terminating(sets),
        conditions: noted.conditions.clone(),
        collision_count: noted.collision_count,
    };
    let enough = available >= deployment.replicas - deployment.max_unavailable();
    let (state, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(&mut status.conditions, condition(AVAILABLE, state, reason, message.to_owned(), now_seconds));
    if progress == Progress::Estimated {
        estimate(deployment, noted, sets, &mut status, now_seconds);
        match failure(sets) {
            Some(failure) => conditions::set(&mut status.conditions, failure),
            None => conditions::remove(&mut status.conditions, FAILURE),
        }
    }
    status
}

/// How many pods are on their way out. None while a set does not tell.
fn terminating(sets: &Sets) -> Option<i64> {
    let told = sets.all().map(|set| match set.status.terminating_replicas {
        None if set.status.observed_generation == 0 => Some(0),
        told => told,
    });
    told.sum()
}

fn estimate(deployment: &Deployment, noted: &Status, sets: &Sets, status: &mut Status, now_seconds: i64) {
    let Some(seconds) = deployment.progress_seconds else {
        conditions::remove(&mut status.conditions, PROGRESSING);
        return;
    };
    let current = conditions::find(&noted.conditions, PROGRESSING);
    let was_complete = current.is_some_and(|current| current.reason == NEW_SET_AVAILABLE);
    if was_complete && status.replicas == status.updated_replicas {
        return;
    }
    let subject = match &sets.new {
        Some(new) => format!("ReplicaSet {:?}", new.item.name.as_str()),
        None => format!("Deployment {:?}", deployment.item.name.as_str()),
    };
    if is_complete(deployment, status) {
        let message = format!("{subject} has successfully progressed.");
        progress(status, "True", NEW_SET_AVAILABLE, message, now_seconds);
    } else if progressed(&deployment.status, status) {
        let message = format!("{subject} is progressing.");
        let mut condition = condition(PROGRESSING, "True", "ReplicaSetUpdated", message, now_seconds);
        // Said anew with each step, so that its time is that of the last one.
        if let Some(current) = current.filter(|current| current.status == "True") {
            condition.last_transition_time.clone_from(&current.last_transition_time);
        }
        conditions::remove(&mut status.conditions, PROGRESSING);
        status.conditions.push(condition);
    } else if current.is_some_and(|current| is_late(current, seconds, now_seconds)) {
        progress(status, "False", TIMED_OUT, format!("{subject} has timed out progressing."), now_seconds);
    }
}

fn progressed(before: &Status, now: &Status) -> bool {
    now.updated_replicas > before.updated_replicas
        || now.replicas - now.updated_replicas < before.replicas - before.updated_replicas
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

fn is_late(progressing: &Condition, seconds: i64, now_seconds: i64) -> bool {
    match progressing.reason.as_str() {
        NEW_SET_AVAILABLE => false,
        TIMED_OUT => true,
        _ => updated(progressing).saturating_add(seconds) < now_seconds,
    }
}

fn updated(condition: &Condition) -> i64 {
    condition.last_update_time.as_deref().and_then(|text| time::parse(text).ok()).map_or(0, |(seconds, _)| seconds)
}

/// Why pods cannot be made: what the new set says, or else an old one.
fn failure(sets: &Sets) -> Option<Condition> {
    let mut all = sets.new.iter().chain(&sets.old);
    let failure = all.find_map(|set| conditions::find(&set.status.conditions, FAILURE))?;
    Some(Condition { last_update_time: failure.last_transition_time.clone(), ..failure.clone() })
}

/// When to look again whether the rollout takes too long, if nothing happens before.
pub fn check_in(deployment: &Deployment, status: &Status, now_seconds: i64) -> Option<Duration> {
    let current = conditions::find(&deployment.status.conditions, PROGRESSING)?;
    let seconds = deployment.progress_seconds?;
    // Of one that was complete it is never said that it takes too long, and that one does is said once.
    if is_complete(deployment, status) || [TIMED_OUT, NEW_SET_AVAILABLE].contains(&current.reason.as_str()) {
        return None;
    }
    let left = updated(current).saturating_add(seconds).saturating_sub(now_seconds).max(0);
    // A second more, because times are in whole seconds.
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0).saturating_add(1)))
}
