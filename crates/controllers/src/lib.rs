//! The built-in reconcilers, one folder each and a line in [`start`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod namespaced;
mod namespaces;
mod root_ca;
mod service_accounts;
mod service_cidrs;
mod volume_protection;

use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_operator::kube::Client;
use tokio::task::JoinSet;

/// What controllers need to know of the cluster.
pub struct Config {
    /// A client that acts as the named controller's service account.
    pub client: Box<dyn Fn(&'static str) -> Client + Send + Sync>,
    /// The cluster's certificate authority, in PEM.
    pub root_ca: String,
    pub clock: Arc<dyn Clock>,
}

/// Starts all controllers. They end when the set is dropped.
pub fn start(config: &Config) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(namespaces::run((config.client)("namespace-controller")));
    tasks.spawn(service_accounts::run((config.client)("service-account-controller")));
    tasks.spawn(root_ca::run((config.client)("root-ca-cert-publisher"), config.root_ca.clone()));
    tasks.spawn(service_cidrs::run((config.client)("service-cidrs-controller"), config.clock.clone()));
    tasks.spawn(volume_protection::claims((config.client)("pvc-protection-controller")));
    tasks.spawn(volume_protection::volumes((config.client)("pv-protection-controller")));
    tasks.spawn(volume_protection::classes((config.client)("vac-protection-controller")));
    tasks
}
