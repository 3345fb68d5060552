//! Leader election: of several processes one works, and another takes over when it is gone. On Leases, as client-go
//! does it, so that both may be candidates for one lease.
//!
//! ```no_run
//! use rkube_operator::{Error, LeaderElection, Operator};
//!
//! # async fn main_() -> Result<(), Error> {
//! let operator = Operator::connect("robots").await?;
//! let mut operator = operator.leader_election(LeaderElection::lease("robots", "robots-operator"))?;
//! // operator.controller(…): from here on as without an election.
//! operator.run().await
//! # }
//! ```
//!
//! The holder renews the lease each [`retry_period`](LeaderElection::retry_period) (2 s). Who has not seen it change for its
//! whole duration (15 s), by the own clock, takes it; of several the one whose write is first. Candidates look every two
//! to four and a half seconds, and watch the Lease as well: one that is released has a new holder at once. It takes
//! the verbs `get`, `list`, `watch`, `create` and `update` on Leases, and `create` and `patch` on Events.
//!
//! **A standby** has its informers run, so that it begins with warm caches; controllers and queues start when it leads.
//! Its health is good.
//!
//! **Who does not lead writes nothing.** A leader leads until the renew deadline (10 s) after it *sent* its last
//! renewal, and everything that controllers send goes through a [fence](crate::fence) that is closed from then on, whatever
//! the process believes: one that was stopped and is woken again sends nothing. Others wait for the lease duration after
//! they *saw* that renewal, so that there is never more than one whose fence is open, as long as no clock runs
//! half again as fast as another. What was sent before has the difference between the two times to arrive.
//!
//! **Losing the lease** ends an operator: [`Operator::run`](crate::Operator::run) returns an error, as with controller-runtime, and
//! whatever runs the process starts it again. With [`LeaderElection::stand_by_again`] controllers are ended, and the process is a candidate again.
//!
//! **An orderly end** releases the lease, once nothing is under way any more.
//!
//! As with client-go, the identity is all that a holder is known by: two processes with one identity both lead. The one
//! that [`LeaderElection::lease`] makes up (the host's name and something random) is like no other. Who edits a Lease by hand
//! gives it away while its holder still works.

mod lease;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use run::Elector;

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::changes;
use rkube_machinery::host::Entropy;
use tokio::sync::mpsc;

use crate::error::Error;

/// client-go's defaults.
const LEASE_DURATION: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Of the retry period, that the renew deadline has to be longer than; client-go's.
const RETRIES: f64 = 1.2;

/// Which lease is led by, as whom, and how fast.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    namespace: String,
    name: String,
    identity: Option<String>,
    component: Option<String>,
    timing: Timing,
    stands_by_again: bool,
}

impl LeaderElection {
    /// By the Lease of this name in a namespace, which need not be there.
    pub fn lease(namespace: &str, name: &str) -> LeaderElection {
        LeaderElection {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: None,
            component: None,
            timing: Timing::default(),
            stands_by_again: false,
        }
    }

    /// Who this process is; the host's name and something random, if it is not said. Nobody else may be the same: see
    /// [the module](self).
    #[must_use]
    pub fn identity(mut self, identity: &str) -> Self {
        self.identity = Some(identity.to_owned());
        self
    }

    /// Who says in events that the leader is another; the identity, if it is not said.
    #[must_use]
    pub fn component(mut self, component: &str) -> Self {
        self.component = Some(component.to_owned());
        self
    }

    /// So long others wait after the last renewal that they saw; 15 s. Leases say it in whole seconds.
    #[must_use]
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timing.lease_duration = duration;
        self
    }

    /// So long a leader leads after the last renewal; 10 s.
    #[must_use]
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timing.renew_deadline = deadline;
        self
    }

    /// How often a leader renews and others look; 2 s.
    #[must_use]
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timing.retry_period = period;
        self
    }

    /// All three at once.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Who has lost the lease is a candidate again, and nothing but its controllers ends.
    #[must_use]
    pub fn stand_by_again(mut self) -> Self {
        self.stands_by_again = true;
        self
    }

    fn check(&self) -> Result<(), Error> {
        if self.identity.as_deref() == Some("") {
            return Err(Error::text("the identity of a candidate is empty"));
        }
        if self.namespace.is_empty() || self.name.is_empty() {
            return Err(Error::text("a lease has a namespace and a name"));
        }
        self.timing.check().map_err(Error::text)
    }
}

/// How fast an election is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { lease_duration: LEASE_DURATION, renew_deadline: RENEW_DEADLINE, retry_period: RETRY_PERIOD }
    }
}

impl Timing {
    /// What client-go asks for; the lease duration as a lease says it, because that is what others go by.
    pub fn check(&self) -> Result<(), String> {
        if self.lease_duration.as_secs() == 0 {
            return Err("the lease duration must be at least a second".to_owned());
        }
        if Duration::from_secs(self.lease_duration.as_secs()) <= self.renew_deadline {
            return Err("the lease duration, in whole seconds, must be greater than the renew deadline".to_owned());
        }
        if i32::try_from(self.lease_duration.as_secs()).is_err() {
            return Err("the lease duration is too long".to_owned());
        }
        if self.retry_period.is_zero() {
            return Err("the retry period must be greater than zero".to_owned());
        }
        if self.renew_deadline.as_secs_f64() <= self.retry_period.as_secs_f64() * RETRIES {
            return Err("the renew deadline must be greater than 1.2 times the retry period".to_owned());
        }
        Ok(())
    }

    fn lease_seconds(&self) -> i64 {
        i64::try_from(self.lease_duration.as_secs()).unwrap_or(i64::MAX)
    }
}

/// A name that nobody else has: the host's, and a random UUID, as upstream's components have it.
pub fn identity(host: &str, entropy: &dyn Entropy) -> String {
    let mut bytes = [0_u8; 16];
    entropy.fill(&mut bytes);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{host}_{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Whether this process leads, for those who want to know.
#[derive(Clone)]
pub struct Leadership {
    role: changes::Receiver<Role>,
    /// None: there is no election, and everybody leads.
    _always: Option<Arc<changes::Sender<Role>>>,
}

/// What a process is.
#[derive(Clone)]
pub(crate) enum Role {
    /// It has not found out yet.
    Unknown,
    Standby,
    Leader(Term),
    /// It led, and never will again.
    Lost,
}

/// One time of leading. The next one does not begin before all clones of it are gone: nothing that was decided in one is
/// done in another.
#[derive(Clone)]
pub(crate) struct Term {
    number: u64,
    _held: mpsc::Sender<()>,
}

impl Leadership {
    /// Without an election.
    pub(crate) fn always() -> Leadership {
        let (held, _) = mpsc::channel(1);
        let (sender, role) = changes::channel(Role::Leader(Term { number: 0, _held: held }));
        Leadership { role, _always: Some(Arc::new(sender)) }
    }

    pub fn leads(&self) -> bool {
        matches!(*self.role.borrow(), Role::Leader(_))
    }

    /// Waits until it is known whether this process leads: whether it does.
    pub async fn known(&mut self) -> bool {
        // Who elects has ended: nobody leads any more.
        let _ = self.role.wait_for(|role| !matches!(role, Role::Unknown)).await;
        self.leads()
    }

    /// Waits until this process leads; for ever, if it never will.
    pub(crate) async fn begun(&mut self) -> Term {
        loop {
            if let Role::Leader(term) = &*self.role.borrow_and_update() {
                return term.clone();
            }
            if self.role.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until it no longer does.
    pub(crate) async fn ended(&mut self, term: &Term) {
        let number = term.number;
        // An error: who elects has ended, and with it the time of leading.
        let _ = self.role.wait_for(|role| !matches!(role, Role::Leader(term) if term.number == number)).await;
    }

    /// Waits until the lease was lost for good.
    pub async fn lost(&mut self) {
        if self.role.wait_for(|role| matches!(role, Role::Lost)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
