//! An operator: a client, the caches that all of its controllers share, the controllers, and what people see of them.

#[cfg(feature = "standalone")]
mod connect;
#[cfg(feature = "standalone")]
mod serve;

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::Resource;
use serde::de::DeserializeOwned;

use crate::controller::{Attached, Context, Controller, Environment};
use crate::error::Error;
use crate::informer::Key;
use crate::leader_election::{LeaderElection, Leadership};
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
    leadership: Leadership,
    controllers: Arc<parking_lot::Mutex<Vec<Listed>>>,
}

/// A controller, and the caches that are held for it while another process leads.
struct Listed {
    name: &'static str,
    warm: Weak<Vec<Box<dyn Attached>>>,
}

impl Operator {
    /// In an environment that is there: tests, and processes that hold more than one operator. See
    /// [`Operator::connect`].
    pub fn new(environment: Environment) -> Operator {
        let manager = Manager::with_caches(environment.caches.clone());
        Operator { environment, status: Status::of(&manager), manager, drain_max: DRAIN_MAX }
    }

    /// Has controllers run only while this process leads, and nothing be sent by them at any other time: see
    /// [`crate::leader_election`]. To be called before there are any.
    pub fn leader_election(self, election: LeaderElection) -> Result<Operator, Error> {
        if !self.status.controllers.lock().is_empty() {
            return Err(Error::text("controllers run already: an election has to come before them"));
        }
        let manager = Manager::elected(&self.environment, election)?;
        Ok(Operator { status: Status::of(&manager), manager, ..self })
    }

    /// Whether this process leads; without an election it always does.
    pub fn leadership(&self) -> Leadership {
        self.manager.leadership()
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
        // With an election the caches are kept warm until this process leads, and beyond.
        let warm = self.manager.is_elected().then(|| controller.warm(&self.environment.caches));
        let warm = Arc::new(warm.unwrap_or_default());
        self.status.controllers.lock().push(Listed { name, warm: Arc::downgrade(&warm) });
        self.manager.keep(warm);
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
    fn of(manager: &Manager) -> Status {
        Status {
            health: manager.health(),
            metrics: manager.metrics(),
            leadership: manager.leadership(),
            controllers: Arc::default(),
        }
    }

    /// Whether everything that is to run does. `Err` says what does not, and why.
    pub fn healthy(&self) -> Result<(), String> {
        self.health.check()
    }

    /// Whether all controllers have their caches and work, or would if this process led.
    pub fn ready(&self) -> Result<(), String> {
        self.healthy()?;
        let (working, leads) = (self.metrics.snapshots(), self.leadership.leads());
        let is_ready = |controller: &Listed| {
            let is_warm = || controller.warm.upgrade().is_some_and(|warm| warm.iter().all(|cache| cache.is_synced()));
            working.contains_key(controller.name) || (!leads && is_warm())
        };
        let controllers = self.controllers.lock();
        let waiting: Vec<&str> =
            controllers.iter().filter(|controller| !is_ready(controller)).map(|controller| controller.name).collect();
        if waiting.is_empty() { Ok(()) } else { Err(format!("waiting for caches: {}", waiting.join(", "))) }
    }

    /// What the controllers do, in numbers, and what is in quarantine.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
