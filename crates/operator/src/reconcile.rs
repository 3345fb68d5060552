//! The reconcile loop: keys from a queue, one future per key; failures are retried, and writes repeated, with growing
//! delays.

use std::any::Any;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::error::Error;
use crate::metrics::Metrics;
use crate::panic::panic_text;
use crate::process::held;
use crate::queue::Queue;
use crate::stats::ReconcileStats;
use crate::written::followed_by_caches;

/// A reconcile that takes longer has failed, so that others get its place.
pub const RECONCILE_MAX: Duration = Duration::from_secs(5 * 60);

/// What became of a key that did not fail, for those who want nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was nothing to write; or what was written follows what others do, however often they do it, and is not to be
    /// held up.
    Unchanged,
    /// Something was written, or would have been if another had not been faster. Who says so is slowed down if it happens
    /// again and again (as [`Action::wrote`] is).
    Wrote,
}

/// What became of a key that did not fail, and when to look at it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Action {
    wrote: bool,
    requeue_after: Option<Duration>,
}

impl Action {
    /// Everything is as it should be, until something changes.
    pub fn done() -> Action {
        Action::default()
    }

    /// Something was written. Who says so is slowed down if it happens again and again: nobody fights over an object at
    /// full speed.
    pub fn wrote() -> Action {
        Action { wrote: true, requeue_after: None }
    }

    /// Look again after this time, if nothing changes before.
    pub fn requeue_after(self, delay: Duration) -> Action {
        Action { requeue_after: Some(self.requeue_after.map_or(delay, |sooner| sooner.min(delay))), ..self }
    }
}

impl From<Outcome> for Action {
    fn from(outcome: Outcome) -> Action {
        if outcome == Outcome::Wrote { Action::wrote() } else { Action::done() }
    }
}

/// Works on keys, on so many at a time, each in a task of its own, until the returned future is dropped or the queue is
/// closed. A key whose reconcile panics, or takes longer than [`RECONCILE_MAX`], has failed: the others go on. One that
/// ran into a conflict is tried again soon.
pub async fn run<K, F, O, E>(
    name: &'static str,
    queue: Queue<K>,
    workers: usize,
    reconcile: impl Fn(K) -> F + Clone + Send + Sync + 'static,
) where
    K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
    O: Into<Action> + Send + 'static,
    E: Display + Send + 'static,
{
    run_with(Run { name, workers, timeout: RECONCILE_MAX, quarantined: Arc::new(|_, _| {}) }, queue, reconcile).await;
}

/// How a controller runs.
pub(crate) struct Run<K> {
    pub name: &'static str,
    pub workers: usize,
    pub timeout: Duration,
    /// Hears of a key that failed too often, and why.
    pub quarantined: Quarantining<K>,
}

pub(crate) type Quarantining<K> = Arc<dyn Fn(&K, &str) + Send + Sync>;

pub(crate) async fn run_with<K, F, O, E>(
    run: Run<K>,
    queue: Queue<K>,
    reconcile: impl Fn(K) -> F + Clone + Send + Sync + 'static,
) where
    K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    F: Future<Output = Result<O, E>> + Send + 'static,
    O: Into<Action> + Send + 'static,
    E: Display + Send + 'static,
{
    let reconcile: Reconcile<K> = Arc::new(move |key| {
        let reconciling = reconcile(key);
        Box::pin(async move {
            match reconciling.await {
                Ok(action) => Ended::Well(action.into()),
                Err(error) => judge(&error),
            }
        })
    });
    run_keys(run, queue, reconcile).await;
}

/// A reconcile of whatever controller, so that the loop around it is compiled once for each type of keys.
type Reconcile<K> = Arc<dyn Fn(K) -> BoxFuture<'static, Ended> + Send + Sync>;

async fn run_keys<K>(run: Run<K>, queue: Queue<K>, reconcile: Reconcile<K>)
where
    K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
{
    let Run { name, workers, timeout, quarantined } = run;
    let stats: Arc<ReconcileStats> = Arc::default();
    stats.workers_max.set(workers);
    Metrics::current().add(name, &queue, stats.clone());
    let attempt = Arc::new(Attempt { name, timeout, queue: queue.clone(), stats, quarantined });
    // Those who wait for work take no room: a task begins with its key.
    let mut tasks = JoinSet::new();
    loop {
        while tasks.len() >= workers {
            tasks.join_next().await;
        }
        let key = tokio::select! {
            biased;
            Some(_) = tasks.join_next() => continue,
            key = queue.next() => key,
        };
        let Some(key) = key else { break };
        let (attempt, reconcile) = (attempt.clone(), reconcile.clone());
        tasks.spawn(held(async move {
            let span = tracing::debug_span!("reconcile", controller = name, ?key);
            let reconciling = attempt.make(&key, &reconcile).instrument(span);
            let ended = reconciling.await;
            attempt.settle(&key, ended);
        }));
    }
    while tasks.join_next().await.is_some() {}
}

/// What all tries of a controller share.
struct Attempt<K> {
    name: &'static str,
    timeout: Duration,
    queue: Queue<K>,
    stats: Arc<ReconcileStats>,
    quarantined: Quarantining<K>,
}

/// How a try ended.
enum Ended {
    Well(Action),
    Conflict,
    /// Nothing but a change will help.
    Terminal(String),
    Failed(String),
}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> Attempt<K> {
    /// The caches have what was written when it returns.
    async fn make(&self, key: &K, reconcile: &Reconcile<K>) -> Ended {
        let started = Instant::now();
        self.stats.active.add();
        let _active = Active(&self.stats);
        let reconciling = AssertUnwindSafe(async { reconcile(key.clone()).await }).catch_unwind();
        let reconciling = followed_by_caches(tokio::time::timeout(self.timeout, reconciling));
        let ended = match self.stats.busy.while_polled(reconciling).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(panic)) => {
                let why = panic_text(&*panic);
                tracing::error!(controller = self.name, ?key, why, "reconcile panicked, trying again");
                self.stats.panics.add();
                Ended::Failed(format!("panicked: {why}"))
            }
            Err(_) => {
                tracing::error!(controller = self.name, ?key, after = ?self.timeout, "reconcile takes too long");
                self.stats.timeouts.add();
                Ended::Failed(format!("took longer than {:?}", self.timeout))
            }
        };
        self.stats.time.observe(started.elapsed());
        ended
    }

    fn settle(&self, key: &K, ended: Ended) {
        match ended {
            Ended::Well(Action { wrote, requeue_after }) => {
                match requeue_after {
                    Some(_) => self.stats.requeued_after.add(),
                    None => self.stats.successes.add(),
                }
                if wrote {
                    self.queue.wrote(key);
                } else {
                    self.queue.done(key);
                }
                if let Some(delay) = requeue_after {
                    self.queue.add_after(key.clone(), delay);
                }
            }
            Ended::Conflict => {
                self.stats.requeued.add();
                self.queue.conflicted(key);
            }
            Ended::Terminal(why) => {
                tracing::warn!(controller = self.name, ?key, why, "reconcile failed for good");
                self.stats.errors.add();
                self.stats.terminal_errors.add();
                self.queue.done(key);
            }
            Ended::Failed(why) => {
                tracing::debug!(controller = self.name, ?key, why, "reconcile failed, trying again");
                self.stats.errors.add();
                if self.queue.failed(key, &why) {
                    tracing::warn!(controller = self.name, ?key, why, "reconcile failed too often: in quarantine");
                    (self.quarantined)(key, &why);
                }
            }
        }
    }
}

/// A worker that is at work; not any more when this is dropped, however it ended.
struct Active<'a>(&'a ReconcileStats);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.subtract();
    }
}

fn judge<E: Display + 'static>(error: &E) -> Ended {
    let any = error as &dyn Any;
    let is_conflict = any.downcast_ref::<kube::Error>().is_some_and(crate::error::is_conflict);
    match any.downcast_ref::<Error>() {
        _ if is_conflict => Ended::Conflict,
        Some(error) if error.is_conflict() => Ended::Conflict,
        Some(error) if error.is_terminal() => Ended::Terminal(error.to_string()),
        _ => Ended::Failed(error.to_string()),
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

    #[tokio::test(start_paused = true)]
    async fn a_key_that_hangs_fails_in_time() {
        let queue = Queue::new();
        let (said, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let metrics = Metrics::default();
        queue.add(1);
        queue.add(2);
        let running = run("test", queue, 1, move |key: u32| {
            let said = said.clone();
            async move {
                if key == 1 {
                    std::future::pending::<()>().await;
                }
                said.send(key).map_err(|error| error.to_string())?;
                Ok::<_, String>(Action::done())
            }
        });
        let _running = tokio::spawn(metrics.clone().scope(running));
        assert_eq!(heard.recv().await, Some(2));
        let text = metrics.text();
        assert!(text.contains("controller_runtime_reconcile_timeouts_total{controller=\"test\"} 1\n"), "{text}");
    }

    fn conflict() -> kube::Error {
        let status = kube::core::Status { code: 409, reason: "Conflict".to_owned(), ..kube::core::Status::default() };
        kube::Error::Api(status.boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_no_failures_and_some_failures_are_for_good() {
        let queue: Queue<&str> = Queue::new();
        let metrics = Metrics::default();
        queue.add("conflict");
        queue.add("terminal");
        queue.add("later");
        let tries = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let tried = tries.clone();
        let running = run("test", queue.clone(), 1, move |key: &str| {
            let tried = tried.clone();
            async move {
                tried.lock().push(key);
                let first = tried.lock().iter().filter(|known| **known == key).count() == 1;
                match key {
                    "conflict" if first => Err(Error::from(conflict())),
                    "terminal" => Err(Error::terminal(conflict())),
                    "later" if first => Ok(Action::done().requeue_after(Duration::from_secs(60))),
                    _ => Ok(Action::wrote()),
                }
            }
        });
        let running = tokio::spawn(metrics.clone().scope(running));
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(*tries.lock(), ["conflict", "terminal", "later", "conflict", "later"]);
        let text = metrics.text();
        for (result, count) in [("error", 1), ("requeue", 1), ("requeue_after", 1), ("success", 2)] {
            let line =
                format!("controller_runtime_reconcile_total{{controller=\"test\",result=\"{result}\"}} {count}\n");
            assert!(text.contains(&line), "{text}");
        }
        queue.close();
        running.await.unwrap();
    }
}
