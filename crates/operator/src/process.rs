//! Several processes in one runtime, of which a test stops one and wakes it later: what `SIGSTOP` and `SIGCONT` do.
//!
//! A process that stands still does nothing, and does not know that time passes. When it is woken it goes on where it was:
//! with requests that it was about to send, and timers that have run out long ago. Where no test has made a [`Process`] there
//! is none, and nothing here does anything.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::future::Either;
use parking_lot::Mutex;

tokio::task_local! {
    static CURRENT: Process;
}

/// What was started in [`Process::scope`], and all that this started.
#[derive(Clone, Default)]
pub struct Process(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_stopped: bool,
    /// What would have gone on since.
    held: Vec<Waker>,
}

impl Process {
    /// Runs something whose tasks are of this process.
    pub fn scope<T>(&self, start: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(self.clone(), start)
    }

    pub fn stop(&self) {
        self.0.lock().is_stopped = true;
    }

    pub fn wake(&self) {
        let held = {
            let mut state = self.0.lock();
            state.is_stopped = false;
            std::mem::take(&mut state.held)
        };
        held.into_iter().for_each(Waker::wake);
    }

    fn holds(&self, context: &Context<'_>) -> bool {
        let mut state = self.0.lock();
        if state.is_stopped && !state.held.iter().any(|known| known.will_wake(context.waker())) {
            state.held.push(context.waker().clone());
        }
        state.is_stopped
    }
}

/// What a task of the current process does, to be spawned: it stands still while the process does.
pub fn held<F>(future: F) -> impl Future<Output = F::Output> + Send
where
    F: Future + Send + 'static,
{
    let Ok(process) = CURRENT.try_with(Process::clone) else { return Either::Left(future) };
    let mut future = Box::pin(CURRENT.scope(process.clone(), future));
    Either::Right(poll_fn(move |context| match process.holds(context) {
        true => Poll::Pending,
        false => future.as_mut().poll(context),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_stopped_goes_on_where_it_was() {
        let (process, steps) = (Process::default(), Arc::new(AtomicU32::new(0)));
        let counted = steps.clone();
        // A task that another one of the process has started.
        let task = process.scope(|| {
            tokio::spawn(held(async move {
                let counting = async move {
                    for _ in 0..3 {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                };
                tokio::spawn(held(counting)).await
            }))
        });
        tokio::time::sleep(Duration::from_millis(1500)).await;
        process.stop();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(steps.load(Ordering::Relaxed), 1);
        process.wake();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(steps.load(Ordering::Relaxed), 2, "the timer has run out meanwhile, and the next one begins now");
        task.await.unwrap().unwrap();
        assert_eq!(steps.load(Ordering::Relaxed), 3);
    }
}
