//! Work on large bodies, apart from the threads that serve everybody.
//!
//! What takes long to compute must not hold up the others on its thread, so each step of it runs while another thread
//! takes over this one's tasks. Only steps do: a request that waits (for its turn, for the store, for a revision) waits
//! like every other, without a thread.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Drives `work` to its end. With `turns`, each of its steps takes one of them and runs apart.
pub async fn run<F: Future>(turns: Option<&Semaphore>, mut work: Pin<&mut F>) -> F::Output {
    let Some(turns) = turns.filter(|_| has_other_threads()) else { return work.await };
    loop {
        let turn = turns.acquire().await;
        let step = poll_fn(|context| Poll::Ready(tokio::task::block_in_place(|| work.as_mut().poll(context)))).await;
        drop(turn);
        match step {
            Poll::Ready(output) => return output,
            Poll::Pending => woken().await,
        }
    }
}

/// Waits until the task is woken: by what its last step left its waker with.
async fn woken() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

fn has_other_threads() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    /// More waits than the runtime could ever have threads for.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn waits_take_no_threads() {
        let turns = Arc::new(Semaphore::new(2));
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let tasks: Vec<_> = (0..2_000)
            .map(|number| {
                let (turns, gate) = (turns.clone(), gate.clone());
                tokio::spawn(async move {
                    let work = pin!(async {
                        let _passed = gate.acquire().await;
                        tokio::task::yield_now().await;
                        number
                    });
                    run(Some(&turns), work).await
                })
            })
            .collect();
        let ends = async {
            // Timers go on although everybody waits.
            tokio::time::sleep(Duration::from_millis(10)).await;
            gate.add_permits(1);
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), number);
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("nobody hangs");
        assert_eq!(turns.available_permits(), 2);
    }

    #[tokio::test]
    async fn one_thread_is_enough() {
        let turns = Semaphore::new(1);
        assert_eq!(run(Some(&turns), pin!(async { 5 })).await, 5);
    }
}
