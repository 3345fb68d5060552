//! An operator in a process of its own: the cluster by kubeconfig or from within it, signals, endpoints.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::client::ClientBuilder;
use kube::{Client, Config};
use rand::Rng as _;
use rkube_machinery::host::{Clock, Entropy};
use tokio::net::ToSocketAddrs;
use tokio::signal::unix::{SignalKind, signal};

use super::{Operator, serve};
use crate::controller::Environment;
use crate::error::Error;
use crate::fence::Fence;
use crate::informer::Caches;
use crate::network::NetworkSource;

impl Operator {
    /// The cluster that a kubeconfig names (`KUBECONFIG`, or `~/.kube/config`), or that the process runs in. `agent` is the
    /// program that it is: the manager of the fields that it writes.
    pub async fn connect(agent: &str) -> Result<Operator, Error> {
        Operator::connect_to(Config::infer().await?, agent)
    }

    /// The cluster that a configuration names.
    pub fn connect_to(mut config: Config, agent: &str) -> Result<Operator, Error> {
        config.headers.push((USER_AGENT, HeaderValue::from_str(agent)?));
        // Watches last for minutes: they have connections of their own.
        let source = NetworkSource::new(Client::try_from(config.clone())?);
        let caches = Caches::new(Arc::new(source));
        let fence = Fence::default();
        let client = ClientBuilder::try_from(config)?.with_layer(&fence).with_layer(&caches.read_your_writes()).build();
        let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (clock, entropy) = (Arc::new(WallClock), Arc::new(HostEntropy));
        Ok(Operator::new(Environment { client, caches, clock, entropy, fence, host_name }))
    }

    /// Answers `/healthz`, `/readyz`, `/metrics` and `/quarantine` at this address, for as long as the process lasts. Where
    /// that is: port 0 is any that is free.
    pub async fn serve(&self, address: impl ToSocketAddrs) -> Result<SocketAddr, Error> {
        serve::start(address, self.status()).await
    }

    /// Runs until the process is asked to end (SIGTERM, or Ctrl-C), and then ends in good order. Who asks twice does not
    /// wait. A lease that is lost is an error at once.
    pub async fn run(self) -> Result<(), Error> {
        let (mut interrupts, mut terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut asked = async || {
            tokio::select! {
                biased;
                _ = interrupts.recv() => {}
                _ = terminations.recv() => {}
            }
        };
        let mut leadership = self.leadership();
        tokio::select! {
            biased;
            () = leadership.lost() => return Err(Error::text("leader election lost")),
            () = asked() => {}
        }
        tracing::info!("ending: nothing new is begun");
        tokio::select! {
            biased;
            () = self.shutdown() => {}
            () = asked() => {}
        }
        Ok(())
    }
}

/// The host's own clock.
struct WallClock;

impl Clock for WallClock {
    #[allow(clippy::disallowed_methods)]
    fn now_micros(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

/// The host's own randomness.
struct HostEntropy;

impl Entropy for HostEntropy {
    #[allow(clippy::disallowed_methods)]
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}
