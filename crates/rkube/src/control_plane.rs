//! The control plane in this process: the API server on its listener, and the controllers, which call it without a
//! socket on the same road as everybody else.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use rkube_access::authenticate::service_account::LegacyClaims;
use rkube_access::{AUTHENTICATED, User, UserRef};
use rkube_apiserver::{ApiServer, Body, Component, Config, serve};
use rkube_controllers::{Health, Selection, SignToken, TokenClaims};
use rkube_machinery::host::Clock;
use rkube_operator::{Manager, kube};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::in_process::InProcess;

const CONTROLLERS_AGENT: &str = "kube-controller-manager";
/// Who the shared caches of all controllers are, and those without an account of their own, as upstream.
const MANAGER_USER: &str = "system:kube-controller-manager";

/// Which controllers run, and how.
pub struct ControllerOptions {
    /// What every namespace's `kube-root-ca.crt` holds.
    pub root_ca: String,
    pub selection: Selection,
    /// How long a namespace that is to go is left alone.
    pub namespace_grace: Duration,
}

pub struct ControlPlane {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    server: Arc<ApiServer>,
    serving: JoinHandle<()>,
    controllers: Manager,
}

impl ControlPlane {
    /// Returns once everything answers. `listener` is bound and non-blocking.
    pub async fn start(
        mut config: Config,
        listener: TcpListener,
        tls: ServerConfig,
        connections_max: usize,
        options: ControllerOptions,
    ) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let clock = config.clock.clone();
        let health = Arc::new(OnceLock::new());
        config.components.extend([scheduler(), controller_manager(Arc::clone(&health))]);
        let server = ApiServer::start(config).await.context("cannot start the API server")?;
        let (stop, stopped) = watch::channel(false);
        let controllers = start_controllers(&server, options, clock);
        // Set once: nobody else has it.
        let _ = health.set(controllers.health());
        let serving = tokio::spawn(serve::run(server.clone(), listener, tls, connections_max, stopped));
        Ok(ControlPlane { address, stop, server, serving, controllers })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns if the server ends without having been asked to.
    pub async fn ended(&mut self) -> anyhow::Error {
        match (&mut self.serving).await {
            Ok(()) => anyhow::anyhow!("the API server has stopped: see the log"),
            Err(error) => anyhow::anyhow!("the API server has failed: {error}"),
        }
    }

    /// Takes no new requests, completes those under way, ends watches. Nobody uses the store afterwards.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // An error means that serving has ended already, by a panic that was logged.
        let _ = self.serving.await;
        self.controllers.shutdown().await;
        self.server.finish().await;
    }
}

fn start_controllers(server: &Arc<ApiServer>, options: ControllerOptions, clock: Arc<dyn Clock>) -> Manager {
    let ControllerOptions { root_ca, selection, namespace_grace } = options;
    let source = Arc::new(InProcess::new(server.clone(), component_user(MANAGER_USER, &[])));
    let sign_token = server.signs_tokens().then(|| sign_token(server));
    let server = server.clone();
    rkube_controllers::start(&rkube_controllers::Config {
        client: Box::new(move |name| in_process_client(&server, controller_user(name))),
        source,
        root_ca,
        sign_token,
        clock,
        selection,
        namespace_grace,
    })
}

fn scheduler() -> Component {
    Component { name: "scheduler", probe: Arc::new(|| Err("this process runs no scheduler".to_owned())) }
}

/// The controllers as those who ask the server for its components see them.
fn controller_manager(health: Arc<OnceLock<Health>>) -> Component {
    let probe = move || health.get().map_or_else(|| Err("not started yet".to_owned()), Health::check);
    Component { name: "controller-manager", probe: Arc::new(probe) }
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
fn controller_user(name: &str) -> UserRef {
    if name == rkube_controllers::MANAGER {
        return component_user(MANAGER_USER, &[]);
    }
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
    component_user(&format!("system:serviceaccount:kube-system:{name}"), &groups)
}

/// Default roles say what components may do.
fn component_user(name: &str, groups: &[&str]) -> UserRef {
    let groups = groups.iter().copied().chain([AUTHENTICATED]).map(Into::into);
    Arc::new(User { name: name.into(), groups: groups.collect(), ..User::default() })
}

/// A client whose transport is the server itself.
fn in_process_client(server: &Arc<ApiServer>, user: UserRef) -> kube::Client {
    let server = server.clone();
    let service = tower::service_fn(move |mut request: http::Request<kube::client::Body>| {
        let (server, user) = (server.clone(), user.clone());
        let agent = http::HeaderValue::from_static(CONTROLLERS_AGENT);
        request.headers_mut().insert(http::header::USER_AGENT, agent);
        async move { Ok::<http::Response<Body>, std::convert::Infallible>(server.handle(request, Some(&user)).await) }
    });
    kube::Client::new(service, "default")
}
