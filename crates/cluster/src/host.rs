//! What a part of the control plane gets from the process that it runs in: clients and sources under users of its
//! choice, the time, and randomness.

use std::convert::Infallible;
use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use rkube_access::{AUTHENTICATED, User, UserRef};
use rkube_apiserver::{ApiServer, Body, OfThisProcess};
use rkube_machinery::host::{Clock, Entropy};
use rkube_operator::{Caches, Fence, Source, kube};
use tower::util::BoxCloneService;
use tower::{Layer as _, Service, ServiceExt as _};

use crate::in_process::InProcess;

/// Where clients are that name no namespace.
const NAMESPACE: &str = "default";

#[derive(Clone)]
pub struct Host {
    server: Arc<ApiServer>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// What the requests of its clients go through, if they do.
    fence: Option<Fence>,
    /// Only in tests is there anything.
    seams: Option<Arc<dyn Seams>>,
}

/// The way of a client's requests to the server.
pub type Transport =
    BoxCloneService<Request<kube::client::Body>, Response<Body>, Box<dyn std::error::Error + Send + Sync + 'static>>;

/// What stands between a part and the server, so that a test can have things go wrong there.
pub trait Seams: Send + Sync + 'static {
    /// What a client of this user has instead of the way to the server itself.
    fn transport(&self, user: &str, direct: Transport) -> Transport;

    /// What caches follow instead of the server's own objects.
    fn source(&self, direct: Arc<dyn Source>) -> Arc<dyn Source>;

    /// Whether reconcilers read their own writes. A test shows what becomes of them if not.
    fn reads_own_writes(&self) -> bool {
        true
    }

    /// Whether what does not lead is kept from sending anything. A test shows what becomes of it if not.
    fn fences(&self) -> bool {
        true
    }
}

impl Host {
    pub(crate) fn new(server: Arc<ApiServer>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Host {
        Host { server, clock, entropy, fence: None, seams: None }
    }

    /// The same, with something in between.
    #[must_use]
    pub fn with_seams(&self, seams: Arc<dyn Seams>) -> Host {
        Host { seams: Some(seams), ..self.clone() }
    }

    /// The same for a part that acts only while it leads: nothing that its clients send passes the fence at any other time.
    #[must_use]
    pub fn behind(&self, fence: &Fence) -> Host {
        Host { fence: Some(fence.clone()), ..self.clone() }
    }

    /// A client whose transport is the server itself. `agent` is the program that it is, unless a
    /// request says otherwise: the manager of what it writes.
    pub fn client(&self, user: UserRef, agent: &'static str) -> kube::Client {
        let transport = self.transport(user.clone(), agent);
        match (&self.fence, &self.seams) {
            (None, None) => kube::Client::new(transport, NAMESPACE),
            (Some(fence), None) => kube::Client::new(fence.layer(transport), NAMESPACE),
            (_, Some(seams)) => kube::Client::new(self.with_faults(&**seams, &user, transport), NAMESPACE),
        }
    }

    /// A client for reconcilers: what one of them writes is in these caches before it works on the same key again.
    pub fn client_for(&self, caches: &Caches, user: UserRef, agent: &'static str) -> kube::Client {
        let transport = self.transport(user.clone(), agent);
        match (&self.fence, &self.seams) {
            (None, None) => caches.client(transport, NAMESPACE),
            (Some(fence), None) => caches.client(fence.layer(transport), NAMESPACE),
            (_, Some(seams)) => {
                let transport = self.with_faults(&**seams, &user, transport);
                if seams.reads_own_writes() {
                    caches.client(transport, NAMESPACE)
                } else {
                    kube::Client::new(transport, NAMESPACE)
                }
            }
        }
    }

    /// A request that is held up comes to the fence afterwards.
    fn with_faults<S>(&self, seams: &dyn Seams, user: &User, direct: S) -> Transport
    where
        S: Service<Request<kube::client::Body>, Response = Response<Body>, Error = Infallible, Future: Send>
            + Clone
            + Send
            + 'static,
    {
        let direct = match self.fence.as_ref().filter(|_| seams.fences()) {
            Some(fence) => BoxCloneService::new(fence.layer(direct)),
            None => BoxCloneService::new(direct.map_err(|never| match never {})),
        };
        seams.transport(&user.name, direct)
    }

    fn transport(
        &self,
        user: UserRef,
        agent: &'static str,
    ) -> impl Service<Request<kube::client::Body>, Response = Response<Body>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + use<> {
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
        let direct = Arc::new(InProcess::new(self.server.clone(), user));
        match &self.seams {
            None => direct,
            Some(seams) => seams.source(direct),
        }
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
