//! Rolls templates of pods out. Owns the ReplicaSets of Deployments: one per template that was; watches both, and whether
//! pods of old sets still run; makes, scales, adopts, releases and deletes sets, and writes the status and the revision
//! of Deployments.

mod act;
mod plan;
#[cfg(test)]
mod plan_tests;
mod revisions;
mod sets;
mod status;
mod view;

use std::sync::Arc;

use rkube_operator::{Change, Informer, Key, Queue};

use crate::Context;
use crate::pods;
use crate::replica_sets::{self, ByController, Orphans, ReplicaSet};
use parking_lot::Mutex;
use rkube_operator::events::Recorder;

pub use view::{Deployment, deployments};

const NAME: &str = "deployment-controller";

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let deployments = view::deployments(&caches).on_change(move |change| adding.add(change.key.clone()));
    deployments.synced().await;
    let (adding, known) = (queue.clone(), view::deployments(&caches));
    let sets = replica_sets::replica_sets(&caches).indexed::<ByController>().indexed::<Orphans>();
    let sets = sets.on_change(move |change| {
        for name in concerned(&known, change) {
            adding.add(Key { namespace: change.key.namespace.clone(), name });
        }
    });
    sets.synced().await;
    let pods = pods::informer(&caches).indexed::<pods::ByController>();
    pods.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), NAME);
    let manager = Arc::new(act::Manager {
        client,
        clock,
        events,
        deployments,
        sets,
        pods,
        queue: queue.clone(),
        done: Mutex::default(),
    });
    rkube_operator::run(NAME, queue, settings.concurrent_deployment_syncs, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

/// The Deployments that have to look at their sets again. (That a pod is gone they learn from its set's status.)
fn concerned(deployments: &Informer<Deployment>, change: &Change<'_, ReplicaSet>) -> Vec<String> {
    let owner = |set: Option<&Arc<ReplicaSet>>| set.and_then(|set| set.controller.clone());
    let (before, now) = (owner(change.old), owner(change.new));
    let mut owners: Vec<_> = before.clone().into_iter().collect();
    owners.extend(now.filter(|now| Some(now) != before.as_ref()));
    let known = owners.into_iter().filter(|owner| {
        let found = deployments.get(&change.key.namespace, &owner.name);
        owner.kind == "Deployment" && found.is_some_and(|deployment| deployment.item.uid == owner.uid)
    });
    let mut names: Vec<String> = known.map(|owner| owner.name.to_string()).collect();
    if let Some(set) = change.new.filter(|set| set.controller.is_none() && set.deleted.is_none())
        && change.old.is_none_or(|old| old.labels != set.labels || before.is_some())
    {
        let all = deployments.in_namespace(&change.key.namespace);
        let matching = all.iter().filter(|deployment| deployment.selects(&set.labels));
        names.extend(matching.map(|deployment| deployment.item.name.to_string()));
    }
    names
}
