//! Sees to it that as many pods of a template are there as are wanted. Owns the pods of ReplicaSets and
//! ReplicationControllers, which are the same but for their names; watches both, and pods; makes, adopts, releases and
//! deletes pods, and writes the status of both kinds.

mod act;
pub mod order;
mod plan;
mod view;

use std::sync::Arc;
use std::time::Duration;

use rkube_operator::{Caches, Change, Informer, Key, Queue, QueueOptions};

use crate::Context;
use crate::metadata::Owner;
use crate::pods::{self, Pod};
use rkube_operator::events::Recorder;

pub use view::{ByController, Orphans, ReplicaSet, is_zero, replica_sets, replication_controllers};

/// A look at a set costs by its pods. So that a change of each of many pods does not cost a look at all of them, a set is
/// looked at after a change not before so much time per pod has passed.
const GATHER_PER_POD: Duration = Duration::from_micros(10);
const GATHER_MAX: Duration = Duration::from_millis(100);
/// What is gathered for no longer than this is not gathered.
const GATHER_MIN: Duration = Duration::from_millis(1);

/// What tells ReplicaSets and ReplicationControllers apart.
struct Kind {
    controller: &'static str,
    /// Who events come from.
    component: &'static str,
    api_version: &'static str,
    kind: &'static str,
    base: &'static str,
    plural: &'static str,
    /// Whether the status has the number of terminating pods.
    tells_terminating: bool,
}

static REPLICA_SET: Kind = Kind {
    controller: "replicaset-controller",
    component: "replicaset-controller",
    api_version: "apps/v1",
    kind: "ReplicaSet",
    base: "/apis/apps/v1",
    plural: "replicasets",
    tells_terminating: true,
};

static REPLICATION_CONTROLLER: Kind = Kind {
    controller: "replicationcontroller-controller",
    component: "replication-controller",
    api_version: "v1",
    kind: "ReplicationController",
    base: "/api/v1",
    plural: "replicationcontrollers",
    tells_terminating: false,
};

pub async fn run_replica_sets(context: Context) {
    let workers = context.settings.concurrent_replicaset_syncs;
    run(&REPLICA_SET, view::replica_sets, context, workers).await;
}

pub async fn run_replication_controllers(context: Context) {
    let workers = context.settings.concurrent_rc_syncs;
    run(&REPLICATION_CONTROLLER, view::replication_controllers, context, workers).await;
}

async fn run(kind: &'static Kind, sets: fn(&Caches) -> Informer<ReplicaSet>, context: Context, workers: usize) {
    let Context { client, caches, clock, .. } = context;
    // Of what fails, its events tell as often as upstream's.
    let queue: Queue<Key> = Queue::with(QueueOptions { every_failure_counts: true, ..QueueOptions::default() });
    let adding = queue.clone();
    let watched = sets(&caches).indexed::<view::ByController>().on_change(move |change| adding.add(change.key.clone()));
    watched.synced().await;
    let (adding, known) = (queue.clone(), sets(&caches));
    let pods = pods::informer(&caches).indexed::<pods::ByController>().indexed::<pods::Orphans>();
    let pods = pods.on_change(move |change| {
        for set in concerned(kind, &known, change) {
            let key = Key { namespace: set.item.namespace.to_string(), name: set.item.name.to_string() };
            match gather(&set) {
                Some(delay) => adding.add_after(key, delay),
                None => adding.add(key),
            }
        }
    });
    pods.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), kind.component);
    let manager = Arc::new(act::Manager { kind, client, clock, events, sets: watched, pods, queue: queue.clone() });
    rkube_operator::run(kind.controller, queue, workers, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

/// For how long changes of a set's pods are gathered.
fn gather(set: &ReplicaSet) -> Option<Duration> {
    let pods = u32::try_from(set.replicas.max(set.status.replicas)).unwrap_or(u32::MAX);
    Some(GATHER_PER_POD.saturating_mul(pods).min(GATHER_MAX)).filter(|delay| *delay >= GATHER_MIN)
}

/// The sets that have to look at their pods again.
fn concerned(kind: &Kind, sets: &Informer<ReplicaSet>, change: &Change<'_, Pod>) -> Vec<Arc<ReplicaSet>> {
    let (old, new) = (change.old.map(|pod| &**pod), change.new.map(|pod| &**pod));
    if !matters(old, new) {
        return Vec::new();
    }
    let owner = |pod: Option<&Pod>| pod.and_then(|pod| pod.controller.clone());
    let (before, now) = (owner(old), owner(new));
    let mut owners: Vec<Arc<Owner>> = before.clone().into_iter().collect();
    owners.extend(now.clone().filter(|now| Some(now) != before.as_ref()));
    let mut found: Vec<Arc<ReplicaSet>> =
        owners.iter().filter_map(|owner| resolve(kind, sets, change.key, owner)).collect();
    // Somebody may want a pod that nobody has, when it is new or changes.
    if let Some(pod) = new.filter(|pod| pod.controller.is_none() && pod.is_active())
        && old.is_none_or(|old| old.labels != pod.labels || before.is_some())
    {
        let all = sets.in_namespace(&change.key.namespace);
        found.extend(all.into_iter().filter(|set| set.selects(&pod.labels)));
    }
    found
}

/// Whether anything changed by which pods are counted, claimed or waited for.
fn matters(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let seen = |pod: &Pod| (pod.phase, pod.deleted.is_some(), pod.ready, pod.ready_changed);
    seen(old) != seen(new) || old.uid != new.uid || old.labels != new.labels || old.controller != new.controller
}

fn resolve(kind: &Kind, sets: &Informer<ReplicaSet>, pod: &Key, owner: &Owner) -> Option<Arc<ReplicaSet>> {
    if owner.kind != kind.kind {
        return None;
    }
    sets.get(&pod.namespace, &owner.name).filter(|set| set.item.uid == owner.uid)
}
