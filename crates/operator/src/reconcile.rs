//! The reconcile loop: keys from a queue, one future per key; failures are retried, and writes repeated, with growing
//! delays.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;

use crate::queue::Queue;

/// What became of a key that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to write.
    Unchanged,
    /// Something was written, or would have been if another had not been faster.
    Wrote,
}

/// Works on keys with this many workers until the returned future is dropped.
pub async fn run<K, F, E>(name: &'static str, queue: Queue<K>, workers: usize, reconcile: impl Fn(K) -> F + Clone)
where
    K: Clone + Eq + Hash + Debug + Send + 'static,
    F: Future<Output = Result<Outcome, E>>,
    E: Display,
{
    let worker = || {
        let (queue, reconcile) = (queue.clone(), reconcile.clone());
        async move {
            loop {
                let key = queue.next().await;
                match reconcile(key.clone()).await {
                    Ok(Outcome::Unchanged) => queue.done(&key),
                    Ok(Outcome::Wrote) => queue.wrote(&key),
                    Err(error) => {
                        tracing::debug!(controller = name, ?key, %error, "reconcile failed, trying again");
                        queue.failed(&key);
                    }
                }
            }
        }
    };
    futures::future::join_all((0..workers).map(|_| worker())).await;
}
