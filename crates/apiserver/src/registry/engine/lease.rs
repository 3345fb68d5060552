//! Leases for objects that vanish by themselves. Objects written within a minute share one, so that a storm of events
//! does not become a storm of leases.

use std::collections::HashMap;

use parking_lot::Mutex;
use rkube_store::{LeaseId, Result, Store};

/// How long a lease is handed out after it was granted. Objects live that much longer at most.
const SHARED_SECONDS: u64 = 60;
/// At most so many objects share a lease.
const SHARED_MAX: u32 = 1_000;

#[derive(Default)]
pub struct Leases {
    /// By time to live.
    current: Mutex<HashMap<u64, Shared>>,
}

struct Shared {
    lease: LeaseId,
    granted: i64,
    used: u32,
}

impl Leases {
    /// A lease for an object that is to live `seconds` from `now` on.
    pub async fn current(&self, store: &dyn Store, seconds: u64, now: i64) -> Result<LeaseId> {
        if let Some(shared) = self.current.lock().get_mut(&seconds) {
            let young = now - shared.granted < SHARED_SECONDS as i64 && now >= shared.granted;
            if young && shared.used < SHARED_MAX {
                shared.used += 1;
                return Ok(shared.lease);
            }
        }
        let lease = store.grant_lease(seconds + SHARED_SECONDS).await?;
        self.current.lock().insert(seconds, Shared { lease, granted: now, used: 1 });
        Ok(lease)
    }
}
