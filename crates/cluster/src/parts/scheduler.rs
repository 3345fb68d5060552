//! The scheduler: what is a `kube-scheduler` elsewhere.

use super::{Part, SCHEDULER};
use crate::host::component_user;

/// How the scheduler runs.
pub struct Scheduler {
    /// By which its events say where it runs.
    pub host_name: String,
}

impl From<Scheduler> for Part {
    fn from(options: Scheduler) -> Part {
        Part::new(Some(SCHEDULER), move |host| {
            let user = component_user(rkube_scheduler::USER, &[]);
            rkube_scheduler::start(rkube_scheduler::Config {
                client: host.client(user.clone(), rkube_scheduler::AGENT),
                source: host.source(user),
                clock: host.clock().clone(),
                entropy: host.entropy().clone(),
                names: vec![rkube_scheduler::DEFAULT_NAME.to_owned()],
                percentage_of_nodes_to_score: 0,
                host_name: options.host_name,
            })
        })
    }
}
