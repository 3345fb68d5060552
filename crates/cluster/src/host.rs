//! What a part of the control plane gets from the process that it runs in: clients and sources under users of its
//! choice, the time, and randomness.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use rkube_access::{AUTHENTICATED, User, UserRef};
use rkube_apiserver::{ApiServer, Body, OfThisProcess};
use rkube_machinery::host::{Clock, Entropy};
use rkube_operator::{Caches, Source, kube};
use tower::Service;

use crate::in_process::InProcess;

/// Where clients are that name no namespace.
const NAMESPACE: &str = "default";

#[derive(Clone)]
pub struct Host {
    server: Arc<ApiServer>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Host {
    pub(crate) fn new(server: Arc<ApiServer>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Host {
        Host { server, clock, entropy }
    }

    /// A client whose transport is the server itself. `agent` is the program that it is, unless a
    /// request says otherwise: the manager of what it writes.
    pub fn client(&self, user: UserRef, agent: &'static str) -> kube::Client {
        kube::Client::new(self.transport(user, agent), NAMESPACE)
    }

    /// A client for reconcilers: what one of them writes is in these caches before it works on the same key again.
    pub fn client_for(&self, caches: &Caches, user: UserRef, agent: &'static str) -> kube::Client {
        caches.client(self.transport(user, agent), NAMESPACE)
    }

    fn transport(
        &self,
        user: UserRef,
        agent: &'static str,
    ) -> impl Service<Request<kube::client::Body>, Response = Response<Body>, Error = Infallible, Future: Send> + Send + use<>
    {
        let server = self.server.clone();
        tower::service_fn(move |mut request: Request<kube::client::Body>| {
            let (server, user) = (server.clone(), user.clone());
            let agent = HeaderValue::from_static(agent);
            request.headers_mut().entry(http::header::USER_AGENT).or_insert(agent);
            request.extensions_mut().insert(OfThisProcess);
            async move { Ok::<Response<Body>, Infallible>(server.handle(request, Some(&user)).await) }
        })
    }

    /// The server's own objects as this user may see them.
    pub fn source(&self, user: UserRef) -> Arc<dyn Source> {
        Arc::new(InProcess::new(self.server.clone(), user))
    }

    pub fn server(&self) -> &Arc<ApiServer> {
        &self.server
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn entropy(&self) -> &Arc<dyn Entropy> {
        &self.entropy
    }
}

/// A user that default roles know by name, such as `system:kube-scheduler`.
pub fn component_user(name: &str, groups: &[&str]) -> UserRef {
    let groups = groups.iter().copied().chain([AUTHENTICATED]).map(Into::into);
    Arc::new(User { name: name.into(), groups: groups.collect(), ..User::default() })
}

/// A service account of `kube-system`: most controllers are one.
pub fn service_account(name: &str) -> UserRef {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
    component_user(&format!("system:serviceaccount:kube-system:{name}"), &groups)
}

/// The kubelet of a node.
pub fn node_user(node: &str) -> UserRef {
    component_user(&format!("system:node:{node}"), &["system:nodes"])
}
