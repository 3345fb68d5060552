//! For how long futures are worked on: the time inside their polls. What they wait for is left out, and what others do on
//! the thread meanwhile.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The sum of all that was worked. In virtual time, which stands still while somebody works, it is nothing.
#[derive(Default)]
pub(crate) struct Busy {
    nanos: AtomicU64,
}

impl Busy {
    /// Adds what is worked on this future.
    pub async fn while_polled<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let started = Instant::now();
            let polled = future.as_mut().poll(context);
            self.nanos.fetch_add(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            polled
        })
        .await
    }

    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock goes on while it works for so long.
    async fn work(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn work_counts_and_waiting_does_not() {
        let (busy, started) = (Busy::default(), Instant::now());
        let said = busy.while_polled(async {
            work(Duration::from_secs(2)).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            work(Duration::from_secs(1)).await;
            "done"
        });
        assert_eq!(said.await, "done");
        assert_eq!((busy.get(), started.elapsed()), (Duration::from_secs(3), Duration::from_secs(63)));
        busy.while_polled(work(Duration::from_secs(1))).await;
        assert_eq!(busy.get(), Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_do_meanwhile_does_not_count() {
        let (busy, other) = (Busy::default(), Busy::default());
        let turns = |busy: Busy, seconds| async move {
            let working = async {
                for _ in 0..10 {
                    work(Duration::from_secs(seconds)).await;
                }
            };
            busy.while_polled(working).await;
            busy.get()
        };
        let both = tokio::join!(turns(busy, 1), turns(other, 5));
        assert_eq!(both, (Duration::from_secs(10), Duration::from_secs(50)));
    }
}
