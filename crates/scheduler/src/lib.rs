//! The scheduler: it gives pods that have no node one.
//!
//! [`core`] is all of it without time, network and tasks: a [`queue`] of pods, a [`snapshot`] of the nodes, and the
//! [`cycle`] that finds a node for one pod by asking the [`plugins`]. `run.rs` drives it: informers tell it what changes,
//! and what it decides is written by many tasks at a time.
//!
//! A cycle is one step under one lock: nothing changes while a pod is looked at, and there is no copy of the nodes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod core;
pub mod cycle;
mod diagnosis;
mod events;
mod follow;
pub mod plugins;
mod preemption;
mod prepare;
pub mod queue;
mod run;
mod shared;
pub mod snapshot;
pub mod view;
mod writes;

use std::sync::Arc;

use rkube_machinery::host::{Clock, Entropy};
use rkube_operator::kube::Client;
use rkube_operator::{Manager, Source};

/// The name that pods ask for if they ask for none.
pub const DEFAULT_NAME: &str = "default-scheduler";
/// Who the scheduler is.
pub const USER: &str = "system:kube-scheduler";
/// Which program it is: the manager of the fields that it writes.
pub const AGENT: &str = "kube-scheduler";

/// What the scheduler needs to know.
pub struct Config {
    /// A client that acts as [`USER`].
    pub client: Client,
    pub source: Arc<dyn Source>,
    pub clock: Arc<dyn Clock>,
    /// By which one of several nodes that are equally good is taken.
    pub entropy: Arc<dyn Entropy>,
    /// The names that pods call it by in `schedulerName`: pods with others are left alone.
    pub names: Vec<String>,
    /// Of a hundred nodes, how many that will do are to be found before the best of them is taken; 0: fewer of many.
    pub percentage_of_nodes_to_score: usize,
    /// By which its events say where it runs.
    pub host_name: String,
}

/// Starts it. It ends with the manager.
pub fn start(config: Config) -> Manager {
    start_with(Manager::new(config.source.clone()), config)
}

/// The same with a manager that is there: one that is elected starts it when it leads, with caches that are warm by then.
pub fn start_with(mut manager: Manager, config: Config) -> Manager {
    let (config, caches) = (Arc::new(config), manager.caches().clone());
    if manager.is_elected() {
        manager.keep(follow::warm(&caches));
    }
    manager.add("scheduler", move || run::run(config.clone(), caches.clone()));
    manager
}
