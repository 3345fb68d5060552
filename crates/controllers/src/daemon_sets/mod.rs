//! Has a pod on every node that is to have one. Owns the pods and revisions of DaemonSets; watches both, and nodes; makes,
//! adopts, releases and deletes pods, rolls templates out, and writes the status of DaemonSets. The scheduler places the
//! pods: each is for one node only.

mod act;
mod backoff;
mod placement;
mod plan;
#[cfg(test)]
mod plan_tests;
mod revisions;
mod view;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_operator::events::Recorder;
use rkube_operator::{Caches, Change, Informer, Key, Queue, QueueOptions};

use crate::Context;
use crate::history::{self, Revision};
use crate::metadata::Owner;
use crate::nodes::{self, Node};
use crate::pods::{self, Pod};
use backoff::Backoffs;
use view::DaemonSet;

const NAME: &str = "daemonset-controller";
/// A look at a set costs by its pods: after a change it waits for others for so long per pod, at most for the second.
const GATHER_PER_POD: Duration = Duration::from_micros(10);
const GATHER_MAX: Duration = Duration::from_millis(100);
/// What is gathered for no longer than this is not gathered.
const GATHER_MIN: Duration = Duration::from_millis(1);

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    // Of what fails, its events tell as often as upstream's.
    let queue: Queue<Key> = Queue::with(QueueOptions { every_failure_counts: true, ..QueueOptions::default() });
    let backoffs: Arc<Mutex<Backoffs>> = Arc::default();
    let (adding, forgetting) = (queue.clone(), backoffs.clone());
    let sets = view::daemon_sets(&caches).on_change(move |change| {
        adding.add(change.key.clone());
        if let Some(old) = change.old.filter(|old| change.new.is_none_or(|new| new.item.uid != old.item.uid)) {
            forgetting.lock().forget(&old.item.uid);
        }
    });
    sets.synced().await;
    let (adding, known) = (queue.clone(), view::daemon_sets(&caches));
    let pods = pods::informer(&caches).indexed::<pods::ByController>().indexed::<pods::Orphans>();
    let pods = pods.on_change(move |change| {
        for set in concerned(&known, change) {
            match gather(&set) {
                Some(delay) => adding.add_after(key_of(&set), delay),
                None => adding.add(key_of(&set)),
            }
        }
    });
    let nodes = follow_nodes(&caches, &queue);
    let (adding, known) = (queue.clone(), view::daemon_sets(&caches));
    let revisions = history::revisions(&caches).on_change(move |change| {
        for set in concerned_by_revision(&known, change) {
            adding.add(key_of(&set));
        }
    });
    pods.synced().await;
    nodes.synced().await;
    revisions.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), NAME);
    let manager =
        Arc::new(act::Manager { client, clock, events, sets, pods, nodes, revisions, queue: queue.clone(), backoffs });
    rkube_operator::run(NAME, queue, settings.concurrent_daemonset_syncs, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

/// Sets hear of nodes that come, and that change. A node that goes tells them nothing: its pods will, when they go.
fn follow_nodes(caches: &Caches, queue: &Queue<Key>) -> Informer<Node> {
    let (adding, sets) = (queue.clone(), view::daemon_sets(caches));
    let pods = pods::informer(caches).indexed::<pods::ByNode>();
    nodes::informer(caches).on_change(move |change| {
        let same = |old: &Node| change.new.is_some_and(|new| old.labels == new.labels && old.taints == new.taints);
        let Some(node) = change.new.filter(|_| !change.old.is_some_and(|old| same(old))) else { return };
        let pods = pods.by_index::<pods::ByNode, _>(&*node.name);
        for set in sets.all() {
            let of_set = |pod: &Arc<Pod>| pod.controller.as_ref().is_some_and(|owner| owner.uid == set.item.uid);
            let misscheduled = set.status.number_misscheduled > 0;
            if set.placement.fit(node).concerns(pods.iter().any(of_set), misscheduled) {
                adding.add(key_of(&set));
            }
        }
    })
}

fn key_of(set: &DaemonSet) -> Key {
    Key { namespace: set.item.namespace.to_string(), name: set.item.name.to_string() }
}

/// For how long changes of a set's pods are gathered.
fn gather(set: &DaemonSet) -> Option<Duration> {
    let pods = u32::try_from(set.status.desired_number_scheduled).unwrap_or(u32::MAX);
    Some(GATHER_PER_POD.saturating_mul(pods).min(GATHER_MAX)).filter(|delay| *delay >= GATHER_MIN)
}

/// The sets that have to look at their pods again.
fn concerned(sets: &Informer<DaemonSet>, change: &Change<'_, Pod>) -> Vec<Arc<DaemonSet>> {
    if !matters(change.old.map(|pod| &**pod), change.new.map(|pod| &**pod)) {
        return Vec::new();
    }
    let owner = |pod: Option<&Arc<Pod>>| pod.and_then(|pod| pod.controller.clone());
    let (before, now) = (owner(change.old), owner(change.new));
    let mut owners: Vec<Arc<Owner>> = before.clone().into_iter().collect();
    owners.extend(now.filter(|now| Some(now) != before.as_ref()));
    let namespace = &change.key.namespace;
    let mut found: Vec<Arc<DaemonSet>> = owners.iter().filter_map(|owner| resolve(sets, namespace, owner)).collect();
    // Somebody may want a pod that nobody has, when it is new or changes.
    if let Some(pod) = change.new.filter(|pod| pod.controller.is_none() && pod.deleted.is_none())
        && change.old.is_none_or(|old| old.labels != pod.labels || before.is_some())
    {
        found.extend(sets.in_namespace(namespace).into_iter().filter(|set| set.selects(&pod.labels)));
    }
    found
}

/// The sets that have to look at their revisions again. One that comes with its owner tells that one nothing, as upstream:
/// what it is worth is found out with the next change.
fn concerned_by_revision(sets: &Informer<DaemonSet>, change: &Change<'_, Revision>) -> Vec<Arc<DaemonSet>> {
    let namespace = &change.key.namespace;
    let owner = |revision: Option<&Arc<Revision>>| revision.and_then(|one| one.controller.clone());
    let (before, now) = (owner(change.old), owner(change.new));
    let mut owners: Vec<Arc<Owner>> =
        before.clone().into_iter().filter(|before| Some(before) != now.as_ref()).collect();
    let is_new = change.old.is_none() && change.new.is_some_and(|new| new.deleted.is_none());
    owners.extend(now.filter(|_| !is_new));
    let mut found: Vec<Arc<DaemonSet>> = owners.iter().filter_map(|owner| resolve(sets, namespace, owner)).collect();
    // Somebody may want one that nobody has, when it is new or changes.
    if let Some(orphan) = change.new.filter(|new| new.controller.is_none())
        && change.old.is_none_or(|old| old.labels != orphan.labels || before.is_some())
    {
        found.extend(sets.in_namespace(namespace).into_iter().filter(|set| set.selects(&orphan.labels)));
    }
    found
}

/// Whether anything changed by which pods are counted, claimed or waited for.
fn matters(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let seen = |pod: &Pod| (pod.phase, pod.deleted.is_some(), pod.ready, pod.ready_changed, pod.node.is_empty());
    seen(old) != seen(new) || old.uid != new.uid || old.labels != new.labels || old.controller != new.controller
}

fn resolve(sets: &Informer<DaemonSet>, namespace: &str, owner: &Owner) -> Option<Arc<DaemonSet>> {
    if owner.kind != "DaemonSet" {
        return None;
    }
    sets.get(namespace, &owner.name).filter(|set| set.item.uid == owner.uid)
}
