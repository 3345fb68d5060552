//! A node that runs its pods, by a container runtime.
//!
//! - [`config`], [`machine`]: what it is; [`node`]: the Node of it.
//! - [`dispatch`]: which pods there are, and who works on them; [`worker`]: one pod; [`inbox`]: what its worker has not heard
//!   of yet; [`kubelet`]: what they share.
//! - [`images`], [`credentials`], [`start`], [`hooks`], [`kill`], [`probes`], [`last_words`], [`http_get`]: what happens to
//!   containers. [`labels`]: how they are found again.
//! - [`prepare_api`]: what is asked of whoever prepares volumes, environment and security context. [`refuse`]: what nobody
//!   does yet.
//! - [`prepare`]: does it; `volumes`: the volumes of pods, a file for each kind.
//! - [`static_pods`]: pods that are described by files. [`garbage`]: what is left behind.
//!
//! What holds: of a pod there is at most one worker, and of a container at most one that runs. What is needed to go on
//! stands in the runtime and in the API.

mod config;
mod credentials;
mod dispatch;
mod garbage;
mod hooks;
mod http_get;
mod images;
mod inbox;
mod kill;
mod kubelet;
mod labels;
mod last_words;
mod machine;
mod node;
pub mod prepare;
mod prepare_api;
mod probes;
mod refuse;
mod start;
mod static_pods;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod unverified;
mod volumes;
mod worker;

use std::sync::Arc;

use rkube_operator::Manager;

pub use config::{Config, Directories, PODS_MAX};
pub use kubelet::Pods;
pub use machine::Machine;
pub use prepare_api::{ContainerContext, Prepare, Problem};

use kubelet::Kubelet;

/// Starts the node. It ends with the manager; its pods go on running, and the next start takes them up again.
pub fn start(config: Config) -> (Manager, Arc<Pods>) {
    let mut manager = Manager::with_caches(config.caches.clone());
    let (config, pods) = (Arc::new(config), Arc::new(Pods::default()));
    let known = pods.clone();
    manager.add("kubelet", move || run(config.clone(), known.clone()));
    (manager, pods)
}

async fn run(config: Arc<Config>, known: Arc<Pods>) {
    for directory in [&config.directories.pod_logs, &config.directories.container_logs] {
        if let Err(error) = tokio::fs::create_dir_all(directory).await {
            tracing::warn!(directory = %directory.display(), %error, "a directory for logs cannot be made");
        }
    }
    let kubelet = Kubelet::new(config, known);
    let node = node::run(kubelet.clone());
    let pods = async {
        kubelet.pods.synced().await;
        kubelet.node.synced().await;
        dispatch::Dispatch::new(kubelet.clone()).run().await;
    };
    tokio::join!(node, pods, garbage::collect_images(kubelet.clone()));
}
