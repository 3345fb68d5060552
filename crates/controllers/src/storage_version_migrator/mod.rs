//! Writes all objects of a resource again, so that they are stored in the version of today. Owns the status of
//! StorageVersionMigrations, and the condition `StorageMigrating` and the `storedVersions` of the definitions of custom
//! resources that are migrated. Runs where the gate `StorageVersionMigrator` is on and the kind is served.
//!
//! A migration waits for its turn (`turns`), notes the revision up to which objects are old, and has an apply of nothing at
//! all write each of these (`objects`). What is told of it is in `plan`.

mod objects;
mod plan;
mod turns;
mod view;

use std::sync::Arc;

use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Discovered, Key, Queue};

use crate::Context;
use objects::Migrator;
use turns::Turns;
use view::{GROUP, GroupResource, PLURAL};

const NAME: &str = "storage-version-migrator-controller";
/// The queue of those who wait for their turn, by upstream's name.
const RUNNER: &str = "migration-runner-controller";
/// So many migrations are worked on at a time.
const WORKERS: usize = 5;

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let Some(resource) = served(&caches.source().resources().await.unwrap_or_default()) else {
        tracing::info!("storageversionmigrations are not served: nothing is migrated");
        return std::future::pending().await;
    };
    let (names, resources): (Queue<Key>, Queue<GroupResource>) = (Queue::new(), Queue::new());
    let (adding_name, adding_resource) = (names.clone(), resources.clone());
    let migrations = view::informer(&caches, &resource).on_change(move |change| {
        adding_name.add(change.key.clone());
        if let Some(migration) = change.new.or(change.old) {
            adding_resource.add(migration.of.clone());
        }
    });
    migrations.synced().await;
    let migrations = Arc::new(migrations);
    let turns = Turns { client: client.clone(), clock: clock.clone(), migrations: migrations.clone() };
    let migrator = Migrator { client, clock, caches, migrations };
    let (turns, migrator) = (Arc::new(turns), Arc::new(migrator));
    tokio::select! {
        biased;
        () = rkube_operator::run(RUNNER, resources, 1, move |resource: GroupResource| {
            let turns = turns.clone();
            async move { turns.reconcile(&resource).await }
        }) => {}
        () = rkube_operator::run(NAME, names, WORKERS, move |key: Key| {
            let migrator = migrator.clone();
            async move { migrator.reconcile(&key).await }
        }) => {}
    }
}

fn served(all: &[Discovered]) -> Option<ApiResource> {
    let fits = |found: &&Discovered| found.resource.group == GROUP && found.resource.plural == PLURAL;
    all.iter().find(fits).map(|found| found.resource.clone())
}

fn status_path(name: &str) -> String {
    format!("/apis/{GROUP}/v1beta1/{PLURAL}/{name}/status")
}
