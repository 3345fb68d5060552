//! The controllers: what is a `kube-controller-manager` elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use rkube_access::UserRef;
use rkube_access::authenticate::service_account::LegacyClaims;
use rkube_apiserver::{ApiServer, Features};
use rkube_controllers::{
    FeatureGates, LOCAL_PATH_PROVISIONER, NewCertificate, SignCertificate, SignToken, TokenClaims,
};
pub use rkube_controllers::{LocalMachine, LocalPath, NodeRanges, Selection, Settings, Signer};
use rkube_operator::{Caches, Leadership, Manager};
use tokio::sync::Notify;

use super::election::Elected;
use super::{CONTROLLER_MANAGER, Election, Part, local_path};
use crate::certificates::{CertificateSigner, Pair};
use crate::host::{Host, component_user, service_account};

const AGENT: &str = "kube-controller-manager";
/// Who the shared caches of all controllers are, and those without an account of their own, as upstream.
const MANAGER_USER: &str = "system:kube-controller-manager";

/// They give each namespace what pods need.
const OF_NAMESPACES: [&str; 2] = ["serviceaccount-controller", "root-ca-certificate-publisher-controller"];

/// Which controllers run, and how.
pub struct Controllers {
    /// What every namespace's `kube-root-ca.crt` holds.
    pub root_ca: String,
    /// The authorities that sign certificates that are asked for; those of other signers are left to others.
    pub signing: SigningAuthorities,
    pub selection: Selection,
    pub settings: Settings,
    /// What nodes get the addresses of their pods from; None: they get none.
    pub node_ranges: Option<NodeRanges>,
    /// Which of several processes on one store runs them; None: this one does.
    pub election: Option<Election>,
    /// Where claims get volumes from that are directories of nodes; None: there are no nodes that could have them.
    pub local_path: Option<LocalPath>,
}

pub type SigningAuthorities = BTreeMap<Signer, Pair>;

/// One that signs everything.
pub fn signs_all(authority: &Pair) -> SigningAuthorities {
    Signer::ALL.into_iter().map(|signer| (signer, authority.clone())).collect()
}

impl From<Controllers> for Part {
    fn from(options: Controllers) -> Part {
        let makes_objects = OF_NAMESPACES.iter().all(|name| options.selection.has(name));
        let provisions = options.local_path.is_some() && options.selection.has(LOCAL_PATH_PROVISIONER);
        let leadership: Arc<OnceLock<Leadership>> = Arc::default();
        let known = leadership.clone();
        let part = Part::new(Some(CONTROLLER_MANAGER), move |host| {
            let manager = start(options, host);
            // Set once: nobody else does.
            let _ = known.set(manager.leadership());
            manager
        });
        part.settled(move |host| async move {
            if provisions {
                local_path::create_class(&host).await;
            }
            if makes_objects {
                settled(host, leadership).await;
            }
        })
    }
}

/// Waits for the first namespace, unless that is another's to make.
async fn settled(host: Host, leadership: Arc<OnceLock<Leadership>>) {
    let another_leads = async {
        let leadership = leadership.get().cloned();
        if let Some(mut leadership) = leadership
            && !leadership.known().await
        {
            return;
        }
        std::future::pending().await
    };
    tokio::select! {
        biased;
        () = first_namespace(host) => {}
        () = another_leads => {}
    }
}

/// Waits until pods can be made in the namespace `default`: until it has its service account and the authority's
/// certificate.
async fn first_namespace(host: Host) {
    let caches = Caches::new(host.source(component_user(MANAGER_USER, &[])));
    let changed = Arc::new(Notify::new());
    let (by_account, by_map) = (changed.clone(), changed.clone());
    let accounts = caches.named::<ServiceAccount>("default").on_change(move |_| by_account.notify_one());
    let maps = caches.named::<ConfigMap>("kube-root-ca.crt").on_change(move |_| by_map.notify_one());
    while accounts.get("default", "default").is_none() || maps.get("default", "kube-root-ca.crt").is_none() {
        changed.notified().await;
    }
}

fn start(options: Controllers, host: &Host) -> Manager {
    let Controllers { root_ca, signing, selection, settings, node_ranges, election, local_path } = options;
    let settings = Settings { feature_gates: feature_gates(host.server().features()), ..settings };
    let caches = Caches::new(host.source(component_user(MANAGER_USER, &[])));
    let elected = Elected { lease: AGENT, user: component_user(MANAGER_USER, &[]), agent: AGENT, component: AGENT };
    let (manager, clients) = elected.manager(election, host, &caches);
    let noting = caches.clone();
    let config = rkube_controllers::Config {
        client: Box::new(move |name| clients.client_for(&noting, user(name), AGENT)),
        caches,
        root_ca,
        sign_token: host.server().signs_tokens().then(|| sign_token(host.server())),
        sign_certificates: {
            let signing = signing.iter();
            signing
                .filter_map(|(signer, authority)| Some((*signer, sign_certificate(*signer, authority, host)?)))
                .collect()
        },
        clock: host.clock().clone(),
        selection,
        settings: Arc::new(settings),
        node_ranges,
        local_path,
    };
    rkube_controllers::start_with(manager, &config)
}

/// One process has one set of gates: the server's.
fn feature_gates(features: &Features) -> FeatureGates {
    FeatureGates {
        cluster_trust_bundle: features.cluster_trust_bundle,
        max_unavailable_stateful_set: features.max_unavailable_stateful_set,
        pod_certificate_request: features.pod_certificate_request,
        storage_version_api: features.storage_version_api,
        storage_version_migrator: features.storage_version_migrator,
    }
}

/// Makes tokens for Secrets with the server's key.
fn sign_token(server: &Arc<ApiServer>) -> SignToken {
    let server = server.clone();
    Arc::new(move |of: &TokenClaims<'_>| {
        let TokenClaims { namespace, account: name, account_uid: uid, secret } = *of;
        server.sign_legacy_token(&LegacyClaims { namespace, name, uid, secret })
    })
}

/// Signs with the authority's key; None if it cannot be used, which the log says.
fn sign_certificate(signer: Signer, authority: &Pair, host: &Host) -> Option<SignCertificate> {
    match CertificateSigner::new(authority, host.entropy().clone()) {
        Ok(signs) => Some(Arc::new(move |new: &NewCertificate<'_>| signs.sign(new))),
        Err(error) => {
            tracing::error!(%error, ?signer, "certificates that are asked for are not signed");
            None
        }
    }
}

/// Controllers act as upstream's service accounts.
fn user(name: &str) -> UserRef {
    match name {
        rkube_controllers::MANAGER => component_user(MANAGER_USER, &[]),
        account => service_account(account),
    }
}
