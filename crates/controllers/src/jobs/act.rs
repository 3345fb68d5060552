//! One reconcile of a Job: reads the caches, plans, and acts through the API.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_machinery::host::Clock;
use rkube_operator::events::Recorder;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde_json::json;

use crate::jobs::backoff::Backoff;
use crate::jobs::new_pods;
use crate::jobs::plan::{self, Look, Step};
use crate::jobs::track::{self, Acted, Tracking};
use crate::jobs::view::{COMPLETE, Job, Mode, SUCCESS_CRITERIA_MET};
use crate::owner::{Error, Kind, Owner, all, path_of};
use crate::pods::{self, Pod, TRACKING};
use crate::requests::{self, is_not_found};

pub static JOB: Kind = Kind { api_version: "batch/v1", kind: "Job", base: "/apis/batch/v1", plural: "jobs" };

pub struct Manager {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub jobs: Informer<Job>,
    pub pods: Informer<Pod>,
    pub queue: Queue<Key>,
    /// The failures of pods of each Job that has not ended.
    pub backoffs: Mutex<HashMap<Key, (Text, Backoff)>>,
}

impl Manager {
    pub async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let found = self.jobs.get(&key.namespace, &key.name).filter(|job| !job.managed_elsewhere);
        let Some(job) = found.filter(|job| job.end().is_none()) else {
            self.backoffs.lock().remove(key);
            return Ok(Outcome::Unchanged);
        };
        let owner = Owner { kind: &JOB, item: &job.item, client: &self.client, events: &self.events };
        if job.mode == Mode::Unknown {
            owner.warn("UnknownCompletionMode", "Skipped Job sync because completion mode is unknown");
            return Ok(Outcome::Unchanged);
        }
        let Claimed { pods, adopted, released } = self.claim(owner, &job).await?;
        if adopted {
            // What there is to know of them is known when they are read again.
            self.queue.add(key.clone());
            return Ok(Outcome::Unchanged);
        }
        let now = self.clock.now_micros();
        let look = plan::look(&job, &pods, self.backoff(key, &job), now);
        let (acted, finish, failed) = self.act(owner, key, &job, &pods, &look, now).await?;
        let made = acted.created > 0;
        self.settle(owner, key, &job, &pods, &look, (acted, finish)).await?;
        if let Some(delay) = look.deadline_in {
            self.queue.add_after(key.clone(), delay);
        }
        failed.map_or(Ok(()), Err)?;
        // Pods that turn out to be none of the Job's would be made at full speed.
        Ok(if released && made { Outcome::Wrote } else { Outcome::Unchanged })
    }

    fn backoff(&self, key: &Key, job: &Job) -> Backoff {
        let backoffs = self.backoffs.lock();
        backoffs.get(key).filter(|(uid, _)| *uid == job.item.uid).map(|(_, backoff)| *backoff).unwrap_or_default()
    }

    /// The pods of the Job that matter; those that nobody has are adopted, those that it does not select released.
    async fn claim(&self, owner: Owner<'_>, job: &Job) -> Result<Claimed, Error> {
        let owned = self.pods.by_index::<pods::OpenOfJob, _>(&*job.item.uid);
        let (pods, lost): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = owned.into_iter().partition(|pod| job.selects(&pod.labels));
        let mut claimed = Claimed { pods, adopted: false, released: false };
        if job.deleted.is_some() {
            return Ok(claimed);
        }
        for pod in lost {
            owner.release(&path_of(&pod), &pod.uid, &[TRACKING]).await?;
            claimed.released = true;
        }
        let orphans: Vec<Arc<Pod>> = self.pods.with_index::<pods::Orphans, _, _>(&*job.item.namespace, |found| {
            found.values().filter(|pod| pod.deleted.is_none() && job.selects(&pod.labels)).cloned().collect()
        });
        if !orphans.is_empty() {
            owner.check_that_it_stays().await?;
        }
        for pod in orphans {
            claimed.adopted |= owner.adopt(&path_of(&pod), &pod.uid, &[TRACKING]).await?;
        }
        Ok(claimed)
    }

    /// Makes and deletes pods. What was done, the condition by which the Job ends, and what failed.
    async fn act(
        &self,
        owner: Owner<'_>,
        key: &Key,
        job: &Job,
        pods: &[Arc<Pod>],
        look: &Look,
        now: i64,
    ) -> Result<(Acted, Option<plan::Finish>, Option<Error>), Error> {
        let mut acted = Acted::default();
        if let Some(finish) = &look.finish {
            let (gone, failed) = owner.delete_pods(&look.active).await;
            acted.note_deleted(&gone);
            let finish = (gone.len() == look.active.len()).then(|| plan::Finish::By(finish.clone()));
            return Ok((acted, finish, failed.map(Error::from)));
        }
        if job.deleted.is_some() {
            return Ok((acted, self.is_complete(job, look, acted), None));
        }
        let mut failed = None;
        match plan::step(job, pods, look, now) {
            Step::Nothing => {}
            Step::Wait(delay) => self.queue.add_after(key.clone(), delay),
            Step::Create(new) => {
                let again = new.len() == plan::BURST;
                let (made, error) = owner.create_pods(new_pods::bodies(owner, &new)?).await;
                acted.created = plan::as_count(made);
                failed = error;
                if again {
                    self.queue.add(key.clone());
                }
            }
            Step::Delete(extra) => {
                let again = extra.len() == plan::BURST;
                let (untracked, error) = self.untrack(&extra).await;
                let (gone, error_of_deletion) = owner.delete_pods(&untracked).await;
                acted.note_deleted(&gone);
                failed = error.or(error_of_deletion);
                if again {
                    self.queue.add(key.clone());
                }
            }
        }
        let finish = self.is_complete(job, look, acted).or(Some(plan::Finish::Not));
        Ok((acted, finish, failed.map(Error::from)))
    }

    /// Whether all completions are there and nothing runs any more.
    fn is_complete(&self, job: &Job, look: &Look, acted: Acted) -> Option<plan::Finish> {
        let active = plan::as_count(look.active.len()) + acted.created - acted.deleted;
        let enough = job.completions.map_or(look.succeeded > 0, |completions| look.succeeded >= completions);
        let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
        let now = self.clock.now_seconds();
        let met = || plan::condition(SUCCESS_CRITERIA_MET, "True", reason, message, now);
        (active == 0 && enough).then(|| plan::Finish::By(met()))
    }

    /// Writes the status, removes finalizers, and writes what became of that.
    async fn settle(
        &self,
        owner: Owner<'_>,
        key: &Key,
        job: &Job,
        pods: &[Arc<Pod>],
        look: &Look,
        (acted, finish): (Acted, Option<plan::Finish>),
    ) -> Result<(), Error> {
        let now = self.clock.now_seconds();
        let (mut status, mut flush) = track::running(job, look, acted);
        let finish = match finish {
            Some(plan::Finish::By(condition)) => Some(condition),
            Some(plan::Finish::Not) => {
                if let Some((reason, message)) = track::suspend(job, &mut status, now) {
                    owner.tell(reason, message);
                    flush = true;
                }
                None
            }
            None => None,
        };
        let Tracking { mut status, flush, untrack, mut tracked, end } =
            track::track(job, look, pods, finish, status, flush, now);
        let mut version = job.item.revision.to_string();
        if flush {
            match owner.write_status_of(&version, &status).await? {
                Some(written) => version = written,
                None => return Ok(()),
            }
            self.backoffs.lock().insert(key.clone(), (job.item.uid.clone(), look.backoff));
        }
        let (untracked, failed) = self.untrack(&untrack).await;
        for pod in &untracked {
            tracked.remove(&pod.uid);
        }
        let mut flush = track::count(&mut status, &tracked);
        let ended = failed.is_none() && track::end(&mut status, end.as_ref());
        flush |= ended;
        if flush {
            owner.write_status_of(&version, &status).await?;
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        if let Some(end) = end.filter(|_| ended) {
            if end.kind != COMPLETE {
                owner.warn(&end.reason, end.message);
            } else {
                if job.completions.is_some_and(|completions| status.succeeded > completions) {
                    let message = "Too many succeeded pods running after completion count reached";
                    owner.warn("TooManySucceededPods", message);
                }
                owner.tell("Completed", "Job completed");
            }
        }
        Ok(())
    }

    /// Removes the finalizers of pods. Those that have none any more, and the first failure.
    async fn untrack(&self, pods: &[Arc<Pod>]) -> (Vec<Arc<Pod>>, Option<kube::Error>) {
        let outcomes = all(pods.iter().cloned().map(|pod| {
            let client = self.client.clone();
            async move { (untrack(&client, &pod).await, pod) }
        }));
        let (mut done, mut failed) = (Vec::new(), None);
        for (outcome, pod) in outcomes.await {
            match outcome {
                Ok(()) => done.push(pod),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        (done, failed)
    }
}

struct Claimed {
    pods: Vec<Arc<Pod>>,
    adopted: bool,
    released: bool,
}

/// Removes the finalizer of a pod. One that is gone has none.
pub async fn untrack(client: &Client, pod: &Pod) -> Result<(), kube::Error> {
    if !pod.tracked {
        return Ok(());
    }
    let patch = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [TRACKING] } });
    match requests::patch(client, &path_of(pod), &patch).await {
        Err(error) if is_not_found(&error) => Ok(()),
        other => other.map(drop),
    }
}
