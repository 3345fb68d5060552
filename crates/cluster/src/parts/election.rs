//! Which of several control planes on one store runs its controllers and its scheduler: those that hold upstream's
//! Leases. The others stand by, and take over.

use rkube_access::UserRef;
pub use rkube_operator::leader_election::Timing;
use rkube_operator::leader_election::identity;
use rkube_operator::{Caches, Environment, Fence, LeaderElection, Manager};

use crate::host::Host;

/// Where upstream has the Leases of its components.
const NAMESPACE: &str = "kube-system";

/// How a part is elected.
#[derive(Clone, Debug)]
pub struct Election {
    identity: Option<String>,
    host_name: String,
    timing: Timing,
}

impl Election {
    /// `identity` is this process and no other; None: one is made up of the host's name. Fails if the times do not go
    /// together.
    pub fn new(host_name: &str, identity: Option<String>, timing: Timing) -> Result<Election, String> {
        timing.check()?;
        let identity = identity.filter(|identity| !identity.is_empty());
        Ok(Election { identity, host_name: host_name.to_owned(), timing })
    }
}

/// Who is elected.
pub(super) struct Elected {
    /// The name of the Lease.
    pub lease: &'static str,
    pub user: UserRef,
    pub agent: &'static str,
    /// Who says so in events.
    pub component: &'static str,
}

impl Elected {
    /// What runs only while it leads, if there is an election; and the host whose clients send nothing at any other time.
    pub fn manager(self, election: Option<Election>, host: &Host, caches: &Caches) -> (Manager, Host) {
        let Some(Election { identity: given, host_name, timing }) = election else {
            return (Manager::with_caches(caches.clone()), host.clone());
        };
        let fence = Fence::default();
        let host = host.behind(&fence);
        let given = given.unwrap_or_else(|| identity(&host_name, &**host.entropy()));
        let environment = Environment {
            client: host.client(self.user, self.agent),
            caches: caches.clone(),
            clock: host.clock().clone(),
            entropy: host.entropy().clone(),
            fence,
            host_name,
        };
        let election = LeaderElection::lease(NAMESPACE, self.lease)
            .identity(&given)
            .component(self.component)
            .timing(timing)
            .stand_by_again();
        let manager = Manager::elected(&environment, election).expect("the times were looked at when it was made");
        (manager, host)
    }
}
