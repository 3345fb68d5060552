//! The parts of a control plane beside its API server, one file each.
//!
//! They are started in the order in which they are given, once the server answers requests in the process, and ended in
//! the opposite one, before the server does.

mod controllers;
mod election;
mod local_path;
mod metrics_reader;
mod real_node;
mod scheduler;
mod simulated_nodes;

pub use controllers::{
    Controllers, LocalMachine, LocalPath, NodeRanges, Selection, Settings, Signer, SigningAuthorities, signs_all,
};
pub use election::{Election, Timing};
pub use real_node::RealNode;
pub use scheduler::Scheduler;
pub use simulated_nodes::{NODES_MAX, NodeTemplate, SimulatedNodes};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rkube_operator::Manager;

use crate::host::Host;

/// The name of the scheduler among the server's components.
pub const SCHEDULER: &str = "scheduler";
/// The name of the controllers among them.
pub const CONTROLLER_MANAGER: &str = "controller-manager";

/// Something that runs beside the API server. What it started is the manager's, whose health is the part's.
pub struct Part {
    /// By this name those who ask for the server's components (`kubectl get componentstatuses`) see it, if there is one.
    pub component: Option<&'static str>,
    pub start: Box<dyn FnOnce(&Host) -> Manager + Send>,
    /// Ends when what everybody expects of the part is there; the control plane is ready then.
    pub settled: Option<Settled>,
}

type Settled = Box<dyn FnOnce(Host) -> BoxFuture<'static, ()> + Send>;

impl Part {
    pub fn new(component: Option<&'static str>, start: impl FnOnce(&Host) -> Manager + Send + 'static) -> Part {
        Part { component, start: Box::new(start), settled: None }
    }

    pub fn settled<F>(self, settled: impl FnOnce(Host) -> F + Send + 'static) -> Part
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Part { settled: Some(Box::new(|host| settled(host).boxed())), ..self }
    }
}
