//! What a look at a Job and its pods shows, and what to do about it, as pure functions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::time;

use crate::conditions::Condition;
use crate::jobs::backoff::{Backoff, finished, remaining_of_index};
use crate::jobs::indexes::Indexes;
use crate::jobs::order;
use crate::jobs::policy::{self, Verdict};
use crate::jobs::view::{FAILED, FAILURE_TARGET, Job, SUCCESS_CRITERIA_MET};
use crate::metadata::seconds;
use crate::pods::{Phase, Pod};

/// At most so many pods are made or deleted in one reconcile.
pub const BURST: usize = 500;

/// How things are.
#[derive(Debug, Default)]
pub struct Look {
    pub active: Vec<Arc<Pod>>,
    pub terminating: i64,
    pub ready: i64,
    pub succeeded: i64,
    pub start_time: Option<String>,
    /// The condition by which the Job is to end.
    pub finish: Option<Condition>,
    pub backoff: Backoff,
    pub indexes: Option<IndexLook>,
    /// When its deadline is over.
    pub deadline_in: Option<Duration>,
}

/// What is known of a Job's end when its pods were made and deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    By(Condition),
    /// It goes on.
    Not,
}

#[derive(Debug, Default)]
pub struct IndexLook {
    /// What the status says.
    pub before: Indexes,
    pub succeeded: Indexes,
    /// None: indexes do not fail.
    pub failed: Option<Indexes>,
    /// The last pod of each index that is to get another one: it is kept until then.
    pub delayed: HashMap<i64, Arc<Pod>>,
}

pub fn look(job: &Job, pods: &[Arc<Pod>], backoff: Backoff, now_micros: i64) -> Look {
    let active: Vec<Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    let uncounted = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
    let (known_good, known_bad): (HashSet<_>, HashSet<_>) =
        (uncounted.succeeded.iter().collect(), uncounted.failed.iter().collect());
    let fresh = |test: &dyn Fn(&Pod) -> bool, known: &HashSet<_>| -> Vec<Arc<Pod>> {
        let fresh = |pod: &&Arc<Pod>| pod.tracked && !known.contains(&pod.uid) && has_place(job, pod) && test(pod);
        pods.iter().filter(fresh).cloned().collect()
    };
    // One that was terminating is told to have failed, and stays so whatever its containers say in the end.
    let good = fresh(&|pod| pod.phase == Phase::Succeeded && !known_bad.contains(&pod.uid), &known_good);
    let bad = fresh(&|pod| is_failed(job, pod), &known_bad);
    let rules = job.failure_rules.as_deref();
    let counts = |pod: &&Arc<Pod>| rules.is_none() || policy::judge(rules, pod) != Verdict::Ignored;
    let failed = job.status.failed + as_count(bad.iter().filter(counts).count()) + as_count(known_bad.len());
    let now = time::format_seconds(now_micros.div_euclid(1_000_000));
    let mut look = Look {
        terminating: as_count(pods.iter().filter(|pod| pod.is_terminating()).count()),
        ready: as_count(active.iter().filter(|pod| pod.ready).count()),
        succeeded: job.status.succeeded + as_count(good.len()) + as_count(known_good.len()),
        start_time: job.status.start_time.clone().or((!job.suspended).then_some(now)),
        active,
        backoff: backoff.noting(&good, &bad),
        ..Look::default()
    };
    look.finish = finish(job, pods, failed, &mut look, now_micros);
    if job.is_indexed() {
        look_at_indexes(job, pods, &mut look, now_micros);
    }
    look
}

/// Whether the pod stands for a completion that the Job asks for.
fn has_place(job: &Job, pod: &Pod) -> bool {
    !job.is_indexed() || index(job, pod).is_some()
}

/// The completion index of a pod, if there is to be one.
pub fn index(job: &Job, pod: &Pod) -> Option<i64> {
    index_of(pod).filter(|index| job.completions.is_some_and(|completions| *index < completions))
}

fn index_of(pod: &Pod) -> Option<i64> {
    pod.job.as_ref().and_then(|of| of.index)
}

pub fn is_failed(job: &Job, pod: &Pod) -> bool {
    let goes = pod.deleted.is_some() && pod.phase != Phase::Succeeded && !job.replaces_failed_only;
    pod.phase == Phase::Failed || goes
}

/// By which condition the Job is to end, as far as it does not depend on indexes.
fn finish(job: &Job, pods: &[Arc<Pod>], failed: i64, look: &mut Look, now_micros: i64) -> Option<Condition> {
    let now_seconds = now_micros.div_euclid(1_000_000);
    if let Some(met) = job.status.holds(SUCCESS_CRITERIA_MET) {
        return Some(met.clone());
    }
    if let Some(target) = job.status.holds(FAILURE_TARGET) {
        return Some(condition(FAILED, "True", &target.reason, &target.message, now_seconds));
    }
    let target = |reason: &str, message: &str| Some(condition(FAILURE_TARGET, "True", reason, message, now_seconds));
    if let Some(rules) = job.failure_rules.as_deref() {
        let fatal = pods.iter().filter(|pod| is_failed(job, pod)).find_map(|pod| {
            if let Verdict::FailsJob(why) = policy::judge(Some(rules), pod) { Some(why) } else { None }
        });
        if let Some(why) = fatal {
            return target("PodFailurePolicy", &why);
        }
    }
    if failed > job.backoff_limit || restarted_too_often(job, pods) {
        return target("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    let (Some(deadline), false) = (job.deadline_seconds, job.suspended) else { return None };
    let started = seconds(look.start_time.as_deref()).unwrap_or(now_seconds);
    let left = started.saturating_add(deadline).saturating_mul(1_000_000).saturating_sub(now_micros);
    match u64::try_from(left) {
        // One that only begins now cannot be late.
        Ok(left) if left > 0 || job.status.start_time.is_none() => {
            look.deadline_in = Some(Duration::from_micros(left));
            None
        }
        _ => target("DeadlineExceeded", "Job was active longer than specified deadline"),
    }
}

fn restarted_too_often(job: &Job, pods: &[Arc<Pod>]) -> bool {
    if !job.restarts_containers {
        return false;
    }
    let running = pods.iter().filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = running.filter_map(|pod| pod.job.as_ref()).map(|of| of.restarts).sum();
    if job.backoff_limit == 0 { restarts > 0 } else { restarts >= job.backoff_limit }
}

fn look_at_indexes(job: &Job, pods: &[Arc<Pod>], look: &mut Look, now_micros: i64) {
    let completions = job.completions.unwrap_or(0);
    let tracked = || pods.iter().filter(|pod| pod.tracked);
    let before = Indexes::parse(&job.status.completed_indexes, completions);
    let good = tracked().filter(|pod| pod.phase == Phase::Succeeded).filter_map(|pod| index(job, pod));
    let succeeded = before.with(good);
    look.succeeded = succeeded.total();
    let now_seconds = now_micros.div_euclid(1_000_000);
    let target = |reason: &str, message: &str| Some(condition(FAILURE_TARGET, "True", reason, message, now_seconds));
    let mut indexes = IndexLook { before, succeeded, ..IndexLook::default() };
    if let Some(limit) = job.backoff_limit_per_index {
        let known = Indexes::parse(job.status.failed_indexes.as_deref().unwrap_or_default(), completions);
        let bad = tracked().filter(|pod| is_failed(job, pod)).filter(|pod| fails_index(job, pod, limit));
        let failed = known.with(bad.filter_map(|pod| index(job, pod)));
        if look.finish.is_none() {
            let (bad, good) = (failed.total(), indexes.succeeded.total());
            if job.max_failed_indexes.is_some_and(|max| bad > max) {
                let why = "Job has exceeded the specified maximal number of failed indexes";
                look.finish = target("MaxFailedIndexesExceeded", why);
            } else if bad > 0 && bad + good >= completions {
                look.finish = target("FailedIndexes", "Job has failed indexes");
            }
        }
        indexes.delayed = delayed(job, pods, look, &indexes.succeeded, &failed);
        indexes.failed = Some(failed);
    }
    if look.finish.is_none()
        && let Some(why) = policy::success(&job.success_rules, completions, &indexes.succeeded)
    {
        look.finish = Some(condition(SUCCESS_CRITERIA_MET, "True", "SuccessPolicy", &why, now_seconds));
    }
    look.indexes = Some(indexes);
}

fn fails_index(job: &Job, pod: &Pod, limit: i64) -> bool {
    match policy::judge(job.failure_rules.as_deref(), pod) {
        Verdict::FailsIndex => true,
        Verdict::Ignored => false,
        Verdict::Counts | Verdict::FailsJob(_) => pod.job.as_ref().is_some_and(|of| of.failures >= limit),
    }
}

/// The last failed pod of each index that is to get another one.
fn delayed(job: &Job, pods: &[Arc<Pod>], look: &Look, good: &Indexes, bad: &Indexes) -> HashMap<i64, Arc<Pod>> {
    let active: HashSet<i64> = look.active.iter().filter_map(|pod| index_of(pod)).collect();
    let mut last: HashMap<i64, Arc<Pod>> = HashMap::new();
    let place = |pod: &Pod| (pod.job.as_ref().map_or(0, |of| of.failures + of.ignored_failures), finished(pod));
    for pod in pods.iter().filter(|pod| pod.tracked && is_failed(job, pod)) {
        let Some(index) = index(job, pod) else { continue };
        if good.has(index) || bad.has(index) || active.contains(&index) {
            continue;
        }
        let known = last.entry(index).or_insert_with(|| pod.clone());
        if place(known).0 <= place(pod).0 && place(known).1 <= place(pod).1 {
            *known = pod.clone();
        }
    }
    last
}

/// What brings the number of pods nearer to what it should be.
#[derive(Debug)]
pub enum Step {
    Nothing,
    /// Pods that are no longer wanted.
    Delete(Vec<Arc<Pod>>),
    Create(Vec<NewPod>),
    /// Some will be made, later.
    Wait(Duration),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewPod {
    pub index: Option<i64>,
    /// Where indexes fail each for itself: how often, and how often that did not count.
    pub failures: Option<(i64, i64)>,
}

pub fn step(job: &Job, pods: &[Arc<Pod>], look: &Look, now_micros: i64) -> Step {
    let active = as_count(look.active.len());
    if job.suspended {
        let all = removed(job, &look.active, look.active.len());
        return if all.is_empty() { Step::Nothing } else { Step::Delete(all) };
    }
    let wanted = match job.completions {
        // Once a pod has succeeded, the others are waited for.
        None if look.succeeded > 0 => active,
        None => job.parallelism,
        Some(completions) => (completions - look.succeeded).min(job.parallelism).max(0),
    };
    let mut extra = removed(job, &look.active, as_size(active - wanted));
    extra.truncate(BURST);
    if !extra.is_empty() {
        return Step::Delete(extra);
    }
    let leaving = if job.replaces_failed_only { look.terminating } else { 0 };
    let missing = as_size(wanted - leaving - active);
    if missing == 0 {
        return Step::Nothing;
    }
    if job.backoff_limit_per_index.is_none() {
        match look.backoff.remaining(now_micros) {
            0 => {}
            micros => return Step::Wait(Duration::from_micros(micros.unsigned_abs())),
        }
    }
    let count = missing.min(BURST);
    match &look.indexes {
        None => Step::Create(vec![NewPod::default(); count]),
        Some(indexes) => create_indexes(job, pods, look, indexes, count, now_micros),
    }
}

fn create_indexes(
    job: &Job,
    pods: &[Arc<Pod>],
    look: &Look,
    indexes: &IndexLook,
    count: usize,
    now_micros: i64,
) -> Step {
    let mut taken = indexes.succeeded.with(look.active.iter().filter_map(|pod| index_of(pod)));
    if job.replaces_failed_only {
        taken = taken.with(pods.iter().filter(|pod| pod.is_terminating()).filter_map(|pod| index_of(pod)));
    }
    if let Some(failed) = &indexes.failed {
        taken = taken.union(failed);
    }
    let free = taken.missing(count, job.completions.unwrap_or(0));
    if job.backoff_limit_per_index.is_none() {
        let new = |index| NewPod { index: Some(index), failures: None };
        return Step::Create(free.into_iter().map(new).collect());
    }
    let (mut new, mut wait) = (Vec::new(), None::<i64>);
    for index in free {
        let last = indexes.delayed.get(&index);
        match remaining_of_index(last, now_micros) {
            0 => new.push(NewPod { index: Some(index), failures: Some(failures(job, last)) }),
            micros => wait = Some(wait.map_or(micros, |known| known.min(micros))),
        }
    }
    match wait {
        Some(micros) if new.is_empty() => Step::Wait(Duration::from_micros(micros.unsigned_abs())),
        _ if new.is_empty() => Step::Nothing,
        _ => Step::Create(new),
    }
}

/// How often an index has failed when another pod is made for it.
fn failures(job: &Job, last: Option<&Arc<Pod>>) -> (i64, i64) {
    let Some((pod, of)) = last.and_then(|pod| Some((pod, pod.job.as_deref()?))) else { return (0, 0) };
    match policy::judge(job.failure_rules.as_deref(), pod) {
        Verdict::Ignored => (of.failures, of.ignored_failures + 1),
        _ => (of.failures + 1, of.ignored_failures),
    }
}

/// At least so many of the active pods, those first that got least far; all of which there is another for the same
/// index, and all without a place.
fn removed(job: &Job, active: &[Arc<Pod>], at_least: usize) -> Vec<Arc<Pod>> {
    let (mut gone, mut left): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = (Vec::new(), Vec::new());
    if job.is_indexed() {
        let mut by_index: BTreeMap<i64, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in active {
            match index(job, pod) {
                None => gone.push(pod.clone()),
                Some(index) => by_index.entry(index).or_default().push(pod.clone()),
            }
        }
        for mut same in by_index.into_values() {
            if same.len() > 1 {
                order::order(&mut same);
            }
            left.extend(same.pop());
            gone.append(&mut same);
        }
    } else if at_least > 0 {
        left = active.to_vec();
    }
    if gone.len() < at_least {
        order::order(&mut left);
        left.truncate(at_least - gone.len());
        gone.append(&mut left);
    }
    gone
}

pub fn condition(kind: &str, status: &str, reason: &str, message: &str, now_seconds: i64) -> Condition {
    let now = Some(time::format_seconds(now_seconds));
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        last_probe_time: now.clone(),
        last_transition_time: now,
        reason: reason.to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    }
}

pub fn as_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn as_size(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}
