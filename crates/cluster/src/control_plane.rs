//! The control plane: the API server, on a listener if there is one, and the parts beside it.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{join_all, select_all};
use rkube_apiserver::{ApiServer, Component, Config, serve};
use rkube_operator::{Health, Manager};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

use crate::host::Host;
use crate::parts::{CONTROLLER_MANAGER, Part, SCHEDULER};

/// A cluster of which something cannot be made (webhooks refuse it, say) is ready without it after so long.
const SETTLED_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start the API server")]
    Server(#[from] rkube_apiserver::Error),
    #[error("cannot listen")]
    Listen(#[from] std::io::Error),
    #[error("the API server has stopped: see the log")]
    Stopped,
    #[error("the API server has failed")]
    Failed(#[from] JoinError),
}

/// Where others reach the server.
pub struct Listener {
    /// Bound and non-blocking.
    pub listener: TcpListener,
    /// Further ones, each for as many clients.
    pub also: Vec<TcpListener>,
    pub tls: ServerConfig,
    pub connections_max: usize,
}

pub struct ControlPlane {
    host: Host,
    /// The one that clients are told of is the first.
    serving: Vec<Serving>,
    /// In the order of their start.
    parts: Vec<Manager>,
}

struct Serving {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl ControlPlane {
    /// Returns once everything answers. Without a listener only the process itself can ask.
    pub async fn start(mut config: Config, listener: Option<Listener>, parts: Vec<Part>) -> Result<Self, Error> {
        let (clock, entropy) = (config.clock.clone(), config.entropy.clone());
        let probed: Vec<Arc<OnceLock<Health>>> = parts.iter().map(|_| Arc::default()).collect();
        config.components.extend(components(&parts, &probed));
        let host = Host::new(Box::pin(ApiServer::start(config)).await?, clock, entropy);
        let mut settling = Vec::new();
        let started = parts.into_iter().zip(probed).map(|(part, health)| {
            let manager = (part.start)(&host);
            // Set once: nobody else does.
            let _ = health.set(manager.health());
            settling.extend(part.settled.map(|settled| settled(host.clone())));
            manager
        });
        let parts = started.collect();
        if tokio::time::timeout(SETTLED_TIMEOUT, join_all(settling)).await.is_err() {
            tracing::warn!("what every cluster has is not all there yet; it follows");
        }
        let serving = listener.map(|listener| Serving::start(host.server(), listener)).transpose()?.unwrap_or_default();
        Ok(ControlPlane { host, serving, parts })
    }

    /// What parts get: clients without a socket, under any user.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// What the controllers of all parts do, in numbers, as Prometheus reads them.
    pub fn metrics(&self) -> String {
        self.parts.iter().map(|part| part.metrics().text()).collect()
    }

    /// Where it listens, if it does.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.serving.first().map(|serving| serving.address)
    }

    /// Returns if the server ends without having been asked to.
    pub async fn ended(&mut self) -> Error {
        if self.serving.is_empty() {
            return std::future::pending().await;
        }
        match select_all(self.serving.iter_mut().map(|serving| &mut serving.task)).await.0 {
            Ok(()) => Error::Stopped,
            Err(error) => Error::Failed(error),
        }
    }

    /// Takes no new requests, completes those under way, ends watches. Nobody uses the store afterwards.
    pub async fn shutdown(mut self) {
        for serving in &self.serving {
            serving.stop.send_replace(true);
        }
        // Another process waits to take over, and no client asks these anything: they do not wait for clients.
        for part in self.parts.iter_mut().rev().filter(|part| part.is_elected()) {
            part.shutdown().await;
        }
        for mut serving in std::mem::take(&mut self.serving) {
            // An error means that serving has ended already, by a panic that was logged.
            let _ = (&mut serving.task).await;
        }
        for part in self.parts.iter_mut().rev().filter(|part| !part.is_elected()) {
            part.shutdown().await;
        }
        self.host.server().finish().await;
    }
}

impl Serving {
    fn start(server: &Arc<ApiServer>, listener: Listener) -> Result<Vec<Serving>, Error> {
        let Listener { listener, also, tls, connections_max } = listener;
        let start = |listener: TcpListener| {
            let address = listener.local_addr()?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (stop, stopped) = watch::channel(false);
            let task = tokio::spawn(serve::run(server.clone(), listener, tls.clone(), connections_max, stopped));
            Ok(Serving { address, stop, task })
        };
        std::iter::once(listener).chain(also).map(start).collect()
    }
}

/// What was not ended in good order ends at once: nobody can be reached by an address that nobody answers at.
impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The parts as those who ask the server for its components see them. Two are always among them, as upstream.
fn components(parts: &[Part], probed: &[Arc<OnceLock<Health>>]) -> Vec<Component> {
    let mut components = Vec::new();
    for (name, absent) in
        [(SCHEDULER, "this process runs no scheduler"), (CONTROLLER_MANAGER, "this process runs no controllers")]
    {
        if !parts.iter().any(|part| part.component == Some(name)) {
            components.push(Component { name, probe: Arc::new(|| Err(absent.to_owned())) });
        }
    }
    for (part, health) in parts.iter().zip(probed) {
        let Some(name) = part.component else { continue };
        let health = health.clone();
        let probe = move || health.get().map_or_else(|| Err("not started yet".to_owned()), Health::check);
        components.push(Component { name, probe: Arc::new(probe) });
    }
    components
}
