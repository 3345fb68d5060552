//! The informers by which the core hears of what changes.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1 as api;
use k8s_openapi::api::storage::v1 as storage;
use rkube_operator::kube::Resource;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Item, Selection};
use tokio::time::Instant;

use crate::core::Core;
use crate::shared::Shared;
use crate::view::{Attachment, Capacity, Claim, CsiDriver, CsiNode, Node, Pod, StorageClass, Volume};

/// What has to be held for as long as changes are to be told.
type Held = Box<dyn Send>;
/// How the core is told what was and what is.
type Tell<V> = fn(&mut Core, Option<&Arc<V>>, Option<&Arc<V>>, Instant);

/// The caches that take long to fill, for one who will run later.
pub fn warm(caches: &Caches) -> impl Send + use<> {
    (
        caches.view(&ApiResource::erase::<api::Node>(&()), Selection::default(), Node::of),
        caches.view(&ApiResource::erase::<api::PersistentVolume>(&()), Selection::default(), Volume::of),
        caches.view(&ApiResource::erase::<api::PersistentVolumeClaim>(&()), Selection::default(), Claim::of),
        caches.view(&ApiResource::erase::<api::Pod>(&()), Selection::default(), Pod::of),
    )
}

/// Returns when the core knows everything that is there. Handlers last as long as their informers are held.
pub async fn follow(shared: &Arc<Shared>, caches: &Caches) -> Vec<Held> {
    let node_changed: Tell<Node> =
        |core, old, new, now| core.node_changed(old.map(|old| &**old), new.map(|new| &**new), now);
    // All are started before the first is waited for.
    let started = [
        one::<api::Node, _>(shared, caches, Node::of, node_changed),
        one::<storage::StorageClass, _>(shared, caches, StorageClass::of, Core::class_changed),
        one::<storage::CSINode, _>(shared, caches, CsiNode::of, Core::csi_node_changed),
        one::<storage::CSIDriver, _>(shared, caches, CsiDriver::of, Core::csi_driver_changed),
        one::<storage::CSIStorageCapacity, _>(shared, caches, Capacity::of, Core::capacity_changed),
        one::<storage::VolumeAttachment, _>(shared, caches, Attachment::of, Core::attachment_changed),
        one::<api::PersistentVolume, _>(shared, caches, Volume::of, Core::volume_changed),
        one::<api::PersistentVolumeClaim, _>(shared, caches, Claim::of, Core::claim_changed),
        one::<api::Pod, _>(shared, caches, Pod::of, Core::pod_changed),
    ];
    let mut held = Vec::new();
    for synced in started {
        held.push(synced.await);
    }
    held
}

fn one<K, V>(
    shared: &Arc<Shared>,
    caches: &Caches,
    view: fn(&Item) -> Option<V>,
    tell: Tell<V>,
) -> BoxFuture<'static, Held>
where
    K: Resource<DynamicType = ()>,
    V: Send + Sync + 'static,
{
    let shared = shared.clone();
    let informer = caches.view(&ApiResource::erase::<K>(&()), Selection::default(), view).on_change(move |change| {
        shared.tell(|core| tell(core, change.old, change.new, Instant::now()));
    });
    async move {
        informer.synced().await;
        // A cache is there before all handlers have heard of it: one more is added behind them.
        Box::new(informer.on_change(|_| {})) as Held
    }
    .boxed()
}
