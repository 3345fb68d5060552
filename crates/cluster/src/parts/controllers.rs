//! The controllers: what is a `kube-controller-manager` elsewhere.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use rkube_access::UserRef;
use rkube_access::authenticate::service_account::LegacyClaims;
use rkube_apiserver::ApiServer;
pub use rkube_controllers::{NodeRanges, Selection};
use rkube_controllers::{SignToken, TokenClaims};
use rkube_operator::{Caches, Manager};
use tokio::sync::Notify;

use super::{CONTROLLER_MANAGER, Part};
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
    pub selection: Selection,
    /// How long a namespace that is to go is left alone.
    pub namespace_grace: Duration,
    /// What nodes get the addresses of their pods from; None: they get none.
    pub node_ranges: Option<NodeRanges>,
}

impl From<Controllers> for Part {
    fn from(options: Controllers) -> Part {
        let makes_objects = OF_NAMESPACES.iter().all(|name| options.selection.has(name));
        let part = Part::new(Some(CONTROLLER_MANAGER), move |host| start(options, host));
        if makes_objects { part.settled(first_namespace) } else { part }
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
    let Controllers { root_ca, selection, namespace_grace, node_ranges } = options;
    let caches = Caches::new(host.source(component_user(MANAGER_USER, &[])));
    let (clients, noting) = (host.clone(), caches.clone());
    rkube_controllers::start(&rkube_controllers::Config {
        client: Box::new(move |name| clients.client_for(&noting, user(name), AGENT)),
        caches,
        root_ca,
        sign_token: host.server().signs_tokens().then(|| sign_token(host.server())),
        clock: host.clock().clone(),
        selection,
        namespace_grace,
        node_ranges,
    })
}

/// Makes tokens for Secrets with the server's key.
fn sign_token(server: &Arc<ApiServer>) -> SignToken {
    let server = server.clone();
    Arc::new(move |of: &TokenClaims<'_>| {
        let TokenClaims { namespace, account: name, account_uid: uid, secret } = *of;
        server.sign_legacy_token(&LegacyClaims { namespace, name, uid, secret })
    })
}

/// Controllers act as upstream's service accounts.
fn user(name: &str) -> UserRef {
    match name {
        rkube_controllers::MANAGER => component_user(MANAGER_USER, &[]),
        account => service_account(account),
    }
}
