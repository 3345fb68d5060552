//! The built-in reconcilers, one folder each and a line in [`start`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod amount;
mod clusterrole_aggregation;
mod conditions;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod endpoints;
mod endpointslice;
mod endpointslice_mirroring;
mod garbage_collector;
mod history;
mod jobs;
mod metadata;
mod namespaced;
mod namespaces;
mod node_ipam;
mod node_lifecycle;
mod nodes;
mod owner;
mod pod_gc;
mod pods;
mod replica_sets;
mod requests;
mod root_ca;
mod selection;
mod service_account_tokens;
mod service_accounts;
mod service_cidrs;
mod services;
mod stateful_sets;
mod template;
mod template_hash;
mod ttl_after_finished;
mod volume_protection;

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::host::Clock;
use rkube_operator::kube::Client;
use rkube_operator::{Caches, Manager};

pub use node_ipam::NodeRanges;
pub use rkube_operator::Health;
pub use selection::Selection;
pub use service_account_tokens::{SignToken, TokenClaims};

/// What controllers need to know of the cluster.
pub struct Config {
    /// A client that acts as this service account of `kube-system`, or as the [`MANAGER`].
    pub client: Box<dyn Fn(&'static str) -> Client + Send + Sync>,
    /// The shared caches. The client's writes are noted by them ([`Caches::client`]).
    pub caches: Caches,
    /// The cluster's certificate authority, in PEM.
    pub root_ca: String,
    /// Makes the tokens that Secrets hold; None where no key signs them.
    pub sign_token: Option<SignToken>,
    pub clock: Arc<dyn Clock>,
    pub selection: Selection,
    /// How long a namespace that is to go is left alone.
    pub namespace_grace: Duration,
    /// What nodes get the addresses of their pods from; None: they get none.
    pub node_ranges: Option<NodeRanges>,
}

/// Who controllers are that are no service account but the controller manager itself.
pub const MANAGER: &str = "kube-controller-manager";

/// What a controller gets: a client of its own, and the caches of all.
#[derive(Clone)]
pub(crate) struct Context {
    pub client: Client,
    pub caches: Caches,
    pub clock: Arc<dyn Clock>,
}

/// Starts the controllers that are selected.
pub fn start(config: &Config) -> Manager {
    let mut starter = Starter { manager: Manager::with_caches(config.caches.clone()), config, there: Vec::new() };
    let (root_ca, grace): (Arc<str>, _) = (config.root_ca.as_str().into(), config.namespace_grace);
    // The controller, and the service account that it acts as; both have upstream's names.
    starter.add("garbage-collector-controller", "generic-garbage-collector", garbage_collector::run);
    starter.add("namespace-controller", "namespace-controller", move |context| namespaces::run(context, grace));
    starter.add("serviceaccount-controller", "service-account-controller", service_accounts::run);
    if let Some(sign) = config.sign_token.clone() {
        let root_ca = root_ca.clone();
        starter.add("serviceaccount-token-controller", MANAGER, move |context| {
            service_account_tokens::run(context, sign.clone(), root_ca.clone())
        });
    }
    starter.add("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", move |context| {
        root_ca::run(context, root_ca.clone())
    });
    starter.add(
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation-controller",
        clusterrole_aggregation::run,
    );
    starter.add("service-cidr-controller", "service-cidrs-controller", service_cidrs::run);
    starter.add("persistentvolumeclaim-protection-controller", "pvc-protection-controller", volume_protection::claims);
    starter.add("persistentvolume-protection-controller", "pv-protection-controller", volume_protection::volumes);
    starter.add(
        "volumeattributesclass-protection-controller",
        "volumeattributesclass-protection-controller",
        volume_protection::classes,
    );
    starter.add("node-lifecycle-controller", "node-controller", node_lifecycle::run);
    if let Some(ranges) = config.node_ranges.clone().map(Arc::new) {
        starter.add("node-ipam-controller", "node-controller", move |context| node_ipam::run(context, ranges.clone()));
    } else {
        starter.there.push("node-ipam-controller");
    }
    starter.add("endpoints-controller", "endpoint-controller", endpoints::run);
    starter.add("endpointslice-controller", "endpointslice-controller", endpointslice::run);
    starter.add(
        "endpointslice-mirroring-controller",
        "endpointslicemirroring-controller",
        endpointslice_mirroring::run,
    );
    starter.add("pod-garbage-collector-controller", "pod-garbage-collector", pod_gc::run);
    starter.add("deployment-controller", "deployment-controller", deployments::run);
    starter.add("replicaset-controller", "replicaset-controller", replica_sets::run_replica_sets);
    starter.add(
        "replicationcontroller-controller",
        "replication-controller",
        replica_sets::run_replication_controllers,
    );
    starter.add("job-controller", "job-controller", jobs::run);
    starter.add("ttl-after-finished-controller", "ttl-after-finished-controller", ttl_after_finished::run);
    starter.add("statefulset-controller", "statefulset-controller", stateful_sets::run);
    starter.add("daemonset-controller", "daemon-set-controller", daemon_sets::run);
    starter.add("cronjob-controller", "cronjob-controller", cron_jobs::run);
    let missing = config.selection.missing(&starter.there);
    if !missing.is_empty() {
        tracing::warn!(controllers = missing.join(","), "these controllers do not exist yet");
    }
    starter.manager
}

struct Starter<'a> {
    manager: Manager,
    config: &'a Config,
    /// All controllers that there are, whether they run or not.
    there: Vec<&'static str>,
}

impl Starter<'_> {
    fn add<F>(&mut self, name: &'static str, account: &'static str, run: impl Fn(Context) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.there.push(name);
        if !self.config.selection.has(name) {
            return;
        }
        let context = Context {
            client: (self.config.client)(account),
            caches: self.manager.caches().clone(),
            clock: self.config.clock.clone(),
        };
        self.manager.add(name, move || run(context.clone()));
    }
}
