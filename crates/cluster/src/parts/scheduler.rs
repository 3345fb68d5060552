//! The scheduler: what is a `kube-scheduler` elsewhere.

use rkube_operator::Caches;

use super::election::Elected;
use super::{Election, Part, SCHEDULER};
use crate::host::component_user;

/// How the scheduler runs.
pub struct Scheduler {
    /// By which its events say where it runs.
    pub host_name: String,
    /// Which of several processes on one store runs it; None: this one does.
    pub election: Option<Election>,
}

impl From<Scheduler> for Part {
    fn from(options: Scheduler) -> Part {
        Part::new(Some(SCHEDULER), move |host| {
            let user = component_user(rkube_scheduler::USER, &[]);
            let source = host.source(user.clone());
            let elected = Elected {
                lease: rkube_scheduler::AGENT,
                user: user.clone(),
                agent: rkube_scheduler::AGENT,
                component: rkube_scheduler::DEFAULT_NAME,
            };
            let (manager, host) = elected.manager(options.election, host, &Caches::new(source.clone()));
            let config = rkube_scheduler::Config {
                client: host.client(user, rkube_scheduler::AGENT),
                source,
                clock: host.clock().clone(),
                entropy: host.entropy().clone(),
                names: vec![rkube_scheduler::DEFAULT_NAME.to_owned()],
                percentage_of_nodes_to_score: 0,
                host_name: options.host_name,
            };
            rkube_scheduler::start_with(manager, config)
        })
    }
}
