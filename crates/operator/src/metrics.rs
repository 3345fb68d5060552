//! What controllers do, in numbers: under the names of controller-runtime, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::queue::{Queue, Snapshot};

/// In seconds, as controller-runtime has them.
const RECONCILE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
const QUEUE_BUCKETS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

tokio::task_local! {
    static CURRENT: Metrics;
}

/// The numbers of all controllers of a manager.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<BTreeMap<String, Controller>>>);

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
        self.0.lock().insert(name.to_owned(), controller);
    }

    /// Closes all queues.
    pub(crate) fn close(&self) {
        self.0.lock().values().for_each(|controller| (controller.close)());
    }

    /// What each controller is doing at this moment.
    pub fn snapshots(&self) -> BTreeMap<String, Snapshot> {
        let controllers = self.0.lock();
        let found =
            controllers.iter().map(|(name, controller)| (name.clone(), (controller.look)().unwrap_or_default()));
        found.collect()
    }

    /// All numbers, as Prometheus reads them.
    pub fn text(&self) -> String {
        let snapshots = self.snapshots();
        let controllers = self.0.lock();
        let mut text = Text(String::new());
        write_reconciles(&mut text, &controllers);
        write_queues(&mut text, &controllers, &snapshots);
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
    let metric = "controller_runtime_reconcile_time_seconds";
    text.head(metric, "histogram", "Length of time per reconciliation per controller");
    for (name, stats) in stats() {
        stats.time.write(text, metric, &format!("controller=\"{name}\""));
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

/// The text of all metrics.
struct Text(String);

impl Text {
    fn head(&mut self, metric: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
    }

    fn line(&mut self, metric: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{metric}{{{labels}}} {value}");
    }
}

#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn subtract(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn set(&self, value: usize) {
        self.0.store(value as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often something took how long.
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds.
    counts: Vec<Count>,
    nanos: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        let counts = std::iter::repeat_with(Count::default).take(bounds.len() + 1).collect();
        Histogram { bounds, counts, nanos: AtomicU64::new(0) }
    }

    pub fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.counts[self.bounds.partition_point(|bound| *bound < seconds)].add();
        self.nanos.fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn write(&self, text: &mut Text, metric: &str, labels: &str) {
        let mut sum = 0;
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.counts) {
            sum += count.get();
            text.line(&format!("{metric}_bucket"), &format!("{labels},le=\"{bound}\""), sum);
        }
        let seconds = Duration::from_nanos(self.nanos.load(Ordering::Relaxed)).as_secs_f64();
        text.line(&format!("{metric}_sum"), labels, seconds);
        text.line(&format!("{metric}_count"), labels, sum);
    }
}

/// What a queue did.
pub(crate) struct QueueStats {
    adds: Count,
    retries: Count,
    waits: Histogram,
    works: Histogram,
}

impl Default for QueueStats {
    fn default() -> Self {
        let (waits, works) = (Histogram::new(QUEUE_BUCKETS), Histogram::new(QUEUE_BUCKETS));
        QueueStats { adds: Count::default(), retries: Count::default(), waits, works }
    }
}

impl QueueStats {
    pub fn added(&self) {
        self.adds.add();
    }

    pub fn retried(&self) {
        self.retries.add();
    }

    pub fn taken(&self, waited: Duration) {
        self.waits.observe(waited);
    }

    pub fn worked(&self, took: Duration) {
        self.works.observe(took);
    }
}

/// What became of reconciles.
pub(crate) struct ReconcileStats {
    pub successes: Count,
    pub errors: Count,
    pub terminal_errors: Count,
    pub requeued: Count,
    pub requeued_after: Count,
    pub panics: Count,
    pub timeouts: Count,
    pub active: Count,
    pub workers_max: Count,
    pub time: Histogram,
}

impl Default for ReconcileStats {
    fn default() -> Self {
        ReconcileStats {
            successes: Count::default(),
            errors: Count::default(),
            terminal_errors: Count::default(),
            requeued: Count::default(),
            requeued_after: Count::default(),
            panics: Count::default(),
            timeouts: Count::default(),
            active: Count::default(),
            workers_max: Count::default(),
            time: Histogram::new(RECONCILE_BUCKETS),
        }
    }
}
