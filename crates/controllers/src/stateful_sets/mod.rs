//! Keeps pods with names, places and claims of their own. Owns the pods, claims and revisions of StatefulSets; watches all
//! of them; makes, adopts, releases and deletes pods in their order, rolls templates out, and writes the status of
//! StatefulSets.

mod act;
mod members;
mod plan;
#[cfg(test)]
mod plan_tests;
mod retention;
mod revisions;
mod view;

use std::sync::Arc;
use std::time::Duration;

use rkube_operator::events::Recorder;
use rkube_operator::{Change, Informer, Key, Queue};

use crate::Context;
use crate::history::{self, Revision};
use crate::metadata::Owner;
use crate::pods::{self, Pod};

use view::Claim;
pub use view::{StatefulSet, stateful_sets};

const NAME: &str = "statefulset-controller";
/// A look at a set costs by its pods: after a change it waits for others for so long per pod, at most for the second.
const GATHER_PER_POD: Duration = Duration::from_micros(10);
const GATHER_MAX: Duration = Duration::from_millis(100);
/// What is gathered for no longer than this is not gathered.
const GATHER_MIN: Duration = Duration::from_millis(1);

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let max_unavailable = settings.feature_gates.max_unavailable_stateful_set;
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let sets = view::stateful_sets(&caches).on_change(move |change| adding.add(change.key.clone()));
    sets.synced().await;
    let (adding, known) = (queue.clone(), view::stateful_sets(&caches));
    let pods = pods::informer(&caches).indexed::<pods::ByController>().indexed::<pods::Orphans>();
    let pods = pods.on_change(move |change| {
        for set in concerned(&known, change) {
            let key = Key { namespace: set.item.namespace.to_string(), name: set.item.name.to_string() };
            match gather(&set) {
                Some(delay) => adding.add_after(key, delay),
                None => adding.add(key),
            }
        }
    });
    let (adding, known) = (queue.clone(), view::stateful_sets(&caches));
    let revisions = history::revisions(&caches).on_change(move |change| {
        // Who lost one makes it again; who finds one that nobody has adopts it.
        let owners =
            [change.old, change.new].into_iter().flatten().filter_map(|one: &Arc<Revision>| one.controller.clone());
        for set in owners.filter_map(|owner| resolve(&known, &change.key.namespace, &owner)) {
            adding.add(Key { namespace: set.item.namespace.to_string(), name: set.item.name.to_string() });
        }
    });
    let (adding, known) = (queue.clone(), view::stateful_sets(&caches));
    let claims = Arc::new(view::claims(&caches).on_change(move |change| {
        for set in released(&known, change) {
            adding.add(Key { namespace: set.item.namespace.to_string(), name: set.item.name.to_string() });
        }
    }));
    pods.synced().await;
    revisions.synced().await;
    claims.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), NAME);
    let manager =
        act::Manager { client, clock, events, sets, pods, claims, revisions, queue: queue.clone(), max_unavailable };
    let manager = Arc::new(manager);
    rkube_operator::run(NAME, queue, settings.concurrent_statefulset_syncs, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

/// For how long changes of a set's pods are gathered.
fn gather(set: &StatefulSet) -> Option<Duration> {
    let pods = u32::try_from(set.replicas.max(set.status.replicas)).unwrap_or(u32::MAX);
    Some(GATHER_PER_POD.saturating_mul(pods).min(GATHER_MAX)).filter(|delay| *delay >= GATHER_MIN)
}

/// The sets that have to look at their pods again.
fn concerned(sets: &Informer<StatefulSet>, change: &Change<'_, Pod>) -> Vec<Arc<StatefulSet>> {
    if !act::matters(change.old.map(|pod| &**pod), change.new.map(|pod| &**pod)) {
        return Vec::new();
    }
    let owner = |pod: Option<&Arc<Pod>>| pod.and_then(|pod| pod.controller.clone());
    let (before, now) = (owner(change.old), owner(change.new));
    let mut owners: Vec<Arc<Owner>> = before.clone().into_iter().collect();
    owners.extend(now.filter(|now| Some(now) != before.as_ref()));
    let namespace = &change.key.namespace;
    let mut found: Vec<Arc<StatefulSet>> = owners.iter().filter_map(|owner| resolve(sets, namespace, owner)).collect();
    // Somebody may want a pod that nobody has, when it is new or changes.
    if let Some(pod) = change.new.filter(|pod| pod.controller.is_none() && pod.deleted.is_none())
        && change.old.is_none_or(|old| old.labels != pod.labels || before.is_some())
    {
        found.extend(sets.in_namespace(namespace).into_iter().filter(|set| set.selects(&pod.labels)));
    }
    found
}

/// The sets that may have waited until a claim goes with a pod, by the name that they gave the pod: nothing else tells them
/// that the claim is gone, or no longer the pod's.
fn released(sets: &Informer<StatefulSet>, change: &Change<'_, Claim>) -> Vec<Arc<StatefulSet>> {
    let Some(old) = change.old else { return Vec::new() };
    let is_still = |pod: &str| change.new.is_some_and(|new| new.pods().any(|one| one == pod));
    let names = old.pods().filter(|pod| !is_still(pod)).filter_map(|pod| pod.rsplit_once('-'));
    names.filter_map(|(set, _)| sets.get(&change.key.namespace, set)).collect()
}

fn resolve(sets: &Informer<StatefulSet>, namespace: &str, owner: &Owner) -> Option<Arc<StatefulSet>> {
    if owner.kind != "StatefulSet" {
        return None;
    }
    sets.get(namespace, &owner.name).filter(|set| set.item.uid == owner.uid)
}
