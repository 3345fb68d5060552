//! One reconcile of a CronJob: reads the caches, plans, and acts through the API.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::events::Recorder;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::cron_jobs::plan::{self, Plan};
use crate::cron_jobs::schedule;
use crate::cron_jobs::view::{CronJob, Reference, Status};
use crate::jobs::{ByController, Job};
use crate::owner::{Error, Kind, Owner};
use crate::requests::{self, is_namespace_terminating};

pub static CRON_JOB: Kind =
    Kind { api_version: "batch/v1", kind: "CronJob", base: "/apis/batch/v1", plural: "cronjobs" };

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub struct Manager {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub cron_jobs: Informer<CronJob>,
    pub jobs: Informer<Job>,
    pub queue: Queue<Key>,
}

impl Manager {
    pub async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(cron) = self.cron_jobs.get(&key.namespace, &key.name) else { return Ok(Outcome::Unchanged) };
        let owner = Owner { kind: &CRON_JOB, item: &cron.item, client: &self.client, events: &self.events };
        let jobs = self.jobs.by_index::<ByController, _>(&*cron.item.uid);
        let mut removed = Vec::new();
        for job in plan::expired(&cron, &jobs) {
            // One that cannot go is told of and stays: what is due is made all the same.
            if self.delete(owner, &job.item.name).await.is_ok() {
                removed.push(job.item.uid.clone());
            }
        }
        let is_there = |name: &str| self.jobs.get(&cron.item.namespace, name).is_some();
        let Plan { mut status, told, start, replace, again } =
            plan::plan(&cron, &jobs, &removed, &is_there, self.clock.now_micros());
        for (is_warning, reason, message) in told {
            if is_warning { owner.warn(reason, message) } else { owner.tell(reason, message) }
        }
        if let Some(at) = start {
            if let Err(error) = self.replace(owner, &replace, &mut status).await {
                status.last_schedule_time.clone_from(&cron.status.last_schedule_time);
                self.write_status(owner, &cron, &status).await?;
                return Err(error);
            }
            match self.create(owner, &cron, at).await {
                Ok(Some(made)) => status.active.push(made),
                // Who made it notes it.
                Ok(None) => status.last_schedule_time.clone_from(&cron.status.last_schedule_time),
                Err(error) => {
                    // It is due until it is made.
                    status.last_schedule_time.clone_from(&cron.status.last_schedule_time);
                    self.write_status(owner, &cron, &status).await?;
                    return if is_namespace_terminating(&error) { Ok(Outcome::Unchanged) } else { Err(error.into()) };
                }
            }
        }
        self.write_status(owner, &cron, &status).await?;
        if let Some(delay) = again {
            self.queue.add_after(key.clone(), delay);
        }
        Ok(Outcome::Unchanged)
    }

    async fn write_status(&self, owner: Owner<'_>, cron: &CronJob, status: &Status) -> Result<(), Error> {
        if *status == cron.status {
            return Ok(());
        }
        owner.write_status(status).await.map(drop)
    }

    /// Deletes the Jobs that are to be replaced, up to the first that does not go. Those that went are no longer active.
    async fn replace(&self, owner: Owner<'_>, jobs: &[Reference], status: &mut Status) -> Result<(), Error> {
        for job in jobs {
            let path = format!("{}/{}", owner.beside("/apis/batch/v1", "jobs"), job.name);
            let live = requests::get(&self.client, &path).await.inspect_err(|error| {
                owner.warn("FailedGet", format!("Get job: {}", requests::message(error)));
            })?;
            let what = || format!("could not replace job {}/{}", owner.item.namespace, job.name);
            let deleted = self.delete(owner, &job.name).await;
            deleted.map_err(|error| Error::For { what: what(), error })?;
            status.active.retain(|active| active.uid != live.metadata.uid.as_str());
        }
        Ok(())
    }

    async fn delete(&self, owner: Owner<'_>, name: &str) -> Result<(), kube::Error> {
        let path = format!("{}/{name}", owner.beside("/apis/batch/v1", "jobs"));
        let options = json!({ "propagationPolicy": "Background" });
        match requests::delete_with(&self.client, &path, options).await {
            Ok(_) => owner.tell("SuccessfulDelete", format!("Deleted job {name}")),
            Err(error) => {
                owner.warn("FailedDelete", format!("Deleted job: {}", requests::message(&error)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes the Job of a time. None: it is somebody else's.
    async fn create(&self, owner: Owner<'_>, cron: &CronJob, at: i64) -> Result<Option<Reference>, kube::Error> {
        let name = plan::job_name(cron, at);
        let path = owner.beside("/apis/batch/v1", "jobs");
        let body = body(owner, cron, &name, at).map_err(kube::Error::SerdeError)?;
        let reference = |uid: &str, version: &str| Reference {
            kind: "Job".into(),
            namespace: cron.item.namespace.clone(),
            name: name.as_str().into(),
            uid: uid.into(),
            api_version: "batch/v1".into(),
            resource_version: version.into(),
        };
        match requests::create(&self.client, &path, body.to_string().into_bytes()).await {
            Ok(made) => {
                owner.tell("SuccessfulCreate", format!("Created job {name}"));
                Ok(Some(reference(&made.metadata.uid, &made.metadata.resource_version)))
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let there = requests::get_value(&self.client, &format!("{path}/{name}")).await?;
                let mut owners = there["metadata"]["ownerReferences"].as_array().into_iter().flatten();
                let is_ours = owners.any(|one| one["uid"] == owner.item.uid.as_str() && one["controller"] == true);
                let text = |field: &str| there["metadata"][field].as_str().unwrap_or_default();
                Ok(is_ours.then(|| reference(text("uid"), text("resourceVersion"))))
            }
            Err(error) if is_namespace_terminating(&error) => Err(error),
            Err(error) => {
                owner.warn("FailedCreate", format!("Error creating job: {}", requests::message(&error)));
                Err(error)
            }
        }
    }
}

fn body(owner: Owner<'_>, cron: &CronJob, name: &str, at: i64) -> serde_json::Result<Value> {
    let mut template = owner.item.parse::<Value>()?["spec"]["jobTemplate"].take();
    let mut metadata = json!({ "name": name, "ownerReferences": [owner.reference()] });
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            metadata[field] = template["metadata"][field].take();
        }
    }
    metadata["annotations"][SCHEDULED] = in_zone(cron, at).into();
    Ok(json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"].take() }))
}

/// A time as it is in the CronJob's zone.
fn in_zone(cron: &CronJob, at: i64) -> String {
    let zone = cron.time_zone.as_deref().and_then(schedule::zone);
    let offset =
        zone.zip(Timestamp::from_second(at).ok()).map_or(0, |(zone, at)| i64::from(zone.to_offset(at).seconds()));
    let utc = time::format_seconds(at.saturating_add(offset));
    if offset == 0 {
        return utc;
    }
    let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
    format!("{}{sign}{:02}:{:02}", utc.trim_end_matches('Z'), minutes / 60, minutes % 60)
}
