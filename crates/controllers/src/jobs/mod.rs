//! Runs pods until enough of them have succeeded. Owns the pods of Jobs; watches both; makes, adopts, releases, deletes and
//! counts pods, and writes the status of Jobs. Pods keep a finalizer until they are counted.

mod act;
mod backoff;
mod indexes;
mod new_pods;
mod order;
mod plan;
#[cfg(test)]
mod plan_tests;
mod policy;
mod track;
mod view;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_operator::events::Recorder;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Change, Informer, Key, Outcome, Queue, QueueOptions};

use crate::Context;
use crate::metadata::Owner;
use crate::pods::{self, Pod};

pub use view::{ByController, Job, jobs};

const NAME: &str = "job-controller";
/// Pods that end together are looked at together, for as long as upstream gathers them: whether one that failed ends
/// a Job whose others have just succeeded would else be a matter of luck.
const GATHER_FEW: Duration = Duration::from_secs(1);
const FEW: i64 = 100;
/// Of many there are always some that end: a look costs by their number, and changes wait for others for so long per pod,
/// at most for the second.
const GATHER_PER_POD: Duration = Duration::from_micros(10);
const GATHER_MAX: Duration = Duration::from_millis(100);
/// A Job whose pods cannot be made is tried again after this time, and then after twice as long each time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// What may have pods with a finalizer that nobody will count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Left {
    Pod(Key),
    /// By a Job of this uid.
    By(Text),
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let workers = settings.concurrent_job_syncs;
    let retry = QueueOptions { backoff_first: RETRY_FIRST, backoff_max: RETRY_MAX, ..QueueOptions::default() };
    let (queue, left): (Queue<Key>, Queue<Left>) = (Queue::with(retry.clone()), Queue::with(retry));
    let (adding, leaving) = (queue.clone(), left.clone());
    let watched = jobs(&caches).on_change(move |change| {
        match change.old.zip(change.new).filter(|(old, new)| old.generation == new.generation) {
            Some((_, job)) => adding.add_after(change.key.clone(), gather(job)),
            None => adding.add(change.key.clone()),
        }
        let gone = change.old.filter(|old| change.new.is_none_or(|new| new.item.uid != old.item.uid));
        let ended = change.new.filter(|job| job.end().is_some() && !job.managed_elsewhere);
        for job in gone.into_iter().chain(ended) {
            leaving.add(Left::By(job.item.uid.clone()));
        }
    });
    watched.synced().await;
    let (adding, leaving, known) = (queue.clone(), left.clone(), jobs(&caches));
    let pods = pods::informer(&caches).indexed::<pods::OpenOfJob>().indexed::<pods::Orphans>();
    let pods = pods.on_change(move |change| {
        for job in concerned(&known, change) {
            let key = Key { namespace: job.item.namespace.to_string(), name: job.item.name.to_string() };
            adding.add_after(key, gather(&job));
        }
        if change.new.is_some_and(|pod| pod.tracked && (pod.controller.is_none() || pod.deleted.is_some())) {
            leaving.add(Left::Pod(change.key.clone()));
        }
    });
    pods.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), NAME);
    let manager = Arc::new(act::Manager {
        client: client.clone(),
        clock,
        events,
        jobs: watched,
        pods,
        queue: queue.clone(),
        backoffs: Mutex::default(),
    });
    let cleaning = rkube_operator::run("job-controller-left-pods", left, workers, {
        let manager = manager.clone();
        move |left: Left| {
            let (manager, client) = (manager.clone(), client.clone());
            async move { clean(&manager, &client, left).await.map_err(rkube_operator::Error::from) }
        }
    });
    let reconciling = rkube_operator::run(NAME, queue, workers, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    });
    tokio::join!(cleaning, reconciling);
}

/// Removes the finalizers of pods that no Job will count: it is gone, or has ended.
async fn clean(manager: &act::Manager, client: &Client, left: Left) -> Result<Outcome, kube::Error> {
    let pods = match left {
        Left::Pod(key) => manager.pods.get(&key.namespace, &key.name).into_iter().collect(),
        Left::By(uid) => manager.pods.by_index::<pods::OpenOfJob, _>(&*uid),
    };
    for pod in pods.iter().filter(|pod| pod.tracked) {
        let job = match &pod.controller {
            Some(owner) if owner.kind != "Job" || owner.api_version != "batch/v1" => continue,
            Some(owner) => resolve(&manager.jobs, &pod.namespace, owner),
            None => None,
        };
        if job.is_none_or(|job| job.end().is_some() && !job.managed_elsewhere) {
            act::untrack(client, pod).await?;
        }
    }
    Ok(Outcome::Unchanged)
}

/// For how long changes of a Job's pods are gathered.
fn gather(job: &Job) -> Duration {
    let pods = job.parallelism.max(job.status.active);
    if pods <= FEW {
        return GATHER_FEW;
    }
    GATHER_PER_POD.saturating_mul(u32::try_from(pods).unwrap_or(u32::MAX)).min(GATHER_MAX)
}

/// The Jobs that have to look at their pods again.
fn concerned(jobs: &Informer<Job>, change: &Change<'_, Pod>) -> Vec<Arc<Job>> {
    let owner = |pod: Option<&Arc<Pod>>| pod.and_then(|pod| pod.controller.clone());
    let (before, now) = (owner(change.old), owner(change.new));
    let mut owners: Vec<Arc<Owner>> = before.clone().into_iter().collect();
    owners.extend(now.filter(|now| Some(now) != before.as_ref()));
    let namespace = &change.key.namespace;
    let mut found: Vec<Arc<Job>> = owners.iter().filter_map(|owner| resolve(jobs, namespace, owner)).collect();
    // Somebody may want a pod that nobody has, when it is new or changes.
    if let Some(pod) = change.new.filter(|pod| pod.controller.is_none() && pod.deleted.is_none())
        && change.old.is_none_or(|old| old.labels != pod.labels || before.is_some())
    {
        found.extend(jobs.in_namespace(namespace).into_iter().filter(|job| job.selects(&pod.labels)));
    }
    found
}

fn resolve(jobs: &Informer<Job>, namespace: &str, owner: &Owner) -> Option<Arc<Job>> {
    if owner.kind != "Job" {
        return None;
    }
    jobs.get(namespace, &owner.name).filter(|job| job.item.uid == owner.uid)
}
