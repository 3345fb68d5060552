//! What controllers do, in numbers: under the names of controller-runtime, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::queue::{Queue, Snapshot};
use crate::stats::{ElectionStats, Histogram, QueueStats, ReconcileStats, Text};

tokio::task_local! {
    static CURRENT: Metrics;
}

/// The numbers of all controllers of a manager.
#[derive(Clone, Default)]
pub struct Metrics {
    controllers: Arc<Mutex<BTreeMap<String, Controller>>>,
    elections: Arc<Mutex<BTreeMap<String, Arc<ElectionStats>>>>,
}

struct Controller {
    queue: Arc<QueueStats>,
    /// None, if there is no such queue any more.
    look: Box<dyn Fn() -> Option<Snapshot> + Send + Sync>,
    close: Box<dyn Fn() + Send + Sync>,
    reconcile: Arc<ReconcileStats>,
}

impl Metrics {
    /// Those that a task's controllers are counted in.
    pub(crate) fn current() -> Metrics {
        CURRENT.try_with(Metrics::clone).unwrap_or_default()
    }

    pub(crate) async fn scope<F: Future>(self, task: F) -> F::Output {
        CURRENT.scope(self, task).await
    }

    /// Counts a controller; one of this name that was here before is counted no more.
    pub(crate) fn add<K>(&self, name: &str, queue: &Queue<K>, reconcile: Arc<ReconcileStats>)
    where
        K: Clone + Eq + Hash + Debug + Send + Sync + 'static,
    {
        let (look, close) = (Box::new(queue.watch()), Box::new(queue.closing()));
        let controller = Controller { queue: queue.stats().clone(), look, close, reconcile };
        self.controllers.lock().insert(name.to_owned(), controller);
    }

    /// Counts an election, by the name of its lease.
    pub(crate) fn add_election(&self, name: &str, stats: Arc<ElectionStats>) {
        self.elections.lock().insert(name.to_owned(), stats);
    }

    /// Closes all queues.
    pub(crate) fn close(&self) {
        self.controllers.lock().values().for_each(|controller| (controller.close)());
    }

    /// What each controller is doing at this moment.
    pub fn snapshots(&self) -> BTreeMap<String, Snapshot> {
        let controllers = self.controllers.lock();
        let found =
            controllers.iter().map(|(name, controller)| (name.clone(), (controller.look)().unwrap_or_default()));
        found.collect()
    }

    /// All numbers, as Prometheus reads them.
    pub fn text(&self) -> String {
        let snapshots = self.snapshots();
        let controllers = self.controllers.lock();
        let mut text = Text(String::new());
        write_reconciles(&mut text, &controllers);
        write_queues(&mut text, &controllers, &snapshots);
        write_elections(&mut text, &self.elections.lock());
        text.0
    }
}

fn write_reconciles(text: &mut Text, controllers: &BTreeMap<String, Controller>) {
    let stats = || controllers.iter().map(|(name, controller)| (name, &controller.reconcile));
    text.head("controller_runtime_reconcile_total", "counter", "Total number of reconciliations per controller");
    for (name, stats) in stats() {
        let results = [
            ("error", &stats.errors),
            ("requeue", &stats.requeued),
            ("requeue_after", &stats.requeued_after),
            ("success", &stats.successes),
        ];
        for (result, count) in results {
            let labels = format!("controller=\"{name}\",result=\"{result}\"");
            text.line("controller_runtime_reconcile_total", &labels, count.get());
        }
    }
    type Pick = fn(&ReconcileStats) -> u64;
    let counters: [(&str, &str, &str, Pick); 6] = [
        (
            "controller_runtime_reconcile_errors_total",
            "counter",
            "Total number of reconciliation errors per controller",
            |stats| stats.errors.get(),
        ),
        (
            "controller_runtime_terminal_reconcile_errors_total",
            "counter",
            "Total number of terminal reconciliation errors per controller",
            |stats| stats.terminal_errors.get(),
        ),
        (
            "controller_runtime_reconcile_panics_total",
            "counter",
            "Total number of reconciliation panics per controller",
            |stats| stats.panics.get(),
        ),
        (
            "controller_runtime_reconcile_timeouts_total",
            "counter",
            "Total number of reconciliation timeouts per controller",
            |stats| stats.timeouts.get(),
        ),
        (
            "controller_runtime_max_concurrent_reconciles",
            "gauge",
            "Maximum number of concurrent reconciles per controller",
            |stats| stats.workers_max.get(),
        ),
        ("controller_runtime_active_workers", "gauge", "Number of currently used workers per controller", |stats| {
            stats.active.get()
        }),
    ];
    for (metric, kind, help, pick) in counters {
        text.head(metric, kind, help);
        for (name, stats) in stats() {
            text.line(metric, &format!("controller=\"{name}\""), pick(stats));
        }
    }
    let metric = "rkube_operator_reconcile_busy_seconds_total";
    text.head(metric, "counter", "Time spent working on reconciliations per controller, what they waited for left out");
    for (name, stats) in stats() {
        text.line(metric, &format!("controller=\"{name}\""), stats.busy.get().as_secs_f64());
    }
    let metric = "controller_runtime_reconcile_time_seconds";
    text.head(metric, "histogram", "Length of time per reconciliation per controller");
    for (name, stats) in stats() {
        stats.time.write(text, metric, &format!("controller=\"{name}\""));
    }
}

fn write_elections(text: &mut Text, elections: &BTreeMap<String, Arc<ElectionStats>>) {
    const STATUS: &str = "leader_election_master_status";
    const SLOW_PATHS: &str = "leader_election_slowpath_total";
    if elections.is_empty() {
        return;
    }
    text.head(
        STATUS,
        "gauge",
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' \
         is the string used to identify the lease. Please make sure to group by name.",
    );
    for (name, stats) in elections {
        text.line(STATUS, &format!("name=\"{name}\""), stats.leads.get());
    }
    text.head(
        SLOW_PATHS,
        "counter",
        "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. \
         Please make sure to group by name.",
    );
    for (name, stats) in elections {
        text.line(SLOW_PATHS, &format!("name=\"{name}\""), stats.slow_paths.get());
    }
}

fn write_queues(text: &mut Text, controllers: &BTreeMap<String, Controller>, snapshots: &BTreeMap<String, Snapshot>) {
    let labels = |name: &str| format!("controller=\"{name}\",name=\"{name}\"");
    type Look = fn(&Snapshot) -> f64;
    #[allow(clippy::cast_precision_loss)]
    let gauges: [(&str, &str, Look); 4] = [
        ("workqueue_depth", "Current depth of workqueue", |queue| queue.depth as f64),
        (
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has been done that is in progress and hasn't been observed by work_duration",
            |queue| queue.works.iter().map(Duration::as_secs_f64).sum(),
        ),
        (
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running",
            |queue| queue.works.iter().map(Duration::as_secs_f64).fold(0.0, f64::max),
        ),
        (
            "rkube_operator_quarantined",
            "Objects that failed too often and are tried no more until they change",
            |queue| queue.quarantined.len() as f64,
        ),
    ];
    for (metric, help, look) in gauges {
        text.head(metric, "gauge", help);
        for (name, queue) in snapshots {
            text.line(metric, &labels(name), look(queue));
        }
    }
    type Count = fn(&QueueStats) -> u64;
    let counters: [(&str, &str, Count); 2] = [
        ("workqueue_adds_total", "Total number of adds handled by workqueue", |stats| stats.adds.get()),
        ("workqueue_retries_total", "Total number of retries handled by workqueue", |stats| stats.retries.get()),
    ];
    for (metric, help, count) in counters {
        text.head(metric, "counter", help);
        for (name, controller) in controllers {
            text.line(metric, &labels(name), count(&controller.queue));
        }
    }
    type Durations = fn(&QueueStats) -> &Histogram;
    let histograms: [(&str, &str, Durations); 2] = [
        (
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested",
            |stats| &stats.waits,
        ),
        ("workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes.", |stats| {
            &stats.works
        }),
    ];
    for (metric, help, durations) in histograms {
        text.head(metric, "histogram", help);
        for (name, controller) in controllers {
            durations(&controller.queue).write(text, metric, &labels(name));
        }
    }
}
