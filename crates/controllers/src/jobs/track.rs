//! How pods that ended get into the numbers of a Job's status, each exactly once.
//!
//! A pod that has ended keeps a finalizer until it is counted. First its uid is written to the status, then the finalizer
//! is removed, then the uid becomes part of a number. Whatever is interrupted in between goes on from there.

use std::collections::HashSet;
use std::sync::Arc;

use rkube_machinery::Text;

use crate::conditions::{self, Condition};
use crate::jobs::plan::{self, Look, condition};
use crate::jobs::policy::{self, Verdict};
use crate::jobs::view::{COMPLETE, FAILED, FAILURE_TARGET, Job, SUCCESS_CRITERIA_MET, SUSPENDED, Status, Uncounted};
use crate::pods::{Phase, Pod};

/// At most so many pods are named in the status.
const UNCOUNTED_MAX: usize = 500;

/// What is to be written of a look.
#[derive(Debug)]
pub struct Tracking {
    pub status: Status,
    /// Whether the status is to be written before finalizers are removed.
    pub flush: bool,
    /// Pods whose finalizers go then.
    pub untrack: Vec<Arc<Pod>>,
    /// Pods that have their finalizers.
    pub tracked: HashSet<Text>,
    /// The condition by which the Job ends, if nothing is in the way.
    pub end: Option<Condition>,
}

/// How the number of pods changed in this reconcile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acted {
    pub created: i64,
    pub deleted: i64,
    pub deleted_ready: i64,
}

impl Acted {
    pub fn note_deleted(&mut self, pods: &[Arc<Pod>]) {
        self.deleted += plan::as_count(pods.len());
        self.deleted_ready += plan::as_count(pods.iter().filter(|pod| pod.ready).count());
    }
}

/// The status with the numbers of pods that run. Whether it is new.
pub fn running(job: &Job, look: &Look, acted: Acted) -> (Status, bool) {
    let mut status = job.status.clone();
    status.start_time.clone_from(&look.start_time);
    status.uncounted_terminated_pods.get_or_insert_default();
    status.active = plan::as_count(look.active.len()) + acted.created - acted.deleted;
    status.ready = Some(look.ready - acted.deleted_ready);
    status.terminating = Some(look.terminating + acted.deleted);
    let seen = |status: &Status| (status.active, status.ready, status.terminating);
    let changed = seen(&status) != seen(&job.status);
    (status, changed)
}

/// Says that a Job is suspended or goes on: the reason of the event, if that is new.
pub fn suspend(job: &Job, status: &mut Status, now_seconds: i64) -> Option<(&'static str, &'static str)> {
    let (state, reason, event, message) = match job.suspended {
        true => ("True", "JobSuspended", "Suspended", "Job suspended"),
        false => ("False", "JobResumed", "Resumed", "Job resumed"),
    };
    let new = condition(SUSPENDED, state, reason, message, now_seconds);
    if !ensure(&mut status.conditions, new) {
        return None;
    }
    status.start_time = (!job.suspended).then(|| rkube_machinery::time::format_seconds(now_seconds));
    Some((event, message))
}

/// Sets a condition where it stands, or at the end; one that was never there need not be told to be false.
fn ensure(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    match conditions.iter_mut().find(|known| known.kind == new.kind) {
        Some(known) if known.status == new.status && known.reason == new.reason && known.message == new.message => {
            false
        }
        Some(known) => {
            *known = new;
            true
        }
        None if new.status == "False" => false,
        None => {
            conditions.push(new);
            true
        }
    }
}

/// Which pods to count. `status` is the one so far, `flush` whether it is new, `finish` the condition by which the Job is to
/// end.
pub fn track(
    job: &Job,
    look: &Look,
    pods: &[Arc<Pod>],
    finish: Option<Condition>,
    status: Status,
    flush: bool,
    now_seconds: i64,
) -> Tracking {
    let tracked: HashSet<Text> = pods.iter().filter(|pod| pod.tracked).map(|pod| pod.uid.clone()).collect();
    let mut tracking = Tracking { status, flush, untrack: Vec::new(), tracked, end: finish };
    tracking.flush |= count(&mut tracking.status, &tracking.tracked);
    let full = name_ended(job, look, pods, &mut tracking);
    if let Some(indexes) = &look.indexes {
        let completed = indexes.succeeded.to_string();
        let failed = indexes.failed.as_ref().map(ToString::to_string);
        let status = &mut tracking.status;
        tracking.flush |= status.completed_indexes != completed || status.failed_indexes != failed;
        status.succeeded = indexes.succeeded.total();
        status.completed_indexes = completed;
        status.failed_indexes = failed;
    }
    announce(&mut tracking, now_seconds);
    // What was left out is counted first.
    if full {
        tracking.end = None;
    }
    tracking
}

/// Writes uids of pods that ended to the status, and lists the pods that need no finalizer any more. Whether there is no
/// room for others.
fn name_ended(job: &Job, look: &Look, pods: &[Arc<Pod>], tracking: &mut Tracking) -> bool {
    let known = tracking.status.uncounted_terminated_pods.clone().unwrap_or_default();
    let (good, bad): (HashSet<Text>, HashSet<Text>) =
        (known.succeeded.iter().cloned().collect(), known.failed.iter().cloned().collect());
    let Uncounted { mut succeeded, mut failed } = known;
    let mut ended: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.tracked).collect();
    if job.is_indexed() {
        ended.sort_by_key(|pod| pod.job.as_ref().and_then(|of| of.index));
    }
    let fails = tracking.end.as_ref().is_some_and(|end| end.kind != SUCCESS_CRITERIA_MET);
    let (mut new_indexes, mut full) = (HashSet::new(), false);
    for pod in ended {
        let is_failed = plan::is_failed(job, pod);
        if !may_go(job, look, tracking.end.is_some(), pod, is_failed) {
            continue;
        }
        tracking.untrack.push(pod.clone());
        if pod.phase == Phase::Succeeded && !bad.contains(&pod.uid) {
            if let Some(indexes) = &look.indexes {
                let new = plan::index(job, pod).filter(|index| !indexes.before.has(*index));
                tracking.flush |= new.is_some_and(|index| new_indexes.insert(index));
            } else if !good.contains(&pod.uid) {
                succeeded.push(pod.uid.clone());
                tracking.flush = true;
            }
        } else if (is_failed || fails) && !bad.contains(&pod.uid) {
            let has_place = !job.is_indexed() || plan::index(job, pod).is_some();
            if has_place && policy::judge(job.failure_rules.as_deref(), pod) != Verdict::Ignored {
                failed.push(pod.uid.clone());
                tracking.flush = true;
            }
        }
        if new_indexes.len() + succeeded.len() + failed.len() >= UNCOUNTED_MAX {
            full = true;
            break;
        }
    }
    tracking.status.uncounted_terminated_pods = Some(Uncounted { succeeded, failed });
    full
}

fn may_go(job: &Job, look: &Look, ends: bool, pod: &Pod, is_failed: bool) -> bool {
    if job.deleted.is_some() || ends || pod.phase == Phase::Succeeded {
        return true;
    }
    // The next pod of its index takes over how often that failed.
    let is_kept = || {
        let index = pod.job.as_ref().and_then(|of| of.index)?;
        look.indexes.as_ref()?.delayed.get(&index).filter(|kept| kept.uid == pod.uid)
    };
    is_failed && is_kept().is_none()
}

/// Says how the Job will end, before all is over.
fn announce(tracking: &mut Tracking, now_seconds: i64) {
    let Some(finish) = tracking.end.take() else { return };
    let last = |kind: &str| condition(kind, "True", &finish.reason, &finish.message, now_seconds);
    tracking.end = match finish.kind.as_str() {
        FAILURE_TARGET => Some(last(FAILED)),
        SUCCESS_CRITERIA_MET => Some(last(COMPLETE)),
        _ => Some(finish.clone()),
    };
    let announced = [FAILURE_TARGET, SUCCESS_CRITERIA_MET].contains(&finish.kind.as_str());
    if announced && tracking.status.holds(&finish.kind).is_none() {
        tracking.status.conditions.push(finish);
        tracking.flush = true;
    }
}

/// Makes numbers of the uids of pods that have no finalizers any more. Whether there were any.
pub fn count(status: &mut Status, tracked: &HashSet<Text>) -> bool {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let (succeeded, failed) = (uncounted.succeeded.len(), uncounted.failed.len());
    uncounted.succeeded.retain(|uid| tracked.contains(uid));
    uncounted.failed.retain(|uid| tracked.contains(uid));
    let (succeeded, failed) = (succeeded - uncounted.succeeded.len(), failed - uncounted.failed.len());
    status.succeeded += plan::as_count(succeeded);
    status.failed += plan::as_count(failed);
    succeeded + failed > 0
}

/// Ends the Job, if all is counted and nothing runs any more. Whether it has ended.
pub fn end(status: &mut Status, end: Option<&Condition>) -> bool {
    let Some(end) = end else { return false };
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let is_counted = uncounted.is_none_or(|left| left.succeeded.is_empty() && left.failed.is_empty());
    if !is_counted || status.terminating.is_some_and(|terminating| terminating > 0) {
        return false;
    }
    if conditions::find(&status.conditions, &end.kind).is_none_or(|known| known.status != end.status) {
        conditions::remove(&mut status.conditions, &end.kind);
        status.conditions.push(end.clone());
    }
    if end.kind == COMPLETE {
        status.completion_time.clone_from(&end.last_transition_time);
    }
    true
}
