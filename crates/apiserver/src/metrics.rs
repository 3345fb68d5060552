//! `/metrics`: counts and times of requests in Prometheus' text form, under upstream's names where it has them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::RwLock;
use rkube_catalog::Catalog;
use rkube_machinery::Text;
use rkube_store::Store;

/// Upper bounds of the duration histogram, in microseconds.
const BOUNDS: [u64; 10] = [500, 1_000, 5_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000, 30_000_000];

#[derive(Default)]
pub struct Metrics {
    requests: RwLock<HashMap<Key, Arc<Series>, foldhash::fast::RandomState>>,
    long_running: RwLock<HashMap<Text, Arc<AtomicI64>>>,
    mutating: AtomicI64,
    reading: AtomicI64,
    /// Of webhooks that convert custom resources.
    pub conversion: Arc<rkube_extensions::conversion::Metrics>,
    /// Of webhooks that admit requests.
    pub admission: Arc<rkube_admission::webhooks::Metrics>,
}

/// Which requests a series counts. Bounded: only served resources and known verbs make keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub verb: &'static str,
    pub group: Text,
    pub version: Text,
    pub resource: Text,
    pub subresource: &'static str,
    pub scope: &'static str,
    pub code: u16,
}

#[derive(Default)]
struct Series {
    count: AtomicU64,
    micros: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len()],
}

/// Counts a long-running request for as long as it lives.
pub struct Running(Arc<AtomicI64>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request as under way for as long as it lives.
pub struct InFlight<'a>(&'a AtomicI64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub fn observe(&self, key: Key, micros: u64) {
        let found = self.requests.read().get(&key).cloned();
        let series = found.unwrap_or_else(|| self.requests.write().entry(key).or_default().clone());
        series.count.fetch_add(1, Ordering::Relaxed);
        series.micros.fetch_add(micros, Ordering::Relaxed);
        if let Some(bucket) = BOUNDS.iter().position(|bound| micros <= *bound) {
            series.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn long_running(&self, resource: &Text) -> Running {
        let counter = self.long_running.write().entry(resource.clone()).or_default().clone();
        counter.fetch_add(1, Ordering::Relaxed);
        Running(counter)
    }

    pub fn in_flight(&self, mutating: bool) -> InFlight<'_> {
        let counter = if mutating { &self.mutating } else { &self.reading };
        counter.fetch_add(1, Ordering::Relaxed);
        InFlight(counter)
    }

    /// All metrics as text.
    pub fn render(&self, catalog: &Catalog, store: &dyn Store) -> String {
        let mut out = String::with_capacity(8 * 1024);
        self.render_requests(&mut out);
        head(&mut out, "apiserver_current_inflight_requests", "gauge", "Requests that are being answered, by kind.");
        for (kind, counter) in [("mutating", &self.mutating), ("readOnly", &self.reading)] {
            let count = counter.load(Ordering::Relaxed);
            line(&mut out, "apiserver_current_inflight_requests", &format!("request_kind=\"{kind}\""), count);
        }
        head(&mut out, "apiserver_longrunning_requests", "gauge", "Watches that are open, by resource.");
        for (resource, counter) in self.long_running.read().iter() {
            let labels = format!("resource=\"{resource}\",verb=\"WATCH\"");
            line(&mut out, "apiserver_longrunning_requests", &labels, counter.load(Ordering::Relaxed));
        }
        head(&mut out, "apiserver_storage_objects", "gauge", "Objects in the store, by resource.");
        for cache in catalog.cache().resources().iter() {
            let labels = format!("resource=\"{}\"", cache.kind.resource);
            line(&mut out, "apiserver_storage_objects", &labels, cache.count() as i64);
        }
        if let Some(bytes) = store.size_on_disk() {
            head(&mut out, "apiserver_storage_size_bytes", "gauge", "Bytes that the store takes on disk.");
            line(&mut out, "apiserver_storage_size_bytes", "storage_cluster_id=\"embedded\"", bytes as i64);
        }
        self.conversion.render(&mut out);
        self.admission.render(&mut out);
        out
    }

    fn render_requests(&self, out: &mut String) {
        let requests = self.requests.read();
        head(out, "apiserver_request_total", "counter", "Requests answered, by verb, resource and code.");
        for (key, series) in requests.iter() {
            let labels = format!("code=\"{}\",{}", key.code, key.labels());
            line(out, "apiserver_request_total", &labels, series.count.load(Ordering::Relaxed) as i64);
        }
        head(out, "apiserver_request_duration_seconds", "histogram", "Time to answer, by verb and resource.");
        for (key, series) in requests.iter() {
            let labels = format!("code=\"{}\",{}", key.code, key.labels());
            let mut total = 0;
            for (bound, bucket) in BOUNDS.iter().zip(&series.buckets) {
                total += bucket.load(Ordering::Relaxed);
                let labels = format!("{labels},le=\"{}\"", *bound as f64 / 1e6);
                line(out, "apiserver_request_duration_seconds_bucket", &labels, total as i64);
            }
            let count = series.count.load(Ordering::Relaxed) as i64;
            line(out, "apiserver_request_duration_seconds_bucket", &format!("{labels},le=\"+Inf\""), count);
            let seconds = series.micros.load(Ordering::Relaxed) as f64 / 1e6;
            let _ = writeln!(out, "apiserver_request_duration_seconds_sum{{{labels}}} {seconds}");
            line(out, "apiserver_request_duration_seconds_count", &labels, count);
        }
    }
}

impl Key {
    fn labels(&self) -> String {
        format!(
            "component=\"apiserver\",dry_run=\"\",group=\"{}\",resource=\"{}\",scope=\"{}\",subresource=\"{}\",verb=\"{}\",version=\"{}\"",
            self.group, self.resource, self.scope, self.subresource, self.verb, self.version
        )
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: i64) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}
