//! The one task that ends leases when their time has come.

use std::sync::Weak;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout_at};

use super::core::Core;
use crate::contract::{LeaseId, Result};

/// After a failure to end a lease (the disk is full, say) it is tried again so much later.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A backend whose leases expire.
pub(crate) trait Expire: Send + Sync + 'static {
    fn core(&self) -> &Core;
    /// Ends the lease unless it was renewed past `now`.
    fn expire(&self, lease: LeaseId, now: Instant) -> BoxFuture<'_, Result<()>>;
}

/// Runs until the backend is closed or gone. Sleeps until the earliest deadline, however many leases there are.
pub(crate) async fn expire_leases<Backend: Expire>(backend: Weak<Backend>) {
    loop {
        let Some((changed, deadline)) = backend.upgrade().map(|backend| {
            let core = backend.core();
            (core.leases_changed.clone(), core.state.read().leases.next_deadline())
        }) else {
            return;
        };
        match deadline {
            Some(deadline) => {
                // Either way round it looks again at what is due.
                let _ = timeout_at(deadline, changed.notified()).await;
            }
            None => changed.notified().await,
        }
        let Some(backend) = backend.upgrade().filter(|backend| !backend.core().is_closed()) else {
            return;
        };
        let now = Instant::now();
        let due = backend.core().state.read().leases.due(now);
        let mut failures = 0;
        for lease in due {
            if let Err(error) = backend.expire(lease, now).await {
                failures += 1;
                // The others fail alike.
                if failures == 1 {
                    tracing::warn!(lease, %error, "a lease could not be ended, will be tried again");
                }
            }
        }
        drop(backend);
        // What is due stays due: without a rest this would be a loop at full speed.
        if failures > 0 {
            sleep(RETRY_AFTER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;

    use super::*;
    use crate::contract::Error;
    use crate::memory::state::Op;

    /// Cannot end a lease.
    struct Stuck {
        core: Core,
        calls: AtomicUsize,
    }

    impl Expire for Stuck {
        fn core(&self) -> &Core {
            &self.core
        }

        fn expire(&self, _: LeaseId, _: Instant) -> BoxFuture<'_, Result<()>> {
            // A loop at full speed would keep the clock of the test from going on.
            assert!(self.calls.fetch_add(1, Ordering::Relaxed) < 1000, "it never rests");
            std::future::ready(Err(Error::Unavailable("it is stuck".to_owned()))).boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rests_when_a_lease_cannot_be_ended() {
        let stuck = Arc::new(Stuck { core: Core::empty(), calls: AtomicUsize::new(0) });
        stuck.core.commit((1..4).map(|id| Op::Grant { id, ttl_seconds: 1 }).collect(), Instant::now());
        let task = tokio::spawn(expire_leases(Arc::downgrade(&stuck)));
        tokio::time::sleep(Duration::from_secs(11)).await;
        let calls = stuck.calls.load(Ordering::Relaxed);
        assert!((3..=40).contains(&calls), "{calls} calls in ten seconds");
        stuck.core.close();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(task.is_finished(), "a store that is closed ends no more leases");
    }
}
