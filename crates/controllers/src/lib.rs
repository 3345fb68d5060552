//! The built-in reconcilers, one folder each and a line in [`start`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod amount;
mod attach_detach;
mod bootstrap_tokens;
mod certificate_requests;
mod cluster_trust_bundles;
mod clusterrole_aggregation;
mod conditions;
#[cfg(test)]
mod coverage;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod device_taint_eviction;
mod disruption;
mod endpoints;
mod endpointslice;
mod endpointslice_mirroring;
mod ephemeral_volumes;
mod garbage_collector;
mod history;
mod horizontal_pod_autoscalers;
mod jobs;
mod legacy_tokens;
mod local_path_provisioner;
mod metadata;
mod namespaced;
mod namespaces;
mod node_ipam;
mod node_lifecycle;
mod nodes;
mod owner;
mod persistent_volumes;
mod pod_certificate_requests;
mod pod_gc;
mod pods;
mod policy_status;
mod replica_sets;
mod requests;
mod resource_claims;
mod resource_quotas;
mod root_ca;
mod selection;
mod service_account_tokens;
mod service_accounts;
mod service_cidrs;
mod services;
mod settings;
mod stateful_sets;
mod storage_version_gc;
mod storage_version_migrator;
mod taint_eviction;
mod template;
mod template_hash;
mod ttl;
mod ttl_after_finished;
mod volume_expander;
mod volume_protection;
mod volumes;

use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_operator::kube::Client;
use rkube_operator::{Caches, Manager};

pub use certificate_requests::{Asked, Attribute, NewCertificate, SignCertificate, SignCertificates, Signer, Validity};
pub use local_path_provisioner::{LocalMachine, LocalPath, NAME as LOCAL_PATH_PROVISIONER, PROVISIONER as LOCAL_PATH};
pub use node_ipam::NodeRanges;
pub use rkube_operator::Health;
pub use selection::Selection;
pub use service_account_tokens::{SignToken, TokenClaims};
pub use settings::{FeatureGates, Settings};

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
    /// Make certificates that are asked for, where an authority signs them.
    pub sign_certificates: SignCertificates,
    pub clock: Arc<dyn Clock>,
    pub selection: Selection,
    pub settings: Arc<Settings>,
    /// What nodes get the addresses of their pods from; None: they get none.
    pub node_ranges: Option<NodeRanges>,
    /// Where claims get volumes from that are directories of nodes; None: there are no nodes that could have them.
    pub local_path: Option<LocalPath>,
}

/// Who controllers are that are no service account but the controller manager itself.
pub const MANAGER: &str = "kube-controller-manager";

const CERTIFICATE_ACCOUNT: &str = "certificate-controller";

/// What a controller gets: a client of its own, and the caches of all.
#[derive(Clone)]
pub(crate) struct Context {
    pub client: Client,
    pub caches: Caches,
    pub clock: Arc<dyn Clock>,
    pub settings: Arc<Settings>,
}

/// Starts the controllers that are selected.
pub fn start(config: &Config) -> Manager {
    start_with(Manager::with_caches(config.caches.clone()), config)
}

/// The same with a manager that is there, on the same caches: one that is elected starts them when it leads.
pub fn start_with(mut manager: Manager, config: &Config) -> Manager {
    if manager.is_elected() {
        manager.keep(warm(&config.caches));
    }
    let mut starter = Starter { manager, config, there: Vec::new() };
    let root_ca: Arc<str> = config.root_ca.as_str().into();
    // The controller, and the service account that it acts as; both have upstream's names.
    starter.add_gated(
        config.settings.enable_garbage_collector,
        "garbage-collector-controller",
        "generic-garbage-collector",
        garbage_collector::run,
    );
    starter.add("namespace-controller", "namespace-controller", namespaces::run);
    starter.add("serviceaccount-controller", "service-account-controller", service_accounts::run);
    if let Some(sign) = config.sign_token.clone() {
        let root_ca = root_ca.clone();
        starter.add("serviceaccount-token-controller", MANAGER, move |context| {
            service_account_tokens::run(context, sign.clone(), root_ca.clone())
        });
    }
    starter.add("certificatesigningrequest-approving-controller", CERTIFICATE_ACCOUNT, certificate_requests::approve);
    if !config.sign_certificates.is_empty() {
        let sign = config.sign_certificates.clone();
        starter.add("certificatesigningrequest-signing-controller", CERTIFICATE_ACCOUNT, move |context| {
            certificate_requests::sign(context, sign.clone())
        });
    } else {
        starter.there.push("certificatesigningrequest-signing-controller");
    }
    starter.add("certificatesigningrequest-cleaner-controller", CERTIFICATE_ACCOUNT, certificate_requests::clean);
    let gates = config.settings.feature_gates;
    starter.add_gated(
        gates.pod_certificate_request,
        "podcertificaterequest-cleaner-controller",
        "podcertificaterequestcleaner",
        pod_certificate_requests::run,
    );
    let published = root_ca.clone();
    starter.add_gated(
        gates.cluster_trust_bundle,
        "kube-apiserver-serving-clustertrustbundle-publisher-controller",
        "kube-apiserver-serving-clustertrustbundle-publisher",
        move |context| cluster_trust_bundles::run(context, published.clone()),
    );
    starter.add("bootstrap-signer-controller", "bootstrap-signer", bootstrap_tokens::sign);
    starter.add("token-cleaner-controller", "token-cleaner", bootstrap_tokens::clean);
    starter.add(
        "legacy-serviceaccount-token-cleaner-controller",
        "legacy-service-account-token-cleaner",
        legacy_tokens::run,
    );
    starter.add("root-ca-certificate-publisher-controller", "root-ca-cert-publisher", move |context| {
        root_ca::run(context, root_ca.clone())
    });
    starter.add(
        "clusterrole-aggregation-controller",
        "clusterrole-aggregation-controller",
        clusterrole_aggregation::run,
    );
    starter.add("service-cidr-controller", "service-cidrs-controller", service_cidrs::run);
    starter.add("persistentvolume-binder-controller", "persistent-volume-binder", persistent_volumes::run);
    starter.add("persistentvolume-expander-controller", "expand-controller", volume_expander::run);
    starter.add("persistentvolume-attach-detach-controller", "attachdetach-controller", attach_detach::run);
    starter.add("ephemeral-volume-controller", "ephemeral-volume-controller", ephemeral_volumes::run);
    if let Some(local_path) = config.local_path.clone() {
        starter.add(LOCAL_PATH_PROVISIONER, "persistent-volume-binder", move |context| {
            local_path_provisioner::run(context, local_path.clone())
        });
    } else {
        starter.there.push(LOCAL_PATH_PROVISIONER);
    }
    starter.add("persistentvolumeclaim-protection-controller", "pvc-protection-controller", volume_protection::claims);
    starter.add("persistentvolume-protection-controller", "pv-protection-controller", volume_protection::volumes);
    starter.add(
        "volumeattributesclass-protection-controller",
        "volumeattributesclass-protection-controller",
        volume_protection::classes,
    );
    starter.add("node-lifecycle-controller", "node-controller", node_lifecycle::run);
    starter.add("taint-eviction-controller", "node-controller", taint_eviction::run);
    starter.add("ttl-controller", "ttl-controller", ttl::run);
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
    starter.add("resourcequota-controller", "resourcequota-controller", resource_quotas::run);
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
    starter.add("disruption-controller", "disruption-controller", disruption::run);
    starter.add("cronjob-controller", "cronjob-controller", cron_jobs::run);
    starter.add("horizontal-pod-autoscaler-controller", "horizontal-pod-autoscaler", horizontal_pod_autoscalers::run);
    starter.add("resourceclaim-controller", "resource-claim-controller", resource_claims::run);
    starter.add("device-taint-eviction-controller", "device-taint-eviction-controller", device_taint_eviction::run);
    starter.add(
        "validatingadmissionpolicy-status-controller",
        "validatingadmissionpolicy-status-controller",
        policy_status::run,
    );
    starter.add_gated(
        gates.storage_version_migrator,
        "storage-version-migrator-controller",
        "storage-version-migrator-controller",
        storage_version_migrator::run,
    );
    starter.add_gated(
        gates.storage_version_api,
        "storageversion-garbage-collector-controller",
        "storage-version-garbage-collector",
        storage_version_gc::run,
    );
    let missing = config.selection.missing(&starter.there);
    if !missing.is_empty() {
        tracing::warn!(controllers = missing.join(","), "these controllers do not exist yet");
    }
    starter.manager
}

/// The caches that take long to fill, held so that they are warm when this process leads. The others begin with a list.
fn warm(caches: &Caches) -> impl Send + Sync + 'static {
    (pods::informer(caches), nodes::informer(caches))
}

struct Starter<'a> {
    manager: Manager,
    config: &'a Config,
    /// All controllers that there are, whether they run or not.
    there: Vec<&'static str>,
}

impl Starter<'_> {
    /// One that runs only where its gate, or a flag of its own, is on.
    fn add_gated<F>(
        &mut self,
        gate: bool,
        name: &'static str,
        account: &'static str,
        run: impl Fn(Context) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        if gate { self.add(name, account, run) } else { self.there.push(name) }
    }

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
            settings: self.config.settings.clone(),
        };
        self.manager.add(name, move || run(context.clone()));
    }
}
