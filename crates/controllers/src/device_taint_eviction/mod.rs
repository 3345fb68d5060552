//! Evicts pods whose devices have a taint that they do not tolerate. Watches pods, ResourceClaims and ResourceSlices;
//! writes the status of pods, and deletes them. Taints come from slices: DeviceTaintRules are not served by default, and
//! not looked at.

mod plan;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Action, Change, Informer, Key, Queue};
use serde_json::json;

use crate::Context;
use crate::owner::path_of;
use crate::pods::{self, Pod};
use crate::requests::{self, is_not_found};
use crate::resource_claims::view::{Claim, claims};
use view::{ByAllocation, ByPool, Slice};

const NAME: &str = "device-taint-eviction-controller";
const REASON: &str = "DeviceTaintManagerEviction";

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let queue: Queue<Key> = Queue::new();
    let pending: Arc<Mutex<BTreeMap<Key, Text>>> = Arc::default();
    let (adding, forgetting) = (queue.clone(), pending.clone());
    let pods = pods::informer(&caches).on_change(move |change: &Change<'_, Pod>| match change.new {
        None => drop(forgetting.lock().remove(change.key)),
        Some(new) => {
            let same = |old: &Arc<Pod>| old.uid == new.uid && old.node == new.node && old.devices == new.devices;
            if new.devices.is_some() && !change.old.is_some_and(same) {
                adding.add(change.key.clone());
            }
        }
    });
    let adding = queue.clone();
    let claims = claims(&caches).indexed::<ByAllocation>().on_change(move |change: &Change<'_, Claim>| {
        for claim in [change.old, change.new].into_iter().flatten() {
            add_users(&adding, claim);
        }
    });
    let (adding, known) = (queue.clone(), crate::resource_claims::view::claims(&caches));
    let slices = view::slices(&caches).on_change(move |change: &Change<'_, Slice>| {
        if change.old == change.new {
            return;
        }
        for slice in [change.old, change.new].into_iter().flatten() {
            for claim in known.by_index::<ByAllocation, _>(&slice.pool) {
                add_users(&adding, &claim);
            }
        }
    });
    pods.synced().await;
    claims.synced().await;
    slices.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), NAME);
    let manager = Arc::new(Manager { client, clock, events, pods, claims, slices, pending });
    rkube_operator::run(NAME, queue, settings.concurrent_device_taint_eviction_syncs, move |key: Key| {
        let manager = manager.clone();
        async move { manager.reconcile(&key).await.map_err(rkube_operator::Error::from) }
    })
    .await;
}

fn add_users(queue: &Queue<Key>, claim: &Claim) {
    for consumer in claim.reserved_for.iter().filter(|consumer| consumer.is_pod()) {
        queue.add(Key { namespace: claim.item.namespace.to_string(), name: consumer.name.to_string() });
    }
}

struct Manager {
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
    pods: Informer<Pod>,
    claims: Informer<Claim>,
    slices: Informer<Slice>,
    /// Pods that have to go at some time, with their uids.
    pending: Arc<Mutex<BTreeMap<Key, Text>>>,
}

impl Manager {
    async fn reconcile(&self, key: &Key) -> Result<Action, kube::Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else { return Ok(Action::done()) };
        let find = |name: &str| self.claims.get(&key.namespace, name);
        let of_pool = |pool: &view::Pool| self.slices.by_index::<ByPool, _>(pool);
        let Some(when) = plan::eviction(&pod, find, of_pool).filter(|_| pod.deleted.is_none()) else {
            if self.pending.lock().remove(key).is_some_and(|uid| uid == pod.uid) && pod.deleted.is_none() {
                self.events.normal(&reference(&pod), REASON, "Cancelling deletion");
            }
            return Ok(Action::done());
        };
        self.pending.lock().insert(key.clone(), pod.uid.clone());
        let micros = when.saturating_mul(1_000_000).saturating_sub(self.clock.now_micros());
        if let Some(delay) = u64::try_from(micros).ok().filter(|micros| *micros > 0) {
            return Ok(Action::done().requeue_after(Duration::from_micros(delay)));
        }
        self.evict(&pod).await?;
        self.pending.lock().remove(key);
        Ok(Action::wrote())
    }

    async fn evict(&self, pod: &Pod) -> Result<(), kube::Error> {
        self.events.normal(&reference(pod), REASON, "Marking for deletion");
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": "Device Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": time::format_seconds(self.clock.now_seconds()),
        });
        let path = path_of(pod);
        let preconditions = json!({ "preconditions": { "uid": pod.uid.as_str() } });
        let gone = |error: &kube::Error| is_not_found(error) || requests::is_conflict(error);
        // A conflict is tried again: somebody may have been faster, or it is another pod, which is heard of.
        match requests::set_pod_condition(&self.client, &path, &pod.uid, json!({}), condition).await {
            Err(error) if is_not_found(&error) => return Ok(()),
            other => other?,
        };
        match requests::delete_with(&self.client, &path, preconditions).await {
            Err(error) if gone(&error) => Ok(()),
            other => other.map(drop),
        }
    }
}

fn reference(pod: &Pod) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        ..Reference::default()
    }
}
