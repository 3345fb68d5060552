//! The frame of controllers that give every namespace one object of a name: watches, queue and retry.

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use rkube_operator::kube::{self, Client, Resource};
use rkube_operator::{Outcome, Queue};
use serde::de::DeserializeOwned;

use crate::Context;

const WORKERS: usize = 2;

/// Calls `reconcile` with each namespace that is there and does not go, and the object of this name in it, whenever
/// either changes.
pub async fn run<K, F>(
    controller: &'static str,
    context: Context,
    name: &'static str,
    reconcile: impl Fn(Client, String, Option<Arc<K>>) -> F + Clone + Send + Sync + 'static,
) where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<Outcome, kube::Error>> + Send,
{
    let Context { client, caches, .. } = context;
    let queue: Queue<String> = Queue::new();
    let adding = queue.clone();
    let namespaces = caches.objects::<Namespace>().on_change(move |change| adding.add(change.key.name.clone()));
    let adding = queue.clone();
    let objects = caches.named::<K>(name).on_change(move |change| adding.add(change.key.namespace.clone()));
    namespaces.synced().await;
    objects.synced().await;
    let caches = Arc::new((namespaces, objects));
    rkube_operator::run(controller, queue, WORKERS, move |namespace: String| {
        let (client, reconcile, caches) = (client.clone(), reconcile.clone(), caches.clone());
        async move {
            let (namespaces, objects) = &*caches;
            let alive = namespaces.get("", &namespace).filter(|found| found.metadata.deletion_timestamp.is_none());
            if alive.is_none() {
                return Ok(Outcome::Unchanged);
            }
            let current = objects.get(&namespace, name);
            settle(reconcile(client, namespace, current).await)
        }
    })
    .await;
}

/// That somebody else was first, or that the namespace goes, is no failure.
fn settle(outcome: Result<Outcome, kube::Error>) -> Result<Outcome, kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) || status.reason == "Forbidden" => {
            Ok(Outcome::Wrote)
        }
        other => other,
    }
}
