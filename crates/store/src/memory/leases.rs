//! Leases: which keys go when nobody renews.
//!
//! Deadlines are on tokio's clock. They are not part of what is durable: after a restart a lease begins anew with
//! its full time to live.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::contract::LeaseId;

struct Lease {
    ttl_seconds: u64,
    deadline: Instant,
    keys: HashSet<Arc<str>>,
    /// Its end is being committed: too late to renew.
    ending: bool,
}

/// All leases, ordered by deadline.
#[derive(Default)]
pub(crate) struct Leases {
    leases: HashMap<LeaseId, Lease>,
    deadlines: BTreeSet<(Instant, LeaseId)>,
    last: LeaseId,
}

impl Leases {
    /// The id that the next grant will use.
    pub(crate) fn next_id(&self) -> LeaseId {
        self.last + 1
    }

    /// Ids up to `last` were given before; none of them is given again.
    pub(crate) fn skip_ids(&mut self, last: LeaseId) {
        self.last = self.last.max(last);
    }

    pub(crate) fn contains(&self, id: LeaseId) -> bool {
        self.leases.get(&id).is_some_and(|lease| !lease.ending)
    }

    pub(crate) fn grant(&mut self, id: LeaseId, ttl_seconds: u64, now: Instant) {
        let deadline = deadline(now, ttl_seconds);
        self.skip_ids(id);
        self.deadlines.insert((deadline, id));
        self.leases.insert(id, Lease { ttl_seconds, deadline, keys: HashSet::new(), ending: false });
    }

    /// Whether the lease was there to be renewed.
    pub(crate) fn renew(&mut self, id: LeaseId, now: Instant) -> bool {
        let Some(lease) = self.leases.get_mut(&id).filter(|lease| !lease.ending) else {
            return false;
        };
        self.deadlines.remove(&(lease.deadline, id));
        lease.deadline = deadline(now, lease.ttl_seconds);
        self.deadlines.insert((lease.deadline, id));
        true
    }

    pub(crate) fn attach(&mut self, id: LeaseId, key: &Arc<str>) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.insert(key.clone());
        }
    }

    pub(crate) fn detach(&mut self, id: LeaseId, key: &str) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    /// The keys to delete with the lease, in order; from here on it cannot be renewed. `expired_at`: only if it is
    /// due by then. `None`: there is no such lease, or it is not due.
    pub(crate) fn begin_end(&mut self, id: LeaseId, expired_at: Option<Instant>) -> Option<Vec<Arc<str>>> {
        let lease = self.leases.get_mut(&id).filter(|lease| !lease.ending)?;
        if expired_at.is_some_and(|now| lease.deadline > now) {
            return None;
        }
        lease.ending = true;
        self.deadlines.remove(&(lease.deadline, id));
        let mut keys: Vec<_> = lease.keys.iter().cloned().collect();
        keys.sort();
        Some(keys)
    }

    /// The end that was begun could not be committed: it is tried again after `retry_at`.
    pub(crate) fn cancel_end(&mut self, id: LeaseId, retry_at: Instant) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.ending = false;
            lease.deadline = lease.deadline.max(retry_at);
            self.deadlines.insert((lease.deadline, id));
        }
    }

    pub(crate) fn remove(&mut self, id: LeaseId) {
        if let Some(lease) = self.leases.remove(&id) {
            self.deadlines.remove(&(lease.deadline, id));
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn due(&self, now: Instant) -> Vec<LeaseId> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect()
    }

    /// Every lease with its time to live, and the highest id ever given.
    pub(crate) fn list(&self) -> (Vec<(LeaseId, u64)>, LeaseId) {
        let mut all: Vec<_> = self.leases.iter().map(|(id, lease)| (*id, lease.ttl_seconds)).collect();
        all.sort_unstable();
        (all, self.last)
    }
}

/// No lease lives longer without a renewal; keeps deadlines within what a clock can say.
const TTL_SECONDS_MAX: u64 = 100 * 365 * 24 * 3600;

fn deadline(now: Instant, ttl_seconds: u64) -> Instant {
    now + Duration::from_secs(ttl_seconds.min(TTL_SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_until_its_deadline_unless_renewed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut leases = Leases::default();
        leases.grant(1, 10, start);
        leases.grant(2, 20, start);
        assert_eq!((leases.next_id(), leases.next_deadline()), (3, Some(at(10))));
        assert!(leases.renew(1, at(5)));
        assert_eq!(leases.due(at(15)), [1]);
        assert_eq!(leases.begin_end(1, Some(at(14))), None, "renewed in the meantime");
        leases.attach(1, &"b".into());
        leases.attach(1, &"a".into());
        leases.detach(1, "b");
        assert_eq!(leases.begin_end(1, Some(at(15))), Some(vec!["a".into()]));
        assert!(!leases.renew(1, at(15)) && !leases.contains(1));
        leases.cancel_end(1, at(16));
        assert_eq!(leases.due(at(16)), [1]);
        leases.remove(1);
        assert_eq!(leases.next_deadline(), Some(at(20)));
        leases.grant(9, u64::MAX, start);
        assert_eq!(leases.next_id(), 10);
    }
}
