//! What the API is told of a pod: its status, written one at a time; what changes meanwhile goes with the next write.

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::{Value, json};

use super::{Done, Life, Origin, Sandbox, Worker};
use crate::api;
use crate::pod::backoff::micros;
use crate::pod::spec;
use crate::pod::state::{Operation, Run};
use crate::pod::status;

/// When a write is tried again that failed; doubled up to the other.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// For so long a pod that gets on is not told of: most run, or are gone, by then, and one write says it all.
const QUIET: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Writer {
    busy: bool,
    failures: u32,
    retry_micros: i64,
    /// The API does not have the pod any more, nor a file.
    pub is_gone: bool,
    /// All that there is to say was said.
    pub is_up_to_date: bool,
    last_patch: String,
}

/// What came of a write.
pub(super) enum Written {
    /// The object as it is now.
    Done(Value),
    /// It is gone, or another.
    Gone,
    Failed(String),
}

impl Worker {
    /// What stands in the API for the pod.
    fn told_object(&self) -> Option<Arc<Value>> {
        match (self.origin == Origin::File, &self.mirror) {
            (false, _) => Some(self.pod.clone()),
            (true, mirror) => mirror.clone(),
        }
    }

    pub(super) fn report(&mut self) {
        if matches!(self.life, Life::Over) {
            return;
        }
        let now = self.now();
        let told = self.told_object();
        // A static pod has the status that its stand-in has.
        let mut pod = self.pod.clone();
        if let (true, Some(told)) = (self.origin == Origin::File, &told) {
            let mut whole = (*pod).clone();
            whole.set("status", told.get("status").clone());
            whole.object_mut("metadata").set("generation", told.get("metadata").get("generation").clone());
            pod = Arc::new(whole);
        }
        let containers = spec::containers(&pod);
        let has_ended = spec::is_terminal(pod.get("status").str("phase")) && !self.state.runs_anything();
        let is_settled = has_ended && matches!(self.life, Life::Stopped(_)) && self.was_told_end(&pod);
        let new = match is_settled {
            true => pod.get("status").clone(),
            false => status::status(&pod, &containers, &self.state, &self.kubelet.config.addresses, now),
        };
        let mut shown = (*pod).clone();
        shown.set("status", new.clone());
        if self.origin != Origin::Orphan {
            self.kubelet.known.put(&self.uid, Arc::new(shown));
        }
        let Some(told) = told.filter(|_| !self.writer.is_gone) else { return };
        let patch = status::patch(&told, &new).filter(|_| !is_settled);
        self.writer.is_up_to_date = patch.is_none() && !self.writer.busy;
        let Some(patch) = patch else { return };
        if self.writer.busy {
            return;
        }
        if let Some(until_micros) = self.quiet_until().filter(|until| *until > now) {
            return self.wake_at(until_micros);
        }
        if self.writer.retry_micros > now {
            return self.wake_at(self.writer.retry_micros);
        }
        let text = json::to_string(&patch);
        if text == self.writer.last_patch {
            // Written already, and not heard of yet, or undone by somebody: not at full speed.
            self.writer.last_patch.clear();
            self.writer.retry_micros = now + micros(RETRY_FIRST);
            return self.wake_at(self.writer.retry_micros);
        }
        self.writer.last_patch.clone_from(&text);
        self.writer.busy = true;
        let metadata = told.get("metadata");
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", metadata.str("namespace"), metadata.str("name"));
        let client = self.kubelet.config.client.clone();
        self.operations.spawn(async move {
            Done::Written(match api::patch_whole(&client, &path, text).await {
                Ok(Some(object)) => Written::Done(object),
                Ok(None) => Written::Gone,
                Err(error) => Written::Failed(error.to_string()),
            })
        });
    }

    /// Until when there is nothing to tell that will not be old in a moment.
    fn quiet_until(&self) -> Option<i64> {
        let records = || self.state.records.iter();
        let gets_on = match &self.life {
            Life::Running => {
                let is_busy = self.volumes.busy
                    || matches!(self.sandbox, Sandbox::Making { .. })
                    || records().any(|record| record.busy == Some(Operation::Start));
                is_busy && !records().any(|record| matches!(record.run, Run::Waiting(_)))
            }
            Life::Stopping(_) => true,
            Life::Stopped(_) | Life::Over => false,
        };
        gets_on.then(|| self.begun_micros + micros(QUIET))
    }

    /// A pod that has ended, and of whose end the API has heard, is not told of again but for its generation.
    fn was_told_end(&self, pod: &Value) -> bool {
        let generation = pod.get("metadata").int("generation");
        pod.get("status").int("observedGeneration") >= generation && !spec::is_deleted(pod)
    }

    pub(super) fn take_written(&mut self, written: Written) {
        let now = self.now();
        self.writer.busy = false;
        match written {
            Written::Done(object) => {
                (self.writer.failures, self.writer.retry_micros) = (0, 0);
                let object = Arc::new(object);
                match self.origin == Origin::File {
                    true => self.mirror = Some(object),
                    false => self.take_pod(object),
                }
            }
            // The watch says which.
            Written::Gone => self.writer.retry_micros = now + micros(RETRY_MAX),
            Written::Failed(error) => {
                let pod = spec::display_name(&self.pod);
                tracing::warn!(pod, %error, "the status of a pod cannot be written");
                let delay = (RETRY_FIRST * (1 << self.writer.failures.min(8))).min(RETRY_MAX);
                self.writer.failures = self.writer.failures.saturating_add(1);
                self.writer.retry_micros = now + micros(delay);
                self.writer.last_patch.clear();
            }
        }
    }
}
