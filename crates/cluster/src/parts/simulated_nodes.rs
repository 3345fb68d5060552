//! Simulated nodes: what is a `kubelet` on each of many machines elsewhere.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use rkube_apiserver::{Connection, NodeAnswer, NodeProvider};
use rkube_machinery::{Status, Value};
use rkube_node::simulated;
pub use rkube_node::simulated::{NODES_MAX, Template as NodeTemplate};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Manager, Selection};
use tokio::sync::Notify;

use super::{Part, metrics_reader};
use crate::host::{Host, component_user, node_user};

const AGENT: &str = "kubelet";
/// What all of them follow together, and what is made for all of them, is not any node's to do: a node may watch its own pods
/// only, and a thousand watches would be what simulated nodes are to do without. What a node writes it writes as itself.
const FLEET: &str = "system:node";
const FLEET_GROUPS: [&str; 1] = ["system:masters"];

/// How many nodes there are, and what they are made of.
pub struct SimulatedNodes {
    pub count: usize,
    pub template: NodeTemplate,
    /// Whether a controller gives nodes the ranges of their pods.
    pub ranges_are_given: bool,
}

impl From<SimulatedNodes> for Part {
    fn from(options: SimulatedNodes) -> Part {
        let (count, last) = (options.count, options.template.name(options.count.saturating_sub(1)));
        let part = Part::new(None, move |host| start(options, host));
        if count == 0 { part } else { part.settled(move |host| registered(host, count, last.to_string())) }
    }
}

fn start(options: SimulatedNodes, host: &Host) -> Manager {
    let SimulatedNodes { count, template, ranges_are_given } = options;
    let caches = Caches::new(host.source(component_user(FLEET, &FLEET_GROUPS)));
    let keeper = host.client_for(&caches, component_user(FLEET, &FLEET_GROUPS), AGENT);
    let (clients, noting) = (host.clone(), caches.clone());
    let (manager, provider) = simulated::start(simulated::Config {
        count,
        template,
        caches,
        client: Box::new(move |node| clients.client_for(&noting, node_user(node), AGENT)),
        keeper,
        clock: host.clock().clone(),
        ranges_are_given,
    });
    host.server().provide_nodes(Arc::new(Reached(provider)));
    manager
}

/// How the server reaches them.
struct Reached(simulated::Provider);

impl NodeProvider for Reached {
    fn has(&self, node: &str) -> bool {
        self.0.has(node)
    }

    fn connect(&self, connection: &Connection<'_>) -> Option<NodeAnswer> {
        let Connection { node, subresource, .. } = *connection;
        let said = |what: &str| format!("node \"{node}\" is simulated: its containers run nothing, so that {what}");
        self.0.has(node).then(|| match subresource {
            "log" => NodeAnswer::Log(said("there is no log") + "\n"),
            _ => NodeAnswer::Refused(Status::bad_request(said("there is nothing to connect to"))),
        })
    }

    fn node_metrics(&self, name: &str) -> Option<Value> {
        self.0.node_metrics(name)
    }

    fn pod_metrics(&self, namespace: &str, name: &str) -> Option<Value> {
        self.0.pod_metrics(namespace, name)
    }
}

/// Waits until the nodes are there. They are registered at once, so that the number and one of them will do.
async fn registered(host: Host, count: usize, last: String) {
    metrics_reader::create_role(&host).await;
    let caches = Caches::new(host.source(component_user(FLEET, &FLEET_GROUPS)));
    let changed = Arc::new(Notify::new());
    let notify = changed.clone();
    let selection = Selection { metadata_only: true, ..Selection::default() };
    let nodes =
        caches.view(&ApiResource::erase::<Node>(&()), selection, |_| Some(())).on_change(move |_| notify.notify_one());
    while nodes.len() < count || nodes.get("", &last).is_none() {
        changed.notified().await;
    }
}
