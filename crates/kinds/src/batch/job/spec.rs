//! What the specs of jobs and the templates of cron jobs have in common: defaults, checks and warnings.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::names;

use super::policies;
use crate::core::pod_spec::go_form::go_json;
use crate::core::pod_spec::{self, PodOptions};

/// An indexed job keeps lists of indexes in its status, whose length these bounds keep small.
const PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
/// Above so many completions, what works at once or fails is bounded further.
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_MAX_OF_MANY: i64 = 10_000;
const FAILED_INDEXES_MAX_OF_MANY: i64 = 10_000;
const MANAGED_BY_MAX_BYTES: usize = 63;

pub(crate) const INDEXED: &str = "Indexed";
pub(crate) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Fills in a job.
pub(super) fn default_job(job: &mut Value) {
    default_labels(job);
    let spec = job.object_mut("spec");
    if !spec.has("parallelism") {
        if !spec.has("completions") {
            spec.set("completions", 1);
        }
        spec.set("parallelism", 1);
    }
    let retries = if spec.has("backoffLimitPerIndex") { i32::MAX } else { 6 };
    spec.set_if_absent("backoffLimit", retries);
    spec.set_if_absent("completionMode", "NonIndexed");
    spec.set_if_absent("suspend", false);
    let replacement = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.set_if_absent("podReplacementPolicy", replacement);
    spec.set_if_absent("manualSelector", false);
    default_inner(spec);
}

/// A job without labels has those of its pods.
pub(super) fn default_labels(job: &mut Value) {
    let labels = job.at(&["spec", "template", "metadata", "labels"]);
    if !labels.as_map().is_empty() && job.get("metadata").map("labels").is_empty() {
        let labels = labels.clone();
        job.object_mut("metadata").set("labels", labels);
    }
}

/// Fills in what lies below a job spec: all that the templates of cron jobs get.
pub(crate) fn default_inner(spec: &mut Value) {
    if let Some(policy) = spec.find_mut("podFailurePolicy") {
        for rule in policy.list_mut("rules") {
            for pattern in rule.list_mut("onPodConditions") {
                pattern.set_default("status", "True");
            }
        }
    }
    pod_spec::default_pod_spec(spec.object_mut("template").object_mut("spec"));
}

/// Checks a job spec but for its selector.
pub(crate) fn validate(path: Path<'_>, spec: &Value, options: &PodOptions, errors: &mut Errors) {
    let counts = ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"];
    for field in counts.into_iter().chain(["backoffLimitPerIndex", "maxFailedIndexes"]) {
        not_negative(path, spec, field, errors);
    }
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        errors.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if spec.has("managedBy") {
        let manager = spec.str("managedBy");
        names::domain_prefixed_path(path.child("managedBy"), manager, errors);
        if manager.len() > MANAGED_BY_MAX_BYTES {
            errors.too_long(path.child("managedBy"), MANAGED_BY_MAX_BYTES);
        }
    }
    validate_mode(path, spec, errors);
    if spec.has("podFailurePolicy") {
        policies::validate_failure_policy(path.child("podFailurePolicy"), spec, errors);
    }
    if spec.has("successPolicy") {
        let policy_path = path.child("successPolicy");
        if spec.str("completionMode") == INDEXED {
            policies::validate_success_policy(policy_path, spec, errors);
        } else {
            let shown = BadValue::Text(go_json("SuccessPolicy", spec.get("successPolicy")));
            errors.invalid(policy_path, shown, "requires indexed completion mode");
        }
    }
    policies::validate_replacement_policy(path.child("podReplacementPolicy"), spec, errors);
    pod_spec::validate_pod_template(path.child("template"), spec.get("template"), options, errors);
    validate_restart_policy(path, spec, errors);
}

/// What is allowed but hardly meant.
pub(crate) fn warnings(path: Path<'_>, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let many = spec.int("completions") > MANY_COMPLETIONS && spec.int("parallelism") > PARALLELISM_MAX_OF_MANY;
    if spec.str("completionMode") == INDEXED && many {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than \
             10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    warnings.extend(pod_spec::template_warnings(path.child("template"), spec.get("template")));
    warnings
}

/// The number, where it is there, is not negative.
pub(crate) fn not_negative(path: Path<'_>, object: &Value, field: &str, errors: &mut Errors) {
    let number = object.int(field);
    if number < 0 {
        errors.invalid(path.child(field), number, NOT_NEGATIVE);
    }
}

fn validate_mode(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let mode = spec.str("completionMode");
    if spec.has("completionMode") && !matches!(mode, "NonIndexed" | INDEXED) {
        errors.not_supported(path.child("completionMode"), mode, &["NonIndexed", INDEXED]);
    }
    if mode == INDEXED {
        validate_indexed(path, spec, errors);
    }
    if !spec.has("completionMode") || mode == "NonIndexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if spec.has(field) {
                errors.invalid(path.child(field), spec.int(field), "requires indexed completion mode");
            }
        }
    }
}

fn validate_indexed(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let (parallelism, completions) = (spec.int("parallelism"), spec.get("completions").as_int());
    let failed = spec.get("maxFailedIndexes").as_int();
    if completions.is_none() {
        errors.required(path.child("completions"), "when completion mode is Indexed");
    }
    let mut at_most = |field: &str, number: i64, max: i64, words: &str| {
        if number > max {
            errors.invalid(path.child(field), number, format!("must be less than or equal to {words}"));
        }
    };
    let words = format!("{PARALLELISM_MAX} when completion mode is Indexed");
    at_most("parallelism", parallelism, PARALLELISM_MAX, &words);
    if let (Some(failed), Some(completions)) = (failed, completions) {
        at_most("maxFailedIndexes", failed, completions, "completions");
    }
    at_most("maxFailedIndexes", failed.unwrap_or(0), FAILED_INDEXES_MAX, &FAILED_INDEXES_MAX.to_string());
    if completions.unwrap_or(0) > MANY_COMPLETIONS && spec.has("backoffLimitPerIndex") {
        validate_many(path, parallelism, failed, errors);
    }
}

fn validate_many(path: Path<'_>, parallelism: i64, failed: Option<i64>, errors: &mut Errors) {
    if failed.is_none() {
        let words = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(path.child("maxFailedIndexes"), words);
    }
    let bounds = [
        ("parallelism", parallelism, PARALLELISM_MAX_OF_MANY),
        ("maxFailedIndexes", failed.unwrap_or(0), FAILED_INDEXES_MAX_OF_MANY),
    ];
    for (field, number, max) in bounds {
        if number > max {
            let words = format!(
                "must be less than or equal to {max} when completions are above {MANY_COMPLETIONS} and used with \
                 backoff limit per index"
            );
            errors.invalid(path.child(field), number, words);
        }
    }
}

/// Pods of a job end: they are restarted on failure or never.
fn validate_restart_policy(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let template = path.child("template");
    let inner = template.child("spec");
    let path = inner.child("restartPolicy");
    match spec.at(&["template", "spec"]).str("restartPolicy") {
        "" | "Always" => errors.required(path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.has("podFailurePolicy") => {
            errors.invalid(path, "OnFailure", "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(path, other, &["OnFailure", "Never"]),
    }
}
