//! Nodes that run nothing: they register, renew leases, take pods through their lives and say what a kubelet would.
//!
//! - [`template`]: what they are made of; [`registration`]: the Node and Lease of one.
//! - [`fleet`]: all of them; [`nodes`] keeps the nodes, [`pods`] the pods.
//! - [`behaviour`], [`commands`]: what containers do; [`containers`]: a container runtime that is none; [`images`],
//!   [`addresses`], [`ids`].
//! - [`provider`]: what others may ask of them, [`usage`] among it.

mod addresses;
mod behaviour;
mod commands;
mod containers;
mod fleet;
mod ids;
mod images;
#[cfg(test)]
mod life_tests;
mod nodes;
mod pods;
mod provider;
mod registration;
mod template;
mod usage;

use std::sync::Arc;

use rkube_machinery::Text;
use rkube_operator::Manager;

pub use fleet::Config;
pub use provider::Provider;
pub use template::{Error as TemplateError, NODES_MAX, Template};

use fleet::Fleet;

/// So many pods, and so many nodes, are worked on at a time. On a slow disk it is this many writes that share one wait
/// for it.
const POD_WORKERS: usize = 256;
const NODE_WORKERS: usize = 64;

/// Starts the nodes. They end with the manager; their objects stay, and the next start goes on with them.
pub fn start(config: Config) -> (Manager, Provider) {
    let mut manager = Manager::with_caches(config.caches.clone());
    let provider = Provider::new(&config);
    let config = Arc::new(config);
    manager.add("simulated-nodes", move || run(config.clone()));
    (manager, provider)
}

async fn run(config: Arc<Config>) {
    let fleet = Fleet::new(config);
    fleet.pods.synced().await;
    fleet.node_views.synced().await;
    let names: Vec<Text> = fleet.nodes.keys().cloned().collect();
    names.into_iter().for_each(|name| fleet.node_queue.add(name));
    let (of_nodes, of_pods) = (fleet.clone(), fleet.clone());
    let nodes = rkube_operator::run("simulated-nodes", fleet.node_queue.clone(), NODE_WORKERS, move |name| {
        nodes::reconcile(of_nodes.clone(), name)
    });
    let pods = rkube_operator::run("simulated-pods", fleet.pod_queue.clone(), POD_WORKERS, move |key| {
        pods::reconcile(of_pods.clone(), key)
    });
    tokio::join!(nodes, pods);
}
