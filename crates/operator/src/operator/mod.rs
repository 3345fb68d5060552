//! An operator: a client, the caches that all of its controllers share, the controllers, and what people see of them.

#[cfg(feature = "standalone")]
mod connect;
#[cfg(feature = "standalone")]
mod serve;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;

use crate::controller::{Context, Controller, Environment};
use crate::error::Error;
use crate::informer::Key;
use crate::manager::{Health, Manager};
use crate::metrics::Metrics;
use crate::reconcile::Action;

/// So long reconciles under way may take to end before they are cut off.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// The one place that holds everything. It ends when it is dropped.
pub struct Operator {
    environment: Environment,
    manager: Manager,
    status: Status,
    drain_max: Duration,
}

/// How an operator is, for those who ask.
#[derive(Clone)]
pub struct Status {
    health: Health,
    metrics: Metrics,
    controllers: Arc<parking_lot::Mutex<Vec<&'static str>>>,
}

impl Operator {
    /// In an environment that is there: tests, and processes that hold more than one operator. See
    /// [`Operator::connect`].
    pub fn new(environment: Environment) -> Operator {
        let manager = Manager::with_caches(environment.caches.clone());
        let status = Status { health: manager.health(), metrics: manager.metrics(), controllers: Arc::default() };
        Operator { environment, manager, status, drain_max: DRAIN_MAX }
    }

    /// Starts a controller. Should it ever panic or end, it is logged, the health check says so, and it is started again.
    pub fn controller<K, F>(
        &mut self,
        controller: Controller<K>,
        reconcile: impl Fn(Context, Key) -> F + Clone + Send + Sync + 'static,
    ) where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
        F: Future<Output = Result<Action, Error>> + Send + 'static,
    {
        let name = controller.name();
        self.status.controllers.lock().push(name);
        let (controller, environment) = (Arc::new(controller), self.environment.clone());
        self.manager.add(name, move || {
            let (controller, environment, reconcile) = (controller.clone(), environment.clone(), reconcile.clone());
            async move { controller.run(&environment, reconcile).await }
        });
    }

    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    pub fn status(&self) -> Status {
        self.status.clone()
    }

    /// So long reconciles under way may take to end before they are cut off.
    pub fn drain_max(mut self, max: Duration) -> Self {
        self.drain_max = max;
        self
    }

    /// Ends in good order: nothing new is begun, and what is under way ends.
    pub async fn shutdown(mut self) {
        self.manager.drain(self.drain_max).await;
    }
}

impl Status {
    /// Whether everything that is to run does. `Err` says what does not, and why.
    pub fn healthy(&self) -> Result<(), String> {
        self.health.check()
    }

    /// Whether all controllers have their caches and work.
    pub fn ready(&self) -> Result<(), String> {
        self.healthy()?;
        let working = self.metrics.snapshots();
        let waiting: Vec<&str> =
            self.controllers.lock().iter().filter(|name| !working.contains_key(**name)).copied().collect();
        if waiting.is_empty() { Ok(()) } else { Err(format!("waiting for caches: {}", waiting.join(", "))) }
    }

    /// What the controllers do, in numbers, and what is in quarantine.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
