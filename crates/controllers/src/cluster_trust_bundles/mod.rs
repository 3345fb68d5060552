//! Owns the ClusterTrustBundle of the signer `kubernetes.io/kube-apiserver-serving`, by which pods know the API server: its
//! name has the hash of what it holds, and others of the signer go. Runs where the gate `ClusterTrustBundle` is on and the
//! kind is served.

use std::sync::Arc;

use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Discovered, Error, Item, Outcome, Queue, Selection};
use serde::Deserialize;
use serde_json::json;

use crate::Context;
use crate::requests::{self, is_not_found};

const NAME: &str = "kube-apiserver-serving-clustertrustbundle-publisher-controller";
const WORKERS: usize = 1;
const SIGNER: &str = "kubernetes.io/kube-apiserver-serving";
const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "clustertrustbundles";

struct Bundle {
    item: Item,
    trust: String,
}

#[derive(Deserialize)]
struct RawBundle {
    spec: RawSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    trust_bundle: String,
}

pub async fn run(context: Context, root_ca: Arc<str>) {
    let Context { client, caches, .. } = context;
    let Some(resource) = served(&caches.source().resources().await.unwrap_or_default()) else {
        tracing::info!("clustertrustbundles are not served: the authority is not published as one");
        return std::future::pending().await;
    };
    let queue: Queue<&'static str> = Queue::new();
    let adding = queue.clone();
    let selection = Selection { fields: Some(Text::from(format!("spec.signerName={SIGNER}"))), ..Selection::default() };
    let bundles = caches.view(&resource, selection, read).on_change(move |_| adding.add(SIGNER));
    bundles.synced().await;
    queue.add(SIGNER);
    let (bundles, resource, name) = (Arc::new(bundles), Arc::new(resource), Arc::<str>::from(bundle_name(&root_ca)));
    rkube_operator::run(NAME, queue, WORKERS, move |_| {
        let (client, bundles, resource) = (client.clone(), bundles.clone(), resource.clone());
        let (name, root_ca) = (name.clone(), root_ca.clone());
        async move {
            let path = format!("/apis/{}/{PLURAL}", resource.api_version);
            match bundles.get("", &name) {
                None => {
                    let bundle = json!({
                        "apiVersion": resource.api_version,
                        "kind": resource.kind,
                        "metadata": { "name": &*name },
                        "spec": { "signerName": SIGNER, "trustBundle": &*root_ca },
                    });
                    requests::create(&client, &path, bundle.to_string().into_bytes()).await?;
                }
                Some(bundle) if bundle.trust != *root_ca => {
                    let mut changed = requests::whole(&bundle.item)?;
                    changed["spec"]["trustBundle"] = json!(&*root_ca);
                    requests::replace(&client, &format!("{path}/{name}"), &changed).await?;
                }
                Some(_) => {}
            }
            for other in bundles.all().iter().filter(|bundle| bundle.item.name.as_str() != &*name) {
                match requests::delete(&client, &format!("{path}/{}", other.item.name)).await {
                    Err(error) if is_not_found(&error) => {}
                    deleted => drop(deleted?),
                }
            }
            Ok::<_, Error>(Outcome::Unchanged)
        }
    })
    .await;
}

/// The newest version that there is.
fn served(all: &[Discovered]) -> Option<ApiResource> {
    let of = |version: &str| {
        let fits = |found: &&Discovered| found.resource.version == version && found.resource.plural == PLURAL;
        all.iter().filter(|found| found.resource.group == GROUP).find(fits)
    };
    of("v1beta1").or_else(|| of("v1alpha1")).map(|found| found.resource.clone())
}

fn bundle_name(trust: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, trust.as_bytes());
    let mut name = format!("{}:", SIGNER.replace('/', ":"));
    for byte in &digest.as_ref()[..12] {
        name.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789abcdef"[usize::from(half)])));
    }
    name
}

fn read(item: &Item) -> Option<Bundle> {
    let raw: RawBundle = item.parse().ok()?;
    Some(Bundle { item: item.clone(), trust: raw.spec.trust_bundle })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_are_named_by_what_they_hold() {
        let name = bundle_name("");
        assert_eq!(name, "kubernetes.io:kube-apiserver-serving:e3b0c44298fc1c149afbf4c8");
    }
}
