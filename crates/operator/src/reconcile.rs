//! The reconcile loop: keys from a queue, one future per key; failures are retried, and writes repeated, with growing
//! delays.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio::task::JoinSet;

use crate::panic::panic_text;
use crate::queue::Queue;
use crate::written::followed_by_caches;

/// What became of a key that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to write.
    Unchanged,
    /// Something was written, or would have been if another had not been faster.
    Wrote,
}

/// Works on keys, on so many at a time, each in a task of its own, until the returned future is dropped. A key whose
/// reconcile panics has failed: the others go on.
pub async fn run<K, F, E>(
    name: &'static str,
    queue: Queue<K>,
    workers: usize,
    reconcile: impl Fn(K) -> F + Clone + Send + Sync + 'static,
) where
    K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    F: Future<Output = Result<Outcome, E>> + Send + 'static,
    E: Display + Send,
{
    // Those who wait for work take no room: a task begins with its key.
    let mut tasks = JoinSet::new();
    loop {
        while tasks.len() >= workers {
            tasks.join_next().await;
        }
        let key = tokio::select! {
            key = queue.next() => key,
            Some(_) = tasks.join_next() => continue,
        };
        let (queue, reconcile) = (queue.clone(), reconcile.clone());
        tasks.spawn(async move {
            let reconciling = AssertUnwindSafe(async { reconcile(key.clone()).await }).catch_unwind();
            match followed_by_caches(reconciling).await {
                Ok(Ok(Outcome::Unchanged)) => queue.done(&key),
                Ok(Ok(Outcome::Wrote)) => queue.wrote(&key),
                Ok(Err(error)) => {
                    tracing::debug!(controller = name, ?key, %error, "reconcile failed, trying again");
                    queue.failed(&key);
                }
                Err(panic) => {
                    let why = panic_text(&*panic);
                    tracing::error!(controller = name, ?key, why, "reconcile panicked, trying again");
                    queue.failed(&key);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_that_panics_is_tried_again_and_holds_up_no_other() {
        let queue = Queue::new();
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        queue.add(1);
        queue.add(2);
        let _running = tokio::spawn(run("test", queue, 1, move |key: u32| {
            let said = said.clone();
            async move {
                said.send(key).map_err(|error| error.to_string())?;
                assert_ne!(key, 1, "this key is bad");
                Ok::<_, String>(Outcome::Unchanged)
            }
        }));
        assert_eq!([heard.recv().await, heard.recv().await, heard.recv().await], [Some(1), Some(2), Some(1)]);
    }
}
