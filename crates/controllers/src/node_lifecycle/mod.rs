//! Says of nodes what they cannot say themselves: taints by their conditions and by `unschedulable`, the older names of
//! labels, and `Unknown` of a node that is silent; that its pods are not ready then; and the taints by which pods leave it,
//! as fast as the state of its zone allows. Watches nodes, their leases and pods; writes taints, labels and conditions of
//! nodes, and the readiness of pods. Evicting is what the taint eviction controller does about the taints.

mod monitor;
mod plan;
mod pods;
mod taints;
mod view;
mod zones;

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::events::Recorder;
use rkube_operator::kube::api::{Api, Patch, PatchParams};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde_json::json;
use tokio::sync::Notify;

use crate::pods::{self as all_pods, ByNode, Pod};
use crate::{Context, Settings};
use monitor::Monitor;
use plan::Ready;
use pods::Marker;
use view::NodeView;
use zones::{Rates, Zones};

const NAME: &str = "node-lifecycle-controller";
/// As events name it.
const COMPONENT: &str = "node-controller";
const WORKERS: usize = 8;
const POD_WORKERS: usize = 4;

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let (queue, late): (Queue<String>, Queue<Key>) = (Queue::new(), Queue::new());
    let adding = queue.clone();
    let nodes = Arc::new(view::nodes(&caches).on_change(move |change| adding.add(change.key.name.clone())));
    let leases = view::leases(&caches);
    nodes.synced().await;
    leases.synced().await;
    let (adding, known) = (late.clone(), nodes.clone());
    let pods = Arc::new(all_pods::informer(&caches).indexed::<ByNode>().on_change(move |change| {
        // The pods that a node has when it is lost are seen to then.
        let is_placed = |pod: &Pod| change.old.is_none_or(|old| old.node != pod.node);
        if change.new.is_some_and(|pod| pod.ready && is_placed(pod) && is_lost(&known, pod)) {
            adding.add(change.key.clone());
        }
    }));
    pods.synced().await;
    let events = Recorder::start(client.clone(), clock.clone(), COMPONENT);
    let marker = Arc::new(Marker { client: client.clone(), clock: clock.clone(), events: events.clone() });
    let monitor = Monitor {
        client: client.clone(),
        clock: clock.clone(),
        events,
        nodes: nodes.clone(),
        leases,
        pods: pods.clone(),
        marker: marker.clone(),
        zones: Mutex::new(Zones::new(rates(&settings))),
        wake: Notify::new(),
        settings,
    };
    let lost = nodes.clone();
    let reconciling = rkube_operator::run(NAME, queue, WORKERS, move |name: String| {
        let (client, clock, nodes) = (client.clone(), clock.clone(), nodes.clone());
        async move {
            match nodes.get("", &name) {
                Some(node) => settle(reconcile(&client, &*clock, &node).await),
                None => Ok(Outcome::Unchanged),
            }
        }
    });
    let marking = rkube_operator::run("node-lifecycle-controller-pods", late, POD_WORKERS, move |key: Key| {
        let (marker, nodes, pods) = (marker.clone(), lost.clone(), pods.clone());
        async move {
            match pods.get(&key.namespace, &key.name).filter(|pod| is_lost(&nodes, pod)) {
                Some(pod) => marker.mark(&pod).await.map(|()| Outcome::Unchanged),
                None => Ok(Outcome::Unchanged),
            }
        }
    });
    tokio::join!(monitor.watch_over(), monitor.taint(), reconciling, marking);
}

fn rates(settings: &Settings) -> Rates {
    Rates {
        normal: settings.node_eviction_rate,
        secondary: settings.secondary_node_eviction_rate,
        large_size: settings.large_cluster_size_threshold,
        unhealthy_part: settings.unhealthy_zone_threshold,
    }
}

/// Whether a pod is on a node that is not ready.
fn is_lost(nodes: &Informer<NodeView>, pod: &Pod) -> bool {
    let node = if pod.node.is_empty() { None } else { nodes.get("", &pod.node) };
    node.and_then(|node| node.ready()).is_some_and(|ready| ready != Ready::True)
}

/// Taints and labels.
async fn reconcile(client: &Client, clock: &dyn Clock, node: &NodeView) -> Result<Outcome, kube::Error> {
    let now = time::format_seconds(clock.now_seconds());
    let taints = plan::taints(&node.status.conditions, node.spec.unschedulable, &node.spec.taints, &now);
    let labels = plan::labels(|key| node.metadata.labels.get(key).map(String::as_str));
    if taints.is_none() && labels.is_empty() {
        return Ok(Outcome::Unchanged);
    }
    let mut patch = json!({"metadata": {"uid": node.metadata.uid}});
    if let Some(taints) = taints {
        // A list of taints is written as a whole: of no other state than the one that was seen.
        patch["metadata"]["resourceVersion"] = node.metadata.version.as_str().into();
        patch["spec"]["taints"] = taints.into();
    }
    for (key, value) in labels {
        patch["metadata"]["labels"][key] = value.into();
    }
    let api: Api<Node> = Api::all(client.clone());
    api.patch(&node.metadata.name, &PatchParams::default(), &Patch::Strategic(&patch)).await?;
    // Nobody but the node itself makes this necessary, and pods must not come to one that is not ready again.
    Ok(Outcome::Unchanged)
}

/// That the node is gone, or another one, is no failure.
fn settle(outcome: Result<Outcome, kube::Error>) -> Result<Outcome, kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Unchanged),
        other => other,
    }
}
