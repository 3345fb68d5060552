//! The one task that ends leases when their time has come.

use std::sync::Weak;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

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

/// Runs until the backend is gone. Sleeps until the earliest deadline, however many leases there are.
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
        let Some(backend) = backend.upgrade() else {
            return;
        };
        let now = Instant::now();
        let due = backend.core().state.read().leases.due(now);
        for lease in due {
            if let Err(error) = backend.expire(lease, now).await {
                tracing::warn!(lease, %error, "a lease could not be ended, will be tried again");
            }
        }
    }
}
