//! Empties namespaces that are being deleted, then lets them go. Watches namespaces; deletes everything in them; writes
//! their `finalize` subresource.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use rkube_operator::kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::discovery::{Discovery, Scope, verbs};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Outcome, Queue};

use crate::Context;

const FINALIZER: &str = "kubernetes";
const WORKERS: usize = 2;
/// How long until a namespace that still holds something is looked at again.
const AGAIN: Duration = Duration::from_millis(500);

pub async fn run(context: Context, grace: Duration) {
    let Context { client, caches, .. } = context;
    let queue: Queue<String> = Queue::new();
    let adding = queue.clone();
    let namespaces = caches.objects::<Namespace>().on_change(move |change| {
        if change.new.is_some_and(|namespace| must_go(namespace)) {
            adding.add_after(change.key.name.clone(), grace);
        }
    });
    namespaces.synced().await;
    let namespaces = Arc::new(namespaces);
    rkube_operator::run("namespace-controller", queue.clone(), WORKERS, move |name: String| {
        let (client, namespaces, waiting) = (client.clone(), namespaces.clone(), queue.clone());
        async move {
            let Some(namespace) = namespaces.get("", &name).filter(|found| must_go(found)) else {
                return Ok(Outcome::Unchanged);
            };
            if empty(&client, &name).await? > 0 {
                waiting.add_after(name, AGAIN);
                return Ok(Outcome::Unchanged);
            }
            finalize(&client, &namespace).await.map(|()| Outcome::Wrote)
        }
    })
    .await;
}

/// Whether this controller still holds the namespace.
fn must_go(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    namespace.metadata.deletion_timestamp.is_some()
        && finalizers.is_some_and(|all| all.iter().any(|one| one == FINALIZER))
}

/// Deletes everything in the namespace; returns how many kinds still have objects there.
async fn empty(client: &Client, namespace: &str) -> Result<usize, kube::Error> {
    let mut left = 0;
    for resource in deletable(client).await? {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let one = ListParams::default().limit(1);
        if api.list_metadata(&one).await?.items.is_empty() {
            continue;
        }
        api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
        if !api.list_metadata(&one).await?.items.is_empty() {
            left += 1;
        }
    }
    Ok(left)
}

/// The namespaced kinds that can be listed and deleted, each in its preferred version.
async fn deletable(client: &Client) -> Result<Vec<ApiResource>, kube::Error> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let kinds = discovery.groups().flat_map(|group| group.recommended_resources());
    let wanted = kinds.filter(|(_, able)| {
        able.scope == Scope::Namespaced
            && able.supports_operation(verbs::LIST)
            && able.supports_operation(verbs::DELETE_COLLECTION)
    });
    Ok(wanted.map(|(resource, _)| resource).collect())
}

async fn finalize(client: &Client, namespace: &Namespace) -> Result<(), kube::Error> {
    let mut namespace = namespace.clone();
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|one| one != FINALIZER);
    }
    let name = namespace.metadata.name.clone().unwrap_or_default();
    let body = serde_json::to_vec(&namespace).map_err(kube::Error::SerdeError)?;
    let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body)
        .map_err(kube::Error::HttpError)?;
    match client.request::<Namespace>(request).await {
        Ok(_) => Ok(()),
        // Gone, or changed in the meantime: the next event says.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NamespaceSpec;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn only_namespaces_that_go_and_wait_for_us_are_emptied() {
        let mut namespace = Namespace::default();
        assert!(!must_go(&namespace));
        namespace.metadata.deletion_timestamp = Some(Time(Default::default()));
        assert!(!must_go(&namespace));
        namespace.spec = Some(NamespaceSpec { finalizers: Some(vec![FINALIZER.to_owned()]) });
        assert!(must_go(&namespace));
    }
}
