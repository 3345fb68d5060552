//! The frame of controllers that give every namespace one object of a name: watches, queue and retry.

use std::fmt::Debug;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use rkube_operator::kube::api::Api;
use rkube_operator::kube::{self, Client, Resource};
use rkube_operator::{Informer, Outcome, Queue};

const WORKERS: usize = 2;

/// Calls `reconcile` with each namespace that is there and does not go, and the object of this name in it, whenever
/// either changes.
pub async fn run<K, F>(
    controller: &'static str,
    client: Client,
    name: &'static str,
    reconcile: impl Fn(Client, String, Option<Arc<K>>) -> F + Clone,
) where
    K: Resource + Clone + Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
    F: Future<Output = Result<Outcome, kube::Error>>,
{
    let queue: Queue<String> = Queue::new();
    let adding = queue.clone();
    let namespaces = Informer::on(Api::<Namespace>::all(client.clone()))
        .on_change(move |namespace| adding.add(namespace.metadata.name.clone().unwrap_or_default()))
        .start();
    let adding = queue.clone();
    let objects = Informer::on(Api::<K>::all(client.clone()))
        .named(name)
        .on_change(move |object| adding.add(object.meta().namespace.clone().unwrap_or_default()))
        .start();
    namespaces.synced().await;
    objects.synced().await;
    let (namespaces, objects) = (&namespaces, &objects);
    rkube_operator::run(controller, queue, WORKERS, move |namespace: String| {
        let (client, reconcile) = (client.clone(), reconcile.clone());
        async move {
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
