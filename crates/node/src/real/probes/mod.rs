//! Probes: for each container that runs and each of its probes a task, which tells the pod's worker of every change.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use rkube_machinery::{Text, Value};
use tokio::task::JoinSet;

use super::inbox::Inbox;
use super::kubelet::Kubelet;

mod check;
mod grpc;
mod task;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    pub fn field(self) -> &'static str {
        match self {
            Kind::Startup => "startupProbe",
            Kind::Liveness => "livenessProbe",
            Kind::Readiness => "readinessProbe",
        }
    }

    fn shown(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Liveness => "Liveness",
            Kind::Readiness => "Readiness",
        }
    }
}

/// A probe of a container that runs.
pub struct Task {
    pub kubelet: Arc<Kubelet>,
    pub inbox: Arc<Inbox>,
    pub pod: Arc<Value>,
    pub container: Value,
    pub field_path: String,
    pub kind: Kind,
    pub id: String,
    /// The pod's.
    pub address: Option<IpAddr>,
    /// When the container was started.
    pub since_micros: i64,
}

/// The probes of a pod. They end with this.
#[derive(Default)]
pub struct Set {
    tasks: HashMap<(Text, Kind), (String, JoinSet<()>)>,
}

impl Set {
    /// Begins with a probe, unless it is under way.
    pub fn begin(&mut self, task: Task) {
        let place = (Text::from(task.container.str("name")), task.kind);
        if self.tasks.get(&place).is_some_and(|(id, _)| *id == task.id) {
            return;
        }
        let (id, mut tasks) = (task.id.clone(), JoinSet::new());
        tasks.spawn(task.run());
        self.tasks.insert(place, (id, tasks));
    }

    pub fn end(&mut self, name: &str, kind: Kind) {
        self.tasks.remove(&(name.into(), kind));
    }

    /// All of one container.
    pub fn stop(&mut self, name: &str) {
        self.tasks.retain(|(of, _), _| of != name);
    }

    /// Those by which containers of a pod that ends could be killed; whether they are ready still matters.
    pub fn stop_killing(&mut self) {
        self.tasks.retain(|(_, kind), _| *kind == Kind::Readiness);
    }

    pub fn stop_all(&mut self) {
        self.tasks.clear();
    }
}
