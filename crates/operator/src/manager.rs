//! The place that holds a process' caches and controllers: every controller is a supervised task. One that panics, or
//! ends, is seen: it is logged, the health check names it, and it is started again after a delay that grows.
//!
//! With an election ([`Manager::elected`]) controllers run while this process leads, and only then.

use std::any::Any;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::controller::Environment;
use crate::error::Error;
use crate::informer::Caches;
use crate::leader_election::{Elector, LeaderElection, Leadership};
use crate::metrics::Metrics;
use crate::panic::panic_text;
use crate::process::held;
use crate::source::Source;

/// How long until a controller that ended is started again; doubled with each further time.
const RESTART_FIRST: Duration = Duration::from_millis(500);
const RESTART_MAX: Duration = Duration::from_secs(60);
/// A controller that ran for so long counts as well again.
const WELL_AFTER: Duration = Duration::from_secs(60);
/// At an end in good order requests under way have so long to end. If they do not, the lease is left to run out.
const HANDOVER_MAX: Duration = Duration::from_millis(500);

/// The controllers of a process. They end when this is dropped.
pub struct Manager {
    caches: Caches,
    tasks: JoinSet<()>,
    /// None: nobody else does the same.
    elector: Option<Elector>,
    leadership: Leadership,
    /// What is held for as long as this lasts, whether it leads or not.
    kept: Vec<Box<dyn Any + Send + Sync>>,
    health: Health,
    metrics: Metrics,
    /// Who ends now has been asked to.
    draining: Arc<AtomicBool>,
}

impl Manager {
    pub fn new(source: Arc<dyn Source>) -> Manager {
        Manager::with_caches(Caches::new(source))
    }

    /// With caches that others have, too.
    pub fn with_caches(caches: Caches) -> Manager {
        Manager {
            caches,
            tasks: JoinSet::new(),
            elector: None,
            leadership: Leadership::always(),
            kept: Vec::new(),
            health: Health::default(),
            metrics: Metrics::default(),
            draining: Arc::default(),
        }
    }

    /// Controllers run while this process holds a lease. What they send goes through the environment's fence.
    pub fn elected(environment: &Environment, election: LeaderElection) -> Result<Manager, Error> {
        let elector = Elector::start(election, environment)?;
        let manager = Manager::with_caches(environment.caches.clone());
        let (name, stats) = elector.stats();
        manager.metrics.add_election(name, stats.clone());
        Ok(Manager { leadership: elector.leadership(), elector: Some(elector), ..manager })
    }

    /// Whether this process leads; without an election it always does.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Whether controllers run only while this process leads.
    pub fn is_elected(&self) -> bool {
        self.elector.is_some()
    }

    /// Holds something for as long as the manager lasts: informers that are to be warm when this process leads.
    pub fn keep(&mut self, held: impl Any + Send + Sync) {
        self.kept.push(Box::new(held));
    }

    pub fn caches(&self) -> &Caches {
        &self.caches
    }

    /// Runs a controller for as long as the manager lasts, and leads. `start` is called again whenever what it returned has
    /// ended: nothing of the former life is left but the shared caches.
    pub fn add<F>(&mut self, name: &'static str, start: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.supervise(name, Box::new(move || start().boxed()));
    }

    /// Not by the controller's type, so that supervision is compiled once.
    fn supervise(&mut self, name: &'static str, start: Start) {
        let place = self.health.add(name);
        let metrics = self.metrics.clone();
        let start: Start = Box::new(move || metrics.clone().scope(start()).boxed());
        let supervised = Supervised {
            name,
            health: self.health.clone(),
            place,
            draining: self.draining.clone(),
            leadership: self.leadership.clone(),
        };
        self.tasks.spawn(held(supervised.run(start)));
    }

    /// What the controllers do, in numbers.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// How the controllers are, for as long as they run and after.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Ends all of them in good order: no new key is begun with, and those under way may end within this time.
    pub async fn drain(&mut self, max: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        self.metrics.close();
        // In a standby nothing runs that would end.
        if self.leadership.leads() {
            let ending = async { while self.tasks.join_next().await.is_some() {} };
            if tokio::time::timeout(max, ending).await.is_err() {
                tracing::warn!(after = ?max, "controllers have not ended, and are cut off");
            }
        }
        self.shutdown().await;
    }

    /// Ends all of them at once. A lease is released when nothing acts for its holder any more.
    pub async fn shutdown(&mut self) {
        let all_ended = match &self.elector {
            Some(elector) => elector.drain(HANDOVER_MAX).await,
            None => true,
        };
        self.tasks.shutdown().await;
        match self.elector.take() {
            Some(elector) if all_ended => elector.release().await,
            Some(_) => tracing::warn!("requests have not ended: the lease is not released, and runs out"),
            None => {}
        }
        self.health.end();
    }
}

/// Whether controllers run.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Vec<(&'static str, State)>>>);

enum State {
    Running,
    /// It ended, and will be started again; why.
    Down(String),
    /// The manager has ended.
    Ended,
}

impl Health {
    /// `Err` names those that do not run, and says why.
    pub fn check(&self) -> Result<(), String> {
        let mut text = String::new();
        for (name, state) in self.0.lock().iter() {
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = match state {
                State::Running => Ok(()),
                State::Down(why) => write!(text, "{separator}{name} ({why})"),
                State::Ended => write!(text, "{separator}{name}"),
            };
        }
        if text.is_empty() { Ok(()) } else { Err(format!("not running: {text}")) }
    }

    fn add(&self, name: &'static str) -> usize {
        let mut states = self.0.lock();
        states.push((name, State::Running));
        states.len() - 1
    }

    fn set(&self, place: usize, state: State) {
        self.0.lock()[place].1 = state;
    }

    fn end(&self) {
        self.0.lock().iter_mut().for_each(|(_, state)| *state = State::Ended);
    }
}

/// Begins a life of a controller.
type Start = Box<dyn Fn() -> BoxFuture<'static, ()> + Send>;

/// A controller that is started again and again.
struct Supervised {
    name: &'static str,
    health: Health,
    place: usize,
    draining: Arc<AtomicBool>,
    leadership: Leadership,
}

impl Supervised {
    async fn run(mut self, start: Start) {
        let mut delay = RESTART_FIRST;
        loop {
            let term = self.leadership.begun().await;
            let started = Instant::now();
            self.health.set(self.place, State::Running);
            // A set of one: the task ends with the supervisor.
            let mut task = JoinSet::new();
            task.spawn(held(start()));
            let ended = tokio::select! {
                biased;
                () = self.leadership.ended(&term) => None,
                ended = task.join_next() => ended,
            };
            let why = match ended {
                None => {
                    // Gone before the term is: nothing of it acts in the next one.
                    task.shutdown().await;
                    continue;
                }
                Some(Err(error)) => match error.try_into_panic() {
                    Ok(panic) => format!("panicked: {}", panic_text(&*panic)),
                    Err(_) => return,
                },
                Some(Ok(())) => "ended by itself".to_owned(),
            };
            drop(term);
            if self.draining.load(Ordering::Relaxed) {
                return self.health.set(self.place, State::Ended);
            }
            if started.elapsed() >= WELL_AFTER {
                delay = RESTART_FIRST;
            }
            tracing::error!(controller = self.name, why, again_in = ?delay, "a controller does not run");
            self.health.set(self.place, State::Down(why));
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(RESTART_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::testing::Script;

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_panics_is_named_and_started_again() {
        let mut manager = Manager::new(Arc::new(Script::default()));
        let lives = Arc::new(AtomicU32::new(0));
        manager.add("lasting", std::future::pending);
        let counted = lives.clone();
        manager.add("failing", move || {
            let life = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(life >= 2, "this is life {life}");
                std::future::pending().await
            }
        });
        let health = manager.health();
        assert_eq!(health.check(), Ok(()));
        tokio::time::sleep(RESTART_FIRST / 2).await;
        assert_eq!(health.check(), Err("not running: failing (panicked: this is life 0)".to_owned()));
        tokio::time::sleep(RESTART_FIRST).await;
        assert_eq!(health.check(), Err("not running: failing (panicked: this is life 1)".to_owned()));
        tokio::time::sleep(RESTART_FIRST * 2).await;
        assert_eq!((health.check(), lives.load(Ordering::Relaxed)), (Ok(()), 3));
        manager.shutdown().await;
        assert_eq!(health.check(), Err("not running: lasting, failing".to_owned()));
    }
}
