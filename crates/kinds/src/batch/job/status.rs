//! What a job's status may say, and what it may not take back.
//!
//! Whoever manages a job writes its status. A rule is asked only where something that it is about changes, so that a
//! status which broke it before can still be written.

use rkube_machinery::field::{BadValue, ErrorType, Errors, Path};
use rkube_machinery::{Value, time};

use super::{indexes, spec};
use crate::core::pod_spec::checks::Seen;
use crate::core::pod_spec::go_form::{self, go_json};

const STATUS: Path<'static> = Path::new("status");
const COUNTS: [&str; 5] = ["active", "succeeded", "failed", "ready", "terminating"];

pub(super) fn validate(job: &Value, old: &Value, errors: &mut Errors) {
    let change = StatusChange {
        spec: job.get("spec"),
        status: job.get("status"),
        old: old.get("status"),
        now: Ends::of(job.get("status")),
        before: Ends::of(old.get("status")),
    };
    for field in COUNTS {
        spec::not_negative(STATUS, change.status, field, errors);
    }
    validate_uncounted(change.status.get("uncountedTerminatedPods"), errors);
    change.validate_ends(errors);
    change.validate_finished(errors);
    change.validate_indexes(errors);
    change.validate_counts(errors);
    change.validate_success(errors);
    change.validate_counters_grow(errors);
    change.validate_moments_stay(errors);
}

/// Whether the status has this condition.
pub(super) fn is_true(status: &Value, kind: &str) -> bool {
    has_condition(status, kind, "True")
}

fn has_condition(status: &Value, kind: &str, state: &str) -> bool {
    status.list("conditions").iter().any(|condition| condition.str("type") == kind && condition.str("status") == state)
}

fn wrong_conditions(words: &str, errors: &mut Errors) {
    errors.push(ErrorType::Invalid, STATUS.child("conditions"), None, words);
}

/// Uids, each once in both lists.
fn validate_uncounted(uncounted: &Value, errors: &mut Errors) {
    let path = STATUS.child("uncountedTerminatedPods");
    let mut seen = Seen::new();
    for field in ["succeeded", "failed"] {
        let path = path.child(field);
        for (index, uid) in uncounted.list(field).iter().enumerate() {
            match uid.as_str() {
                "" => errors.invalid(path.index(index), "", "must not be empty"),
                uid if !seen.add(uid) => errors.duplicate(path.index(index), uid),
                _ => {}
            }
        }
    }
}

/// The conditions that say how a job ends.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ends {
    complete: bool,
    failed: bool,
    failing: bool,
    succeeding: bool,
}

impl Ends {
    fn of(status: &Value) -> Self {
        Ends {
            complete: is_true(status, "Complete"),
            failed: is_true(status, "Failed"),
            failing: is_true(status, "FailureTarget"),
            succeeding: is_true(status, "SuccessCriteriaMet"),
        }
    }

    fn finished(self) -> bool {
        self.complete || self.failed
    }
}

/// A write of a status: the new one and the old.
struct StatusChange<'a> {
    spec: &'a Value,
    status: &'a Value,
    old: &'a Value,
    now: Ends,
    before: Ends,
}

impl StatusChange<'_> {
    fn differs(&self, field: &str) -> bool {
        self.status.get(field) != self.old.get(field)
    }

    fn counts_differ(&self, field: &str) -> bool {
        self.status.int(field) != self.old.int(field)
    }

    fn validate_ends(&self, errors: &mut Errors) {
        let (now, before) = (self.now, self.before);
        let complete_changed = now.complete != before.complete;
        let failed_changed = now.failed != before.failed;
        if now.complete && now.failed && (complete_changed || failed_changed) {
            wrong_conditions("cannot set Complete=True and Failed=true conditions", errors);
        }
        if now.complete && now.failing && (complete_changed || now.failing != before.failing) {
            wrong_conditions("cannot set Complete=True and FailureTarget=true conditions", errors);
        }
        let end = self.status.get("completionTime");
        let path = STATUS.child("completionTime");
        if complete_changed || self.differs("completionTime") {
            if !end.is_null() && !now.complete {
                let words = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(path, end, words);
            }
            if end.is_null() && now.complete {
                errors.required(path, "completionTime is required for Complete jobs");
            }
        }
        if (self.differs("startTime") || self.differs("completionTime")) && self.ends_before_start() {
            errors.invalid(path, end, "must be equal to or after `startTime`");
        }
        if now.failed && !now.failing && (failed_changed || self.differs("failedIndexes")) {
            wrong_conditions("cannot set Failed=True condition without the FailureTarget=true condition", errors);
        }
        let succeeding_changed = now.succeeding != before.succeeding;
        if now.complete && !now.succeeding && (complete_changed || succeeding_changed) {
            let words = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            wrong_conditions(words, errors);
        }
    }

    fn ends_before_start(&self) -> bool {
        let moment = |field: &str| time::parse(self.status.str(field)).ok();
        matches!((moment("startTime"), moment("completionTime")), (Some(start), Some(end)) if end < start)
    }

    fn validate_finished(&self, errors: &mut Errors) {
        if !self.now.finished() {
            return;
        }
        let changed = !self.before.finished();
        let active = self.status.int("active");
        if active > 0 && (changed || self.counts_differ("active")) {
            errors.invalid(STATUS.child("active"), active, "active>0 is invalid for finished job");
        }
        let never_began = self.spec.bool("suspend") && self.spec.get("completions").as_int() == Some(0);
        if !self.status.has("startTime") && (changed || self.differs("startTime")) && !never_began {
            errors.required(STATUS.child("startTime"), "startTime is required for finished job");
        }
        let uncounted = self.status.get("uncountedTerminatedPods");
        let some = !uncounted.list("failed").is_empty() || !uncounted.list("succeeded").is_empty();
        if some && (changed || !self.same_uncounted()) {
            let shown = BadValue::Text(go_json("UncountedTerminatedPods", uncounted));
            errors.invalid(STATUS.child("uncountedTerminatedPods"), shown, "must be empty for finished job");
        }
    }

    fn same_uncounted(&self) -> bool {
        let (now, before) = (self.status.get("uncountedTerminatedPods"), self.old.get("uncountedTerminatedPods"));
        now.is_null() == before.is_null() && go_form::same("UncountedTerminatedPods", now, before)
    }

    fn validate_indexes(&self, errors: &mut Errors) {
        let completions = self.spec.get("completions").as_int();
        let (completed, failed) = (self.status.str("completedIndexes"), self.status.get("failedIndexes"));
        let completed_changed = completed != self.old.str("completedIndexes");
        let failed_changed = self.differs("failedIndexes");
        let per_index = self.spec.has("backoffLimitPerIndex");
        let (completed_path, failed_path) = (STATUS.child("completedIndexes"), STATUS.child("failedIndexes"));
        if let Some(completions) = completions {
            if completed_changed && let Err(error) = indexes::count(completed, completions) {
                errors.invalid(completed_path, completed, format!("error parsing completedIndexes: {error}"));
            }
            if failed_changed
                && per_index
                && let Err(error) = indexes::count(failed.as_str(), completions)
            {
                errors.invalid(failed_path, failed, format!("error parsing failedIndexes: {error}"));
            }
        }
        if completed_changed && !completed.is_empty() && self.spec.str("completionMode") != spec::INDEXED {
            let words = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid(completed_path, completed, words);
        }
        if failed_changed && !failed.is_null() && !per_index {
            let words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid(failed_path, failed, words);
        }
        if (completed_changed || failed_changed)
            && let Some(completions) = completions
            && let Some(index) = indexes::overlap(completed, failed.as_str(), completions)
        {
            errors.invalid(
                failed_path,
                failed,
                format!("failedIndexes and completedIndexes overlap at index: {index}"),
            );
        }
    }

    fn validate_counts(&self, errors: &mut Errors) {
        let finished_changed = self.now.finished() != self.before.finished();
        let terminating = self.status.int("terminating");
        if terminating > 0 && self.now.finished() && (finished_changed || self.differs("terminating")) {
            errors.invalid(STATUS.child("terminating"), terminating, "terminating>0 is invalid for finished job");
        }
        let ready = self.status.get("ready").as_int();
        if let Some(ready) = ready.filter(|ready| *ready > self.status.int("active"))
            && (self.differs("ready") || self.counts_differ("active"))
        {
            errors.invalid(STATUS.child("ready"), ready, "cannot set more ready pods than active");
        }
    }

    fn validate_success(&self, errors: &mut Errors) {
        let (now, before) = (self.now, self.before);
        if now.succeeding && now.failed {
            wrong_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
        }
        if now.succeeding && now.failing {
            wrong_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
        }
        if self.spec.has("successPolicy") && !now.succeeding && now.complete {
            let words = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            wrong_conditions(words, errors);
        }
        let terminal = [
            ("Failed", before.failed && !now.failed),
            ("Complete", before.complete && !now.complete),
            ("FailureTarget", before.failing && !now.failing),
        ];
        for (kind, _) in terminal.into_iter().filter(|(_, taken_back)| *taken_back) {
            wrong_conditions(&format!("cannot disable the terminal {kind}=True condition"), errors);
        }
    }

    fn validate_counters_grow(&self, errors: &mut Errors) {
        let failed = self.status.int("failed");
        if failed < self.old.int("failed") {
            errors.invalid(STATUS.child("failed"), failed, "cannot decrease the failed counter");
        }
        // An indexed job that is scaled down may lose some that had succeeded.
        let scalable = self.spec.str("completionMode") == spec::INDEXED
            && self.spec.get("completions") == self.spec.get("parallelism");
        let succeeded = self.status.int("succeeded");
        if !scalable && succeeded < self.old.int("succeeded") {
            errors.invalid(STATUS.child("succeeded"), succeeded, "cannot decrease the succeeded counter");
        }
    }

    fn validate_moments_stay(&self, errors: &mut Errors) {
        let end = self.status.get("completionTime");
        if !end.is_null() && self.old.has("completionTime") && self.differs("completionTime") {
            errors.invalid(STATUS.child("completionTime"), end, "field is immutable");
        }
        let resuming = is_true(self.old, "Suspended") && has_condition(self.status, "Suspended", "False");
        if self.old.has("startTime") && self.differs("startTime") && !self.spec.bool("suspend") && !resuming {
            let words = "field is immutable for unsuspended job once set";
            errors.invalid(STATUS.child("startTime"), self.status.get("startTime"), words);
        }
        if self.before.succeeding && !self.now.succeeding {
            wrong_conditions("cannot disable the SuccessCriteriaMet=True condition", errors);
        }
        if self.before.complete && !self.before.succeeding && self.now.succeeding {
            let words = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            wrong_conditions(words, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn check(spec: Value, status: Value, old: Value) -> Vec<String> {
        let mut errors = Errors::new();
        let (job, old) = (object! { "spec": spec, "status": status }, object! { "status": old });
        validate(&job, &old, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    fn conditions(kinds: &[&str]) -> Value {
        let all: Vec<Value> = kinds.iter().map(|kind| object! { "type": *kind, "status": "True" }).collect();
        all.into()
    }

    #[test]
    fn a_right_end_passes() {
        let status = object! {
            "conditions": conditions(&["SuccessCriteriaMet", "Complete"]), "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:00:05Z", "succeeded": 1,
        };
        assert_eq!(check(Value::object(), status, Value::object()), Vec::<String>::new());
    }

    #[test]
    fn wrong_ends() {
        let status = object! { "conditions": conditions(&["Complete", "Failed"]), "active": 1 };
        assert_eq!(
            check(Value::object(), status, Value::object()),
            [
                "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true \
                 condition",
                "status.conditions: Invalid value: cannot set Complete=True condition without the \
                 SuccessCriteriaMet=true condition",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.startTime: Required value: startTime is required for finished job",
            ]
        );
    }

    #[test]
    fn nothing_is_taken_back() {
        let old = object! {
            "conditions": conditions(&["FailureTarget"]), "failed": 3, "startTime": "2026-01-01T00:00:00Z",
        };
        let status = object! { "failed": 1, "completedIndexes": "0", "failedIndexes": "0" };
        let spec = object! { "completions": 2 };
        assert_eq!(
            check(spec, status, old),
            [
                "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when \
                 non-indexed completion mode",
                "status.failedIndexes: Invalid value: \"0\": cannot set non-null failedIndexes when \
                 backoffLimitPerIndex is null",
                "status.failedIndexes: Invalid value: \"0\": failedIndexes and completedIndexes overlap at index: 0",
                "status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition",
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
                "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            ]
        );
    }
}
