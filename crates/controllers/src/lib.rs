//! The built-in reconcilers, one folder each and a line in [`start`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod namespaced;
mod namespaces;
mod root_ca;
mod service_accounts;
mod service_cidrs;
mod volume_protection;

use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_operator::kube::Client;
use tokio::task::{AbortHandle, JoinSet};

/// What controllers need to know of the cluster.
pub struct Config {
    /// A client that acts as the named controller's service account.
    pub client: Box<dyn Fn(&'static str) -> Client + Send + Sync>,
    /// The cluster's certificate authority, in PEM.
    pub root_ca: String,
    pub clock: Arc<dyn Clock>,
}

/// The running controllers. They end when this is dropped.
#[derive(Default)]
pub struct Controllers {
    tasks: JoinSet<()>,
    handles: Vec<(&'static str, AbortHandle)>,
}

impl Controllers {
    /// Ends all of them.
    pub async fn shutdown(&mut self) {
        self.tasks.shutdown().await;
    }

    /// How they are, for as long as they run and after.
    pub fn health(&self) -> Health {
        Health(self.handles.clone())
    }

    fn add<F>(&mut self, config: &Config, name: &'static str, run: impl FnOnce(Client) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = self.tasks.spawn(run((config.client)(name)));
        self.handles.push((name, handle));
    }
}

/// Whether controllers run: they never end by themselves, unless they panic.
#[derive(Clone)]
pub struct Health(Vec<(&'static str, AbortHandle)>);

impl Health {
    /// `Err` names those that ended.
    pub fn check(&self) -> Result<(), String> {
        let ended: Vec<&str> = self.0.iter().filter(|(_, task)| task.is_finished()).map(|(name, _)| *name).collect();
        if ended.is_empty() { Ok(()) } else { Err(format!("no longer running: {}", ended.join(", "))) }
    }
}

/// Starts all controllers.
pub fn start(config: &Config) -> Controllers {
    let (root_ca, clock) = (config.root_ca.clone(), config.clock.clone());
    let mut all = Controllers::default();
    all.add(config, "namespace-controller", namespaces::run);
    all.add(config, "service-account-controller", service_accounts::run);
    all.add(config, "root-ca-cert-publisher", |client| root_ca::run(client, root_ca));
    all.add(config, "service-cidrs-controller", |client| service_cidrs::run(client, clock));
    all.add(config, "pvc-protection-controller", volume_protection::claims);
    all.add(config, "pv-protection-controller", volume_protection::volumes);
    all.add(config, "vac-protection-controller", volume_protection::classes);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_controller_that_panics_is_named() {
        let mut all = Controllers::default();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let lasting = all.tasks.spawn(std::future::pending());
        all.handles.push(("lasting", lasting));
        let failing = all.tasks.spawn(async { ended.await.expect("the test ends it") });
        all.handles.push(("failing", failing));
        let health = all.health();
        assert_eq!(health.check(), Ok(()));
        drop(end);
        assert!(all.tasks.join_next().await.is_some_and(|outcome| outcome.is_err()));
        assert_eq!(health.check(), Err("no longer running: failing".to_owned()));
        all.shutdown().await;
        assert_eq!(health.check(), Err("no longer running: lasting, failing".to_owned()));
    }
}
