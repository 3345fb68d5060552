//! Counts and times of webhooks in Prometheus' text form, under upstream's names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use parking_lot::Mutex;

use crate::Operation;

const DURATIONS: &str = "apiserver_admission_webhook_admission_duration_seconds";
const REQUESTS: &str = "apiserver_admission_webhook_request_total";
const REJECTIONS: &str = "apiserver_admission_webhook_rejection_count";
const FAIL_OPEN: &str = "apiserver_admission_webhook_fail_open_count";
const CONDITION_ERRORS: &str = "apiserver_admission_match_condition_evaluation_errors_total";
const CONDITION_EXCLUSIONS: &str = "apiserver_admission_match_condition_exclusions_total";

/// Upper bounds in seconds.
const BOUNDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// So many series there are of a name; what comes later is not counted.
const SERIES_MAX: usize = 10_000;
/// Greater codes count as this one, so that no webhook makes more series.
const CODE_MAX: u16 = 600;

/// The phase in which a webhook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Admit,
    Validate,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Admit => "admit",
            Step::Validate => "validating",
        }
    }
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Calling,
    Internal,
    ByWebhook,
}

#[derive(Default)]
pub struct Metrics {
    state: Mutex<State>,
}

/// Every series by its labels.
#[derive(Default)]
struct State {
    durations: BTreeMap<String, Histogram>,
    requests: BTreeMap<String, u64>,
    rejections: BTreeMap<String, u64>,
    fail_open: BTreeMap<String, u64>,
    condition_errors: BTreeMap<String, u64>,
    condition_exclusions: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    /// A webhook was called. `code`: of what it answered, or what was said in its place.
    pub(super) fn called(
        &self,
        hook: &str,
        step: Step,
        operation: Operation,
        (code, rejected): (u16, bool),
        elapsed: Duration,
    ) {
        let (code, step, operation) = (code.min(CODE_MAX), step.name(), operation.name());
        let labels = format!(
            "code=\"{code}\",name=\"{hook}\",operation=\"{operation}\",rejected=\"{rejected}\",type=\"{step}\""
        );
        let mut state = self.state.lock();
        add(&mut state.requests, labels);
        let labels = format!("name=\"{hook}\",operation=\"{operation}\",rejected=\"{rejected}\",type=\"{step}\"");
        if let Some(histogram) = series(&mut state.durations, labels) {
            let seconds = elapsed.as_secs_f64();
            histogram.count += 1;
            histogram.seconds += seconds;
            if let Some(bucket) = BOUNDS.iter().position(|bound| seconds <= *bound) {
                histogram.buckets[bucket] += 1;
            }
        }
    }

    pub(super) fn rejected(&self, hook: &str, step: Step, operation: Operation, refused: Refused, code: u16) {
        let (code, step, operation) = (code.min(CODE_MAX), step.name(), operation.name());
        let error = match refused {
            Refused::Calling => "calling_webhook_error",
            Refused::Internal => "apiserver_internal_error",
            Refused::ByWebhook => "no_error",
        };
        let labels = format!(
            "error_type=\"{error}\",name=\"{hook}\",operation=\"{operation}\",rejection_code=\"{code}\",type=\"{step}\""
        );
        add(&mut self.state.lock().rejections, labels);
    }

    pub(super) fn failed_open(&self, hook: &str, step: Step) {
        let labels = format!("name=\"{hook}\",type=\"{}\"", step.name());
        add(&mut self.state.lock().fail_open, labels);
    }

    /// A webhook's conditions could not be evaluated.
    pub(super) fn condition_failed(&self, hook: &str, step: Step, operation: Operation) {
        let (step, operation) = (step.name(), operation.name());
        let labels = format!("kind=\"webhook\",name=\"{hook}\",operation=\"{operation}\",type=\"{step}\"");
        add(&mut self.state.lock().condition_errors, labels);
    }

    /// A webhook is not asked because of its conditions.
    pub(super) fn condition_excluded(&self, hook: &str, step: Step, operation: Operation) {
        // Here the second phase has another name, as with upstream.
        let step = if step == Step::Admit { "admit" } else { "validate" };
        let operation = operation.name();
        let labels = format!("kind=\"webhook\",name=\"{hook}\",operation=\"{operation}\",type=\"{step}\"");
        add(&mut self.state.lock().condition_exclusions, labels);
    }

    /// Appends what was counted. A name of which nothing was counted does not appear.
    pub fn render(&self, out: &mut String) {
        let state = self.state.lock();
        render_histograms(out, &state.durations);
        let counters = [
            (
                REQUESTS,
                "Admission webhook request total, by name, type, operation, code and rejection.",
                &state.requests,
            ),
            (
                REJECTIONS,
                "Admission webhook rejection count, by name, type, operation, error and code.",
                &state.rejections,
            ),
            (FAIL_OPEN, "Admission webhook fail open count, by name and type.", &state.fail_open),
            (
                CONDITION_ERRORS,
                "Admission match condition evaluation errors count, by name, kind, operation and type.",
                &state.condition_errors,
            ),
            (
                CONDITION_EXCLUSIONS,
                "Admission match condition evaluation exclusions count, by name, kind, operation and type.",
                &state.condition_exclusions,
            ),
        ];
        for (name, help, series) in counters {
            if series.is_empty() {
                continue;
            }
            let _ = writeln!(out, "# HELP {name} [ALPHA] {help}\n# TYPE {name} counter");
            for (labels, count) in series {
                let _ = writeln!(out, "{name}{{{labels}}} {count}");
            }
        }
    }
}

fn add(counters: &mut BTreeMap<String, u64>, labels: String) {
    if let Some(count) = series(counters, labels) {
        *count += 1;
    }
}

fn series<T: Default>(all: &mut BTreeMap<String, T>, labels: String) -> Option<&mut T> {
    if all.len() >= SERIES_MAX && !all.contains_key(&labels) {
        return None;
    }
    Some(all.entry(labels).or_default())
}

fn render_histograms(out: &mut String, histograms: &BTreeMap<String, Histogram>) {
    if histograms.is_empty() {
        return;
    }
    let help = "Admission webhook latency in seconds, by name, type, operation and rejection.";
    let _ = writeln!(out, "# HELP {DURATIONS} [STABLE] {help}\n# TYPE {DURATIONS} histogram");
    for (labels, histogram) in histograms {
        let mut total = 0;
        for (bound, count) in BOUNDS.iter().zip(histogram.buckets) {
            total += count;
            let _ = writeln!(out, "{DURATIONS}_bucket{{{labels},le=\"{bound}\"}} {total}");
        }
        let _ = writeln!(out, "{DURATIONS}_bucket{{{labels},le=\"+Inf\"}} {}", histogram.count);
        let _ = writeln!(out, "{DURATIONS}_sum{{{labels}}} {}", histogram.seconds);
        let _ = writeln!(out, "{DURATIONS}_count{{{labels}}} {}", histogram.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted() {
        let metrics = Metrics::default();
        let mut out = String::new();
        metrics.render(&mut out);
        assert_eq!(out, "");
        metrics.called("a.b.c", Step::Admit, Operation::Create, (200, false), Duration::from_millis(30));
        metrics.called("a.b.c", Step::Validate, Operation::Delete, (999, true), Duration::from_secs(30));
        metrics.rejected("a.b.c", Step::Validate, Operation::Delete, Refused::ByWebhook, 999);
        metrics.failed_open("a.b.c", Step::Admit);
        metrics.condition_failed("a.b.c", Step::Validate, Operation::Update);
        metrics.condition_excluded("a.b.c", Step::Validate, Operation::Update);
        metrics.render(&mut out);
        for line in [
            r#"apiserver_admission_webhook_admission_duration_seconds_bucket{name="a.b.c",operation="CREATE",rejected="false",type="admit",le="0.025"} 0"#,
            r#"apiserver_admission_webhook_admission_duration_seconds_bucket{name="a.b.c",operation="CREATE",rejected="false",type="admit",le="0.1"} 1"#,
            r#"apiserver_admission_webhook_admission_duration_seconds_count{name="a.b.c",operation="DELETE",rejected="true",type="validating"} 1"#,
            r#"apiserver_admission_webhook_request_total{code="600",name="a.b.c",operation="DELETE",rejected="true",type="validating"} 1"#,
            r#"apiserver_admission_webhook_rejection_count{error_type="no_error",name="a.b.c",operation="DELETE",rejection_code="600",type="validating"} 1"#,
            r#"apiserver_admission_webhook_fail_open_count{name="a.b.c",type="admit"} 1"#,
            r#"apiserver_admission_match_condition_evaluation_errors_total{kind="webhook",name="a.b.c",operation="UPDATE",type="validating"} 1"#,
            r#"apiserver_admission_match_condition_exclusions_total{kind="webhook",name="a.b.c",operation="UPDATE",type="validate"} 1"#,
        ] {
            assert!(out.lines().any(|written| written == line), "{line}\n{out}");
        }
    }
}
