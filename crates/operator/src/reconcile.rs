//! The reconcile loop: keys from a queue, one future per key, failures retried with growing delays.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;

use crate::queue::Queue;

/// Works on keys with this many workers until the returned future is dropped.
pub async fn run<K, F, E>(name: &'static str, queue: Queue<K>, workers: usize, reconcile: impl Fn(K) -> F + Clone)
where
    K: Clone + Eq + Hash + Debug + Send + 'static,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let worker = || {
        let (queue, reconcile) = (queue.clone(), reconcile.clone());
        async move {
            loop {
                let key = queue.next().await;
                match reconcile(key.clone()).await {
                    Ok(()) => queue.done(&key),
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
