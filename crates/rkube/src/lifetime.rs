//! From the start of a control plane to its end, whoever asked for it.

use std::sync::Arc;

use anyhow::Context;
use rkube_cluster::ControlPlane;
use rkube_store::Store;

use crate::signals::{self, Signals};

/// A control plane with what it needs.
pub struct Cluster<T> {
    pub control_plane: ControlPlane,
    pub store: Arc<dyn Store>,
    /// Let go last.
    pub held: T,
}

/// Starts a cluster, says that it is there, and returns when a signal has ended it in good order.
pub fn run<T>(
    mut signals: Signals,
    start: impl Future<Output = anyhow::Result<Cluster<T>>>,
    announce: impl FnOnce(&Cluster<T>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start threads")?;
    let outcome = runtime.block_on(async {
        let mut cluster = tokio::select! {
            cluster = start => cluster?,
            // Nothing runs yet that would have to be drained.
            kind = signals.first() => std::process::exit(signals::exit_code(kind)),
        };
        announce(&cluster)?;
        tokio::select! {
            _ = signals.first() => tracing::info!("ending; a second signal ends at once"),
            error = cluster.control_plane.ended() => return Err(error.into()),
        }
        cluster.shutdown().await;
        Ok(())
    });
    // All that matters is done: whoever still computes for a client that is gone is not waited for.
    runtime.shutdown_background();
    outcome
}

impl<T> Cluster<T> {
    async fn shutdown(self) {
        self.control_plane.shutdown().await;
        self.store.shutdown().await;
        drop(self.held);
    }
}
