//! Scales whatever has a scale by what is measured of its pods and of other things. Watches HorizontalPodAutoscalers and
//! pods; looks at each autoscaler once in a period, because no event tells of a new figure; writes scales, and the status
//! of autoscalers.

mod act;
mod calculate;
#[cfg(test)]
mod calculate_tests;
mod limits;
mod memory;
mod metrics;
mod plan;
#[cfg(test)]
mod plan_tests;
mod propose;
mod target;
mod view;

use std::sync::Arc;

use rkube_operator::events::Recorder;
use rkube_operator::{Change, Key, Outcome, Queue};
use tokio::sync::Notify;

use crate::Context;
use crate::pods;
use crate::settings::PERIOD_MIN;
use act::Manager;
use memory::Memory;
use target::Kinds;
use view::Autoscaler;

const NAME: &str = "horizontal-pod-autoscaler-controller";
/// Who speaks in events.
const COMPONENT: &str = "horizontal-pod-autoscaler";

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let period = settings.horizontal_pod_autoscaler_sync_period.max(PERIOD_MIN);
    let workers = settings.concurrent_horizontal_pod_autoscaler_syncs;
    let (kinds, known) = (Kinds::default(), Notify::new());
    let working = async {
        known.notified().await;
        let (queue, memory): (Queue<Key>, Arc<Memory>) = Default::default();
        let (adding, remembering) = (queue.clone(), memory.clone());
        let autoscalers = view::autoscalers(&caches).on_change(move |change: &Change<'_, Autoscaler>| {
            if change.new.is_some() {
                remembering.add(change.key);
                // Whatever changes is looked at when it is due.
                adding.add_after(Key::clone(change.key), period);
            } else {
                remembering.forget(change.key);
            }
        });
        let pods = pods::informer(&caches).indexed::<pods::ByLabel>();
        autoscalers.synced().await;
        pods.synced().await;
        let events = Recorder::start(client.clone(), clock.clone(), COMPONENT);
        let kinds = kinds.clone();
        let manager =
            Arc::new(Manager { client: client.clone(), clock, settings, events, autoscalers, pods, kinds, memory });
        let again = queue.clone();
        rkube_operator::run(NAME, queue, workers, move |key: Key| {
            let (manager, again) = (manager.clone(), again.clone());
            async move {
                if let Err(error) = manager.reconcile(&key).await {
                    tracing::debug!(autoscaler = ?key, error, "an autoscaler cannot do its work");
                }
                if manager.autoscalers.get(&key.namespace, &key.name).is_some() {
                    again.add_after(key, period);
                }
                Ok::<Outcome, rkube_operator::Error>(Outcome::Unchanged)
            }
        })
        .await;
    };
    tokio::select! {
        biased;
        () = kinds.follow(&caches, &known) => {}
        () = working => {}
    }
}
