//! Lets claims, volumes and classes of volume attributes go once nobody uses them. Watches all three, and pods with claims;
//! where one is to go, asks the API who uses it; takes their protecting finalizers away. (Admission puts them on.)

mod plan;

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use rkube_operator::kube::api::{Api, DynamicObject, ListParams, PostParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{self, Client, Resource};
use rkube_operator::{Informer, Item, Key, Outcome, Queue, Selection};

use crate::Context;

const WORKERS: usize = 1;

/// Claims stay while pods on nodes mount them.
pub async fn claims(context: Context) {
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    let resource = ApiResource::erase::<Pod>(&());
    let users = context.caches.view(&resource, Selection::default(), claims_of_pod).on_change(move |change| {
        for name in change.old.iter().flat_map(|pod| &pod.0) {
            adding.add(Key { namespace: change.key.namespace.clone(), name: name.clone() });
        }
    });
    users.synced().await;
    let pods = context.client.clone();
    let in_use = move |claim: Arc<PersistentVolumeClaim>| {
        let namespace = claim.metadata.namespace.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(pods.clone(), &namespace);
        async move { Ok(plan::uses_claim(&pods.list(&ListParams::default()).await?.items, &claim)) }
    };
    let guard = Guard {
        name: "persistentvolumeclaim-protection-controller",
        finalizer: "kubernetes.io/pvc-protection",
        api: |client, namespace| {
            Api::namespaced_with(client, namespace, &ApiResource::erase::<PersistentVolumeClaim>(&()))
        },
        queue,
    };
    guard.run(context.client, context.caches.objects(), in_use).await;
}

/// Volumes stay while they are bound.
pub async fn volumes(context: Context) {
    let guard = Guard {
        name: "persistentvolume-protection-controller",
        finalizer: "kubernetes.io/pv-protection",
        api: |client, _| Api::all_with(client, &ApiResource::erase::<PersistentVolume>(&())),
        queue: Queue::new(),
    };
    let in_use = |volume: Arc<PersistentVolume>| async move { Ok(plan::is_bound(&volume)) };
    guard.run(context.client, context.caches.objects(), in_use).await;
}

/// Classes of attributes stay while claims or volumes name them.
pub async fn classes(context: Context) {
    let queue: Queue<Key> = Queue::new();
    let add = |queue: &Queue<Key>, names: Vec<&str>| {
        names.into_iter().for_each(|name| queue.add(Key { namespace: String::new(), name: name.to_owned() }));
    };
    let adding = queue.clone();
    let volumes = context.caches.objects::<PersistentVolume>();
    let volumes = volumes.on_change(move |change| {
        add(&adding, change.old.map(|volume| plan::classes_of_volume(volume)).unwrap_or_default());
    });
    let adding = queue.clone();
    let claims = context.caches.objects::<PersistentVolumeClaim>();
    let claims = claims.on_change(move |change| {
        add(&adding, change.old.map(|claim| plan::classes_of_claim(claim)).unwrap_or_default());
    });
    volumes.synced().await;
    claims.synced().await;
    let users = context.client.clone();
    let in_use = move |class: Arc<VolumeAttributesClass>| {
        let client = users.clone();
        async move {
            let all = ListParams::default();
            let volumes = Api::<PersistentVolume>::all(client.clone()).list(&all).await?.items;
            let claims = Api::<PersistentVolumeClaim>::all(client).list(&all).await?.items;
            Ok(plan::names_class(&volumes, &claims, class.metadata.name.as_deref().unwrap_or_default()))
        }
    };
    let guard = Guard {
        name: "volumeattributesclass-protection-controller",
        finalizer: "kubernetes.io/vac-protection",
        api: |client, _| Api::all_with(client, &ApiResource::erase::<VolumeAttributesClass>(&())),
        queue,
    };
    guard.run(context.client, context.caches.objects(), in_use).await;
}

/// The claims that a pod may use.
struct ClaimsOfPod(Vec<String>);

/// Most pods have no claims, and need not be read.
fn claims_of_pod(item: &Item) -> Option<ClaimsOfPod> {
    let text = std::str::from_utf8(&item.json).ok()?;
    if !text.contains("\"persistentVolumeClaim\"") && !text.contains("\"ephemeral\"") {
        return None;
    }
    let claims = plan::claims_of_pod(&item.parse().ok()?);
    (!claims.is_empty()).then_some(ClaimsOfPod(claims))
}

/// Takes the finalizer away. The roles of these controllers let them update, not patch; the object is not read by a type
/// of ours, so that it keeps what only its writer knows.
async fn release(api: Api<DynamicObject>, name: &str, finalizer: &str) -> Result<Outcome, kube::Error> {
    let mut object = api.get(name).await?;
    if !plan::is_held(&object.metadata, finalizer) {
        return Ok(Outcome::Unchanged);
    }
    object.metadata.finalizers.iter_mut().for_each(|all| all.retain(|one| one != finalizer));
    api.replace(name, &PostParams::default(), &object).await.map(|_| Outcome::Wrote)
}

/// What takes the finalizer from every object that is to go and is not in use.
struct Guard {
    name: &'static str,
    finalizer: &'static str,
    api: fn(Client, &str) -> Api<DynamicObject>,
    /// Objects to look at, whenever they or those who use them change.
    queue: Queue<Key>,
}

impl Guard {
    async fn run<K, InUse, Answer>(self, client: Client, objects: Informer<K>, in_use: InUse)
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
        InUse: Fn(Arc<K>) -> Answer + Clone + Send + Sync + 'static,
        Answer: Future<Output = Result<bool, kube::Error>> + Send,
    {
        let Guard { name, finalizer, api, queue } = self;
        let adding = queue.clone();
        let objects = objects.on_change(move |change| {
            if change.new.is_some_and(|object| plan::is_held(object.meta(), finalizer)) {
                adding.add(change.key.clone());
            }
        });
        objects.synced().await;
        let objects = Arc::new(objects);
        rkube_operator::run(name, queue, WORKERS, move |key: Key| {
            let (client, objects, in_use) = (client.clone(), objects.clone(), in_use.clone());
            async move {
                let found = objects.get(&key.namespace, &key.name);
                let Some(object) = found.filter(|object| plan::is_held(object.meta(), finalizer)) else {
                    return Ok(Outcome::Unchanged);
                };
                if in_use(object).await? {
                    return Ok(Outcome::Unchanged);
                }
                match release(api(client, &key.namespace), &key.name, finalizer).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Wrote),
                    released => released,
                }
            }
        })
        .await;
    }
}
