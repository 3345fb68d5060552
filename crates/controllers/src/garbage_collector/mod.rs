//! Deletes what depends on objects that are gone. Watches every kind that can be watched and deleted, custom ones
//! included, while kinds come and go; deletes dependents, takes owner references and the finalizers `orphan` and
//! `foregroundDeletion` away; writes events about owners in other namespaces.
//!
//! `graph` is who depends on whom, `plan` what to do with an object, `collector` does it through `live`, the API.

mod collector;
mod graph;
mod live;
#[cfg(test)]
mod model_tests;
mod object;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use rkube_machinery::Text;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::process::held;
use rkube_operator::{Caches, Discovered, Event, Item, Outcome, Selection};
use tokio::task::{AbortHandle, JoinError, JoinSet};

use crate::Context;

use collector::Collector;
use live::{Cluster, Live};
use object::{Coordinates, Metadata, Seen};

const NAME: &str = "garbage-collector-controller";
/// The queues, by upstream's names.
const ATTEMPTS: &str = "garbage_collector_attempt_to_delete";
const ORPHANS: &str = "garbage_collector_attempt_to_orphan";
/// No more owners' dependents are orphaned at a time, of each of which many are.
const ORPHAN_WORKERS_MAX: usize = 4;
/// What changes within this time is looked at together, so that a busy cluster is not held up by being watched.
const GATHER: Duration = Duration::from_millis(2);
/// How long until a kind is followed again that was served no more and still is in discovery.
const AGAIN: Duration = Duration::from_secs(1);
/// Kinds whose objects have no part in this.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let workers = settings.concurrent_gc_syncs;
    let recorder = Recorder::start(client.clone(), clock, NAME);
    let collector = Collector::new(Cluster::new(client), move |misplaced| {
        let graph::Misplaced { object, owner } = misplaced;
        let message = format!("ownerRef {owner} does not exist in namespace \"{}\"", object.namespace);
        recorder.warn(&reference(&object), "OwnerRefInvalidNamespace", message);
    });
    let (attempting, orphaning) = (collector.clone(), collector.clone());
    let orphan_workers = workers.min(ORPHAN_WORKERS_MAX);
    // One that ends or panics ends all: whoever supervises this begins again with an empty graph.
    tokio::select! {
        biased;
        () = follow_kinds(collector.clone(), caches) => {}
        () = rkube_operator::run(ATTEMPTS, collector.attempts.clone(), workers, move |uid: Text| {
            let collector = attempting.clone();
            async move { collector.attempt(&uid).await.map(|()| Outcome::Unchanged) }
        }) => {}
        () = rkube_operator::run(ORPHANS, collector.orphans.clone(), orphan_workers, move |uid: Text| {
            let collector = orphaning.clone();
            async move { collector.orphan(&uid).await.map(|()| Outcome::Unchanged) }
        }) => {}
    }
}

fn reference(object: &Coordinates) -> Reference {
    Reference {
        api_version: object.api_version.clone(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        uid: object.uid.clone(),
        ..Reference::default()
    }
}

/// Watches all kinds that there are, from when they come to when they go.
async fn follow_kinds(collector: Arc<Collector<Cluster>>, caches: Caches) {
    let mut tasks = JoinSet::new();
    let mut followed: BTreeMap<Key, Following> = BTreeMap::new();
    let mut discovered = caches.source().discover();
    loop {
        let found = tokio::select! {
            biased;
            found = discovered.next() => found,
            Some(ended) = tasks.join_next() => match ended.map_err(JoinError::try_into_panic) {
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                Ok(()) | Err(Err(_)) => continue,
            },
        };
        let Some(found) = found else { return };
        collector.live.set_kinds(&found);
        let wanted: BTreeMap<Key, &ApiResource> = found
            .iter()
            .filter(|found| is_followed(found))
            .map(|found| (key(&found.resource), &found.resource))
            .collect();
        followed.retain(|key, following| {
            let version = wanted.get(key).map(|resource| resource.version.as_str());
            match version {
                Some(version) if version == following.version => !following.task.is_finished(),
                // Objects are followed in one version.
                Some(_) => {
                    following.task.abort();
                    false
                }
                // It ends when it has seen the last of them.
                None => {
                    following.is_wanted.store(false, Ordering::Relaxed);
                    false
                }
            }
        });
        for (key, resource) in wanted {
            followed.entry(key).or_insert_with(|| {
                let is_wanted = Arc::new(AtomicBool::new(true));
                let following = follow(collector.clone(), caches.clone(), resource.clone(), is_wanted.clone());
                Following { version: resource.version.clone(), is_wanted, task: tasks.spawn(held(following)) }
            });
        }
        collector.kinds_changed();
    }
}

/// Group and resource.
type Key = (String, String);

/// A kind that is watched.
struct Following {
    version: String,
    /// Whether discovery has it.
    is_wanted: Arc<AtomicBool>,
    task: AbortHandle,
}

fn key(resource: &ApiResource) -> Key {
    (resource.group.clone(), resource.plural.clone())
}

fn is_followed(found: &Discovered) -> bool {
    let resource = &found.resource;
    found.preferred
        && found.supports(&["delete", "list", "watch"])
        && !IGNORED.contains(&(resource.group.as_str(), resource.plural.as_str()))
}

/// Watches a kind to its end.
async fn follow<L: Live>(
    collector: Arc<Collector<L>>,
    caches: Caches,
    resource: ApiResource,
    is_wanted: Arc<AtomicBool>,
) {
    let selection = Selection { metadata_only: true, ..Selection::default() };
    while is_wanted.load(Ordering::Relaxed) {
        // What has ended may be asked again below.
        let mut events = caches.source().follow(&resource, &selection).fuse();
        while let Some(event) = events.next().await {
            take(&collector, &resource, event);
            while let Some(Some(event)) = events.next().now_or_never() {
                take(&collector, &resource, event);
            }
            tokio::time::sleep(GATHER).await;
        }
        take(&collector, &resource, Event::Listed(Vec::new()));
        tokio::time::sleep(AGAIN).await;
    }
}

/// Tells the graph of an event, if it is any of its business.
fn take<L: Live>(collector: &Collector<L>, resource: &ApiResource, event: Event) {
    let observe = |item: &Item| {
        let is_known = || collector.read(|graph| graph.state(&item.uid).is_some());
        if !object::may_matter(&item.json) && !is_known() {
            return;
        }
        match Metadata::of(item) {
            Ok(metadata) => {
                let seen = metadata.seen(&resource.api_version, &resource.kind);
                let seen = Seen { revision: Some(item.revision), ..seen };
                collector.change(|graph, work| graph.observe(seen, work));
            }
            Err(error) => tracing::error!(name = %item.name, %error, "an object cannot be read and is left alone"),
        }
    };
    match event {
        Event::Progress(_) => {}
        Event::Applied(item) => observe(&item),
        Event::Deleted(item) => {
            let gone = Coordinates {
                kind: resource.kind.as_str().into(),
                api_version: resource.api_version.as_str().into(),
                namespace: item.namespace,
                name: item.name,
                uid: item.uid,
            };
            collector.change(|graph, work| graph.removed(&gone, work));
        }
        Event::Listed(items) => {
            // Most of what is listed again after a watch broke has not changed.
            let is_observed = |item: &&Item| collector.read(|graph| graph.is_observed(&item.uid, item.revision));
            items.iter().filter(|item| !is_observed(item)).for_each(observe);
            let uids: BTreeSet<Text> = items.into_iter().map(|item| item.uid).collect();
            let (api_version, kind) = (&resource.api_version, &resource.kind);
            collector.change(|graph, work| graph.listed(api_version, kind, &uids, work));
        }
    }
}
