//! The controllers: what is a `kube-controller-manager` elsewhere.

use std::sync::Arc;
use std::time::Duration;

use rkube_access::UserRef;
use rkube_access::authenticate::service_account::LegacyClaims;
use rkube_apiserver::ApiServer;
pub use rkube_controllers::Selection;
use rkube_controllers::{SignToken, TokenClaims};
use rkube_operator::Manager;

use super::{CONTROLLER_MANAGER, Part};
use crate::host::{Host, component_user, service_account};

const AGENT: &str = "kube-controller-manager";
/// Who the shared caches of all controllers are, and those without an account of their own, as upstream.
const MANAGER_USER: &str = "system:kube-controller-manager";

/// Which controllers run, and how.
pub struct Controllers {
    /// What every namespace's `kube-root-ca.crt` holds.
    pub root_ca: String,
    pub selection: Selection,
    /// How long a namespace that is to go is left alone.
    pub namespace_grace: Duration,
}

impl From<Controllers> for Part {
    fn from(options: Controllers) -> Part {
        Part::new(Some(CONTROLLER_MANAGER), move |host| start(options, host))
    }
}

fn start(options: Controllers, host: &Host) -> Manager {
    let Controllers { root_ca, selection, namespace_grace } = options;
    let clients = host.clone();
    rkube_controllers::start(&rkube_controllers::Config {
        client: Box::new(move |name| clients.client(user(name), AGENT)),
        source: host.source(component_user(MANAGER_USER, &[])),
        root_ca,
        sign_token: host.server().signs_tokens().then(|| sign_token(host.server())),
        clock: host.clock().clone(),
        selection,
        namespace_grace,
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
