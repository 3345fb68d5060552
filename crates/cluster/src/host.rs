//! What a part of the control plane gets from the process that it runs in: clients and sources under users of its
//! choice, the time, and randomness.

use std::convert::Infallible;
use std::sync::Arc;

use rkube_access::{AUTHENTICATED, User, UserRef};
use rkube_apiserver::{ApiServer, Body};
use rkube_machinery::host::{Clock, Entropy};
use rkube_operator::{Source, kube};

use crate::in_process::InProcess;

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

    /// A client whose transport is the server itself. `agent` is the program that it is: the manager of what it writes.
    pub fn client(&self, user: UserRef, agent: &'static str) -> kube::Client {
        let server = self.server.clone();
        let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
            let (server, user) = (server.clone(), user.clone());
            let agent = http::HeaderValue::from_static(agent);
            request.headers_mut().insert(http::header::USER_AGENT, agent);
            async move { Ok::<http::Response<Body>, Infallible>(server.handle(request, Some(&user)).await) }
        });
        kube::Client::new(service, "default")
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
