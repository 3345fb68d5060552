//! Lets claims, volumes and classes of volume attributes go once nobody uses them. Watches all three, looks at those that
//! may use one where it is to go; takes their protecting finalizers away. (Admission puts them on.)

mod plan;

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use rkube_operator::kube::api::{Api, ListParams, Patch, PatchParams};
use rkube_operator::kube::{self, Client, Resource};
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde::de::DeserializeOwned;
use serde_json::json;

const WORKERS: usize = 1;
/// How long until something that is in use is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Claims stay while pods on nodes mount them.
pub async fn claims(client: Client) {
    let api = |client: &Client, namespace: &str| Api::<PersistentVolumeClaim>::namespaced(client.clone(), namespace);
    let informer = Api::<PersistentVolumeClaim>::all(client.clone());
    let pods = client.clone();
    let in_use = move |claim: Arc<PersistentVolumeClaim>| {
        let namespace = claim.metadata.namespace.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(pods.clone(), &namespace);
        async move { Ok(plan::uses_claim(&pods.list(&ListParams::default()).await?.items, &claim)) }
    };
    guard("pvc-protection-controller", "kubernetes.io/pvc-protection", client, informer, api, in_use).await;
}

/// Volumes stay while they are bound.
pub async fn volumes(client: Client) {
    let api = |client: &Client, _: &str| Api::<PersistentVolume>::all(client.clone());
    let informer = api(&client, "");
    let in_use = |volume: Arc<PersistentVolume>| async move { Ok(plan::is_bound(&volume)) };
    guard("pv-protection-controller", "kubernetes.io/pv-protection", client, informer, api, in_use).await;
}

/// Classes of attributes stay while claims or volumes name them.
pub async fn classes(client: Client) {
    let api = |client: &Client, _: &str| Api::<VolumeAttributesClass>::all(client.clone());
    let informer = api(&client, "");
    let users = client.clone();
    let in_use = move |class: Arc<VolumeAttributesClass>| {
        let client = users.clone();
        async move {
            let all = ListParams::default();
            let volumes = Api::<PersistentVolume>::all(client.clone()).list(&all).await?.items;
            let claims = Api::<PersistentVolumeClaim>::all(client).list(&all).await?.items;
            Ok(plan::names_class(&volumes, &claims, class.metadata.name.as_deref().unwrap_or_default()))
        }
    };
    guard("vac-protection-controller", "kubernetes.io/vac-protection", client, informer, api, in_use).await;
}

/// Takes the finalizer from every object that is to go and is not in use.
async fn guard<K, InUse, Answer>(
    name: &'static str,
    finalizer: &'static str,
    client: Client,
    watched: Api<K>,
    api: impl Fn(&Client, &str) -> Api<K> + Copy,
    in_use: InUse,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    InUse: Fn(Arc<K>) -> Answer,
    Answer: Future<Output = Result<bool, kube::Error>>,
{
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let objects = Informer::on(watched)
        .on_change(move |object: &Arc<K>| {
            if plan::is_held(object.meta(), finalizer) {
                adding.add(Key::of(&**object));
            }
        })
        .start();
    objects.synced().await;
    let (objects, waiting, client, in_use) = (&objects, &queue, &client, &in_use);
    rkube_operator::run(name, queue.clone(), WORKERS, move |key: Key| async move {
        let found = objects.get(&key.namespace, &key.name);
        let Some(object) = found.filter(|object| plan::is_held(object.meta(), finalizer)) else {
            return Ok(Outcome::Unchanged);
        };
        if in_use(object).await? {
            waiting.add_after(key, AGAIN);
            return Ok(Outcome::Unchanged);
        }
        let patch = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": [finalizer] } });
        let api = api(client, &key.namespace);
        match api.patch(&key.name, &PatchParams::default(), &Patch::Strategic(&patch)).await {
            Ok(_) => Ok(Outcome::Wrote),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Wrote),
            Err(error) => Err(error),
        }
    })
    .await;
}
