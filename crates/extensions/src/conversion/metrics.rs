//! Counts and times of conversions in Prometheus' text form, under upstream's names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use parking_lot::Mutex;
use rkube_kinds::custom::review::FailureType;

const CONVERSIONS: &str = "apiserver_crd_conversion_webhook_duration_seconds";
const REQUESTS: &str = "apiserver_conversion_webhook_request_total";
const REQUEST_TIMES: &str = "apiserver_conversion_webhook_duration_seconds";

/// Upper bounds in seconds.
const CONVERSION_BOUNDS: [f64; 15] =
    [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];
const REQUEST_BOUNDS: [f64; 15] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// So many pairs of versions are told apart; what comes later is not counted by pair.
const SERIES_MAX: usize = 10_000;

#[derive(Default)]
pub struct Metrics {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By definition, versions and success, as labels.
    conversions: BTreeMap<String, Histogram>,
    /// By result and type of failure, as labels.
    requests: BTreeMap<String, Histogram>,
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; 15],
    count: u64,
    seconds: f64,
}

impl Metrics {
    /// One conversion from a version to another.
    pub(super) fn observe(
        &self,
        definition: &str,
        (from, to): (&str, &str),
        failure: Option<FailureType>,
        elapsed: Duration,
    ) {
        let succeeded = failure.is_none();
        let labels =
            format!("crd_name=\"{definition}\",from_version=\"{from}\",succeeded=\"{succeeded}\",to_version=\"{to}\"");
        let mut state = self.state.lock();
        if state.conversions.len() < SERIES_MAX || state.conversions.contains_key(&labels) {
            state.conversions.entry(labels).or_default().add(elapsed, &CONVERSION_BOUNDS);
        }
        if failure != Some(FailureType::None) {
            let (kind, result) = (failure.map_or("", failure_name), if succeeded { "success" } else { "failure" });
            let labels = format!("failure_type=\"{kind}\",result=\"{result}\"");
            state.requests.entry(labels).or_default().add(elapsed, &REQUEST_BOUNDS);
        }
    }

    /// Appends what was counted. A name of which nothing was counted does not appear.
    pub fn render(&self, out: &mut String) {
        let state = self.state.lock();
        let help = "CRD webhook conversion duration in seconds";
        render_histograms(out, CONVERSIONS, help, &CONVERSION_BOUNDS, &state.conversions);
        if !state.requests.is_empty() {
            let help = "Counter for conversion webhook requests with success/failure and failure error type";
            head(out, REQUESTS, "counter", help);
            for (labels, histogram) in &state.requests {
                let _ = writeln!(out, "{REQUESTS}{{{labels}}} {}", histogram.count);
            }
        }
        let help = "Conversion webhook request latency";
        render_histograms(out, REQUEST_TIMES, help, &REQUEST_BOUNDS, &state.requests);
    }
}

impl Histogram {
    fn add(&mut self, elapsed: Duration, bounds: &[f64; 15]) {
        let seconds = elapsed.as_secs_f64();
        self.count += 1;
        self.seconds += seconds;
        if let Some(bucket) = bounds.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
    }
}

fn failure_name(failure: FailureType) -> &'static str {
    match failure {
        FailureType::None => "",
        FailureType::Call => "conversion_webhook_call_failure",
        FailureType::MalformedResponse => "conversion_webhook_malformed_response_failure",
        FailureType::PartialResponse => "conversion_webhook_partial_response_failure",
        FailureType::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
    }
}

fn render_histograms(
    out: &mut String,
    name: &str,
    help: &str,
    bounds: &[f64; 15],
    histograms: &BTreeMap<String, Histogram>,
) {
    if histograms.is_empty() {
        return;
    }
    head(out, name, "histogram", help);
    for (labels, histogram) in histograms {
        let mut total = 0;
        for (bound, count) in bounds.iter().zip(histogram.buckets) {
            total += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", histogram.count);
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", histogram.seconds);
        let _ = writeln!(out, "{name}_count{{{labels}}} {}", histogram.count);
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} [ALPHA] {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_counted() {
        let metrics = Metrics::default();
        let mut out = String::new();
        metrics.render(&mut out);
        assert_eq!(out, "");
        let name = "apps.example.com";
        metrics.observe(name, ("v1", "v2"), None, Duration::from_millis(3));
        metrics.observe(name, ("v1", "v2"), None, Duration::from_secs(20));
        metrics.observe(name, ("v1", "v2"), Some(FailureType::Call), Duration::from_secs(30));
        metrics.observe(name, ("v1", "v2"), Some(FailureType::None), Duration::ZERO);
        metrics.render(&mut out);
        let labels = "crd_name=\"apps.example.com\",from_version=\"v1\",succeeded=\"true\",to_version=\"v2\"";
        for line in [
            "# TYPE apiserver_crd_conversion_webhook_duration_seconds histogram".to_owned(),
            format!("{CONVERSIONS}_bucket{{{labels},le=\"0.002\"}} 0"),
            format!("{CONVERSIONS}_bucket{{{labels},le=\"0.004\"}} 1"),
            format!("{CONVERSIONS}_bucket{{{labels},le=\"16.384\"}} 1"),
            format!("{CONVERSIONS}_bucket{{{labels},le=\"+Inf\"}} 2"),
            format!("{CONVERSIONS}_sum{{{labels}}} 20.003"),
            format!("{REQUESTS}{{failure_type=\"\",result=\"success\"}} 2"),
            format!("{REQUESTS}{{failure_type=\"conversion_webhook_call_failure\",result=\"failure\"}} 1"),
            format!("{REQUEST_TIMES}_count{{failure_type=\"\",result=\"success\"}} 2"),
        ] {
            assert!(out.lines().any(|written| written == line), "{line}\n{out}");
        }
    }
}
