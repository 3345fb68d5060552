//! Makes ResourceClaims from the templates that pods name, and releases claims of pods that are done. Watches pods, claims
//! and templates; makes and deletes claims, and writes their status and that of pods. It does not allocate devices: that
//! is the scheduler's.

mod act;
mod plan;
pub mod view;

use std::sync::Arc;

use rkube_operator::events::Recorder;
use rkube_operator::{Change, Key, Queue};

use crate::Context;
use crate::pods::{self, ByClaimTemplate, ByDeviceClaim, Pod};
use act::Manager;
use view::Claim;

const NAME: &str = "resourceclaim-controller";
/// Who speaks in events.
const COMPONENT: &str = "resource_claim";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    Pod(Key),
    Claim(Key),
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let queue: Queue<Work> = Queue::new();
    let adding = queue.clone();
    let pods = pods::informer(&caches).indexed::<ByDeviceClaim>().indexed::<ByClaimTemplate>();
    let pods = pods.on_change(move |change: &Change<'_, Pod>| pod_changed(&adding, change));
    let (adding, users) = (queue.clone(), pods::informer(&caches));
    let claims = view::claims(&caches).indexed::<view::ByPod>().on_change(move |change: &Change<'_, Claim>| {
        if change.new.is_some() {
            adding.add(Work::Claim(Key::clone(change.key)));
        }
        for pod in users.by_index::<ByDeviceClaim, _>(change.key) {
            adding.add(Work::Pod(key_of(&pod)));
        }
    });
    let (adding, users) = (queue.clone(), pods::informer(&caches));
    let templates = view::templates(&caches).on_change(move |change| {
        for pod in users.by_index::<ByClaimTemplate, _>(change.key).iter().filter(|_| change.new.is_some()) {
            adding.add(Work::Pod(key_of(pod)));
        }
    });
    pods.synced().await;
    claims.synced().await;
    templates.synced().await;
    let events = Recorder::start(client.clone(), clock, COMPONENT);
    let manager = Arc::new(Manager { client, events, pods, claims, templates });
    rkube_operator::run(NAME, queue, settings.concurrent_resourceclaim_syncs, move |work: Work| {
        let manager = manager.clone();
        async move {
            let outcome = match work {
                Work::Pod(key) => manager.reconcile_pod(&key).await,
                Work::Claim(key) => manager.reconcile_claim(&key).await,
            };
            outcome.map_err(rkube_operator::Error::from)
        }
    })
    .await;
}

/// A pod that is done has claims to be looked at; another may need some.
fn pod_changed(queue: &Queue<Work>, change: &Change<'_, Pod>) {
    let Some(pod) = change.new.or(change.old) else { return };
    let Some(devices) = &pod.devices else { return };
    if change.new.is_none() || plan::is_done(pod) {
        for name in devices.objects() {
            let namespace = pod.namespace.to_string();
            queue.add(Work::Claim(Key { namespace, name: name.to_string() }));
        }
    }
    if change.new.is_some() && pod.deleted.is_none() {
        queue.add(Work::Pod(key_of(pod)));
    }
}

fn key_of(pod: &Pod) -> Key {
    Key { namespace: pod.namespace.to_string(), name: pod.name.to_string() }
}
