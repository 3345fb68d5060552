//! What is counted: in queues, and of reconciles.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::busy::Busy;

/// In seconds, as controller-runtime has them.
const RECONCILE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
const QUEUE_BUCKETS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// The text of all metrics.
pub(crate) struct Text(pub String);

impl Text {
    pub fn head(&mut self, metric: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {metric} {help}\n# TYPE {metric} {kind}");
    }

    pub fn line(&mut self, metric: &str, labels: &str, value: impl std::fmt::Display) {
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

    pub fn get(&self) -> u64 {
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

    pub fn write(&self, text: &mut Text, metric: &str, labels: &str) {
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
    pub adds: Count,
    pub retries: Count,
    pub waits: Histogram,
    pub works: Histogram,
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

/// What became of an election.
#[derive(Default)]
pub(crate) struct ElectionStats {
    /// 1 while this process leads.
    pub leads: Count,
    /// How often the lease was ours, and had to be looked at before it could be renewed.
    pub slow_paths: Count,
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
    /// Of that, what was not spent waiting.
    pub busy: Busy,
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
            busy: Busy::default(),
        }
    }
}
