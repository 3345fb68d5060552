//! Jobs count what succeeded, once, and what is over stays so. They run no more pods at a time than they may, none while
//! they are suspended, and none for an index that is done.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Change;
use super::lately::{Lately, Moments};
use super::view::{Job, JobStatus, Pod};

#[derive(Default)]
pub(super) struct Jobs {
    /// By uid.
    known: HashMap<String, Known>,
    uids: HashMap<String, String>,
}

#[derive(Default)]
struct Known {
    parallelism: Lately,
    status: JobStatus,
    /// How many of its pods ever succeeded.
    succeeded: i64,
    /// Those that are neither over nor to go, with their indexes.
    active: HashMap<String, Option<String>>,
    /// Those that are to go, and have not ended.
    terminating: HashSet<String>,
    /// Whether these count, too.
    waits_for_ends: bool,
    /// Indexes that succeeded, or failed for good.
    done: BTreeSet<i64>,
    /// How many of its pods were made without its controller being told: each may have been made again.
    unacknowledged: i64,
    /// When that was.
    lately: Moments,
}

impl Jobs {
    pub fn pod(&mut self, change: &Change<'_>) -> Option<String> {
        let job = self.known.get_mut(change.controller("Job")?)?;
        let succeeded = |pod: Option<&Pod>| pod.is_some_and(|pod| pod.status.phase == "Succeeded");
        let is_same = change.created().is_none();
        job.succeeded += i64::from(succeeded(change.new) && !(is_same && succeeded(change.old)));
        job.active.remove(change.key);
        match change.new {
            Some(pod) if !pod.is_active() && !pod.is_over() => drop(job.terminating.insert(change.key.to_owned())),
            _ => drop(job.terminating.remove(change.key)),
        }
        let new = change.new.filter(|pod| pod.is_active())?;
        let index = new.metadata.completion_index();
        let beside = job.active.iter().find(|(_, other)| index.is_some() && **other == index);
        let beside = beside.map(|(key, _)| key.clone());
        job.active.insert(change.key.to_owned(), index);
        change.created()?;
        let twice = job.lately.count(change.at_micros);
        if change.is_unacknowledged() {
            job.unacknowledged += 1;
            job.lately.add(change.at_micros);
        }
        if let Some(end) = job.status.end() {
            return Some(format!("is made for a Job that is {end}"));
        }
        if let Some(other) = beside.filter(|_| twice == 0) {
            return Some(format!("is made for an index that {other} is for"));
        }
        let done = new.metadata.completion_index().and_then(|index| index.parse().ok());
        if let Some(index) = done.filter(|index| job.done.contains(index)) {
            return Some(format!("is made for index {index}, which is done"));
        }
        let terminating = if job.waits_for_ends { job.terminating.len() } else { 0 };
        let (active, most) = (job.active.len() + terminating, job.parallelism.max(change.at_micros));
        (i64::try_from(active).unwrap_or(i64::MAX) > most + twice)
            .then(|| format!("its Job has {active} pods at a time, and {most} are allowed"))
    }

    pub fn job(&mut self, key: &str, job: Option<Job>, at_micros: u64) -> Vec<String> {
        let Some(Job { metadata, spec, status }) = job else {
            if let Some(uid) = self.uids.remove(key) {
                self.known.remove(&uid);
            }
            return Vec::new();
        };
        let mut found = Vec::new();
        self.uids.insert(key.to_owned(), metadata.uid.clone());
        let known = self.known.entry(metadata.uid).or_default();
        known.parallelism.set(spec.at_a_time(), at_micros);
        known.waits_for_ends = spec.waits_for_ends();
        if status.succeeded > known.succeeded {
            found.push(format!("says that {} succeeded, and {} pods did", status.succeeded, known.succeeded));
        }
        // One index is completed once, however many pods it had.
        let twice = if spec.is_indexed() { 0 } else { known.unacknowledged };
        if let Some(completions) = spec.completions {
            if status.succeeded > completions + twice {
                found.push(format!("{} succeeded of {completions}", status.succeeded));
            }
            let is_enough = status.succeeded >= completions || spec.is_success(&status.completed());
            if status.end() == Some("Complete") && !is_enough {
                found.push(format!("is complete with {} of {completions}", status.succeeded));
            }
        }
        let (completed, failed) = (status.completed(), status.failed());
        if let Some(index) = completed.intersection(&failed).next() {
            found.push(format!("says of index {index} that it succeeded and that it failed"));
        }
        if let Some(index) = known.done.iter().find(|index| !completed.contains(index) && !failed.contains(index)) {
            found.push(format!("has forgotten that index {index} is done"));
        }
        known.done = &completed | &failed;
        let old = std::mem::replace(&mut known.status, status);
        if let Some(end) = old.end().filter(|_| old != known.status) {
            found.push(format!("is {end}, and its status changes"));
        }
        if known.status.succeeded < old.succeeded || known.status.failed < old.failed {
            found.push(format!("counts backwards: {} and {}", known.status.succeeded, known.status.failed));
        }
        found
    }
}
