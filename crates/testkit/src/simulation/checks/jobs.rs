//! Jobs count what succeeded, once, and what is over stays so.

use std::collections::HashMap;

use super::view::{Job, JobStatus, Pod};

#[derive(Default)]
pub(super) struct Jobs {
    /// How many pods of a Job ever succeeded, by its uid.
    succeeded: HashMap<String, i64>,
    known: HashMap<String, (String, JobStatus)>,
}

impl Jobs {
    pub fn pod(&mut self, old: Option<&Pod>, new: Option<&Pod>) {
        let succeeded = |pod: &Pod| pod.status.phase == "Succeeded";
        let Some(new) = new.filter(|pod| succeeded(pod)) else { return };
        let again = old.is_some_and(|old| succeeded(old) && old.metadata.uid == new.metadata.uid);
        if let Some(job) = new.metadata.controller("Job").filter(|_| !again) {
            *self.succeeded.entry(job.to_owned()).or_default() += 1;
        }
    }

    pub fn job(&mut self, key: &str, job: Option<Job>, lost: u64) -> Vec<String> {
        let Some(Job { metadata, spec, status }) = job else {
            if let Some((uid, _)) = self.known.remove(key) {
                self.succeeded.remove(&uid);
            }
            return Vec::new();
        };
        let mut found = Vec::new();
        let pods = self.succeeded.get(&metadata.uid).copied().unwrap_or(0);
        if status.succeeded > pods {
            found.push(format!("says that {} succeeded, and {pods} pods did", status.succeeded));
        }
        // Each creation that was not acknowledged may have made one too many.
        if let Some(completions) = spec.completions
            && status.succeeded > completions + i64::try_from(lost).unwrap_or(i64::MAX)
        {
            found.push(format!("{} succeeded of {completions}", status.succeeded));
        }
        if status.end() == Some("Complete")
            && spec.completions.is_some_and(|completions| status.succeeded < completions)
        {
            found.push(format!("is complete with {} of {:?}", status.succeeded, spec.completions));
        }
        if let Some((_, old)) = self.known.get(key).filter(|(uid, _)| *uid == metadata.uid) {
            if let Some(end) = old.end().filter(|_| old != &status) {
                found.push(format!("is {end}, and its status changes"));
            }
            if status.succeeded < old.succeeded || status.failed < old.failed {
                found.push(format!("counts backwards: {} and {}", status.succeeded, status.failed));
            }
        }
        self.known.insert(key.to_owned(), (metadata.uid, status));
        found
    }
}
