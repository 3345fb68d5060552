//! The checks of an autoscaler, in its stored form.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::metrics;
use crate::core::pod_spec::amounts;

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
const PERIOD_MAX_SECONDS: i64 = 1800;
const STABILIZATION_MAX_SECONDS: i64 = 3600;

/// What is asked of the version of an object that is referred to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionRule {
    /// It has a group.
    Group,
    /// It can be read.
    Readable,
    Any,
}

/// `old` on update.
pub(super) fn autoscaler(autoscaler: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = autoscaler.get("spec");
    let old = old.map(|old| old.get("spec"));
    let min = spec.get("minReplicas").as_int();
    // Scaling to zero is off, but stays where it is.
    let lowest = if old.is_some_and(|old| old.get("minReplicas").as_int() == Some(0)) { 0 } else { 1 };
    if let Some(min) = min.filter(|min| *min < lowest) {
        errors.invalid(SPEC.child("minReplicas"), min, format!("must be greater than or equal to {lowest}"));
    }
    let max = spec.int("maxReplicas");
    let path = SPEC.child("maxReplicas");
    match max {
        0 => errors.required(path, "must be set and greater than 0"),
        ..0 => errors.invalid(path, max, "must be greater than or equal to 1"),
        _ => {}
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(path, max, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.get("scaleTargetRef");
    reference(SPEC.child("scaleTargetRef"), target, target_rule(target, old), errors);
    let rule = old.map_or(VersionRule::Readable, described_rule);
    metrics::validate(SPEC.child("metrics"), spec, rule, errors);
    let behavior = SPEC.child("behavior");
    for field in ["scaleUp", "scaleDown"] {
        let rules = spec.get("behavior").get(field);
        if !rules.is_null() {
            validate_rules(behavior.child(field), rules, errors);
        }
    }
}

pub(super) fn status(status: &Value, errors: &mut Errors) {
    for field in ["currentReplicas", "desiredReplicas"] {
        if status.int(field) < 0 {
            errors.invalid(STATUS.child(field), status.int(field), "must be greater than or equal to 0");
        }
    }
}

/// A reference to an object by kind, name and version.
pub(super) fn reference(path: Path<'_>, reference: &Value, rule: VersionRule, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let value = reference.str(field);
        if value.is_empty() {
            errors.required(path.child(field), "");
        } else {
            for message in names::path_segment_name(value) {
                errors.invalid(path.child(field), value, message);
            }
        }
    }
    let version = reference.str("apiVersion");
    if let Some(words) = wrong_version(version, rule) {
        errors.invalid(path.child("apiVersion"), version, words);
    }
}

fn target_rule(target: &Value, old: Option<&Value>) -> VersionRule {
    let kept = |old: &Value| {
        let old = old.get("scaleTargetRef");
        old.str("apiVersion") == target.str("apiVersion") && old.str("kind") == target.str("kind")
    };
    if old.is_some_and(kept) {
        VersionRule::Any
    } else if target.str("kind") == "ReplicationController" {
        VersionRule::Readable
    } else {
        VersionRule::Group
    }
}

/// Metrics about objects keep what they have.
fn described_rule(old: &Value) -> VersionRule {
    let mut described = old
        .list("metrics")
        .iter()
        .filter(|metric| metric.str("type") == "Object" && metric.has("object"))
        .map(|metric| metric.at(&["object", "describedObject"]).str("apiVersion"));
    if described.any(|version| wrong_version(version, VersionRule::Readable).is_some()) {
        VersionRule::Any
    } else {
        VersionRule::Readable
    }
}

fn wrong_version(version: &str, rule: VersionRule) -> Option<String> {
    if rule == VersionRule::Any {
        return None;
    }
    if version.matches('/').count() > 1 {
        return Some(format!("unexpected GroupVersion string: {version}"));
    }
    let group = version.split_once('/').map_or("", |(group, _)| group);
    (rule == VersionRule::Group && group.is_empty()).then(|| "apiVersion must specify API group".to_owned())
}

fn validate_rules(path: Path<'_>, rules: &Value, errors: &mut Errors) {
    let window = rules.int("stabilizationWindowSeconds");
    let window_path = path.child("stabilizationWindowSeconds");
    if window < 0 {
        errors.invalid(window_path, window, "must be greater than or equal to zero");
    }
    if window > STABILIZATION_MAX_SECONDS {
        errors.invalid(window_path, window, format!("must be less than or equal to {STABILIZATION_MAX_SECONDS}"));
    }
    let select = rules.str("selectPolicy");
    if rules.has("selectPolicy") && !matches!(select, "Max" | "Min" | "Disabled") {
        errors.not_supported(path.child("selectPolicy"), select, &["Disabled", "Max", "Min"]);
    }
    let policies_path = path.child("policies");
    let policies = rules.list("policies");
    if policies.is_empty() {
        errors.required(policies_path, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        validate_policy(policies_path.index(index), policy, errors);
    }
    let tolerance = rules.get("tolerance");
    if amounts::is_negative(tolerance) {
        errors.invalid(path.child("tolerance"), tolerance, "must be greater than or equal to 0");
    }
}

fn validate_policy(path: Path<'_>, policy: &Value, errors: &mut Errors) {
    let kind = policy.str("type");
    if !matches!(kind, "Pods" | "Percent") {
        errors.not_supported(path.child("type"), kind, &["Percent", "Pods"]);
    }
    for field in ["value", "periodSeconds"] {
        if policy.int(field) <= 0 {
            errors.invalid(path.child(field), policy.int(field), "must be greater than zero");
        }
    }
    let period = policy.int("periodSeconds");
    if period > PERIOD_MAX_SECONDS {
        let words = format!("must be less than or equal to {PERIOD_MAX_SECONDS}");
        errors.invalid(path.child("periodSeconds"), period, words);
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn versions() {
        let table = [
            ("apps/v1", VersionRule::Group, ""),
            ("v1", VersionRule::Group, "apiVersion must specify API group"),
            ("", VersionRule::Readable, ""),
            ("a/b/c", VersionRule::Readable, "unexpected GroupVersion string: a/b/c"),
            ("a/b/c", VersionRule::Any, ""),
        ];
        for (version, rule, want) in table {
            assert_eq!(wrong_version(version, rule).unwrap_or_default(), want, "{version}");
        }
    }

    #[test]
    fn replicas_and_targets() {
        let spec = |min: i64, max: i64| object! { "spec": object! { "minReplicas": min, "maxReplicas": max } };
        let texts = |spec: &Value, old: Option<&Value>| {
            let mut errors = Errors::new();
            autoscaler(spec, old, &mut errors);
            errors.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let found = texts(&spec(0, 0), None);
        assert_eq!(found[0], "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1");
        assert_eq!(found[1], "spec.maxReplicas: Required value: must be set and greater than 0");
        assert_eq!(
            found.last().map(String::as_str),
            Some(
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to \
                 zero replicas"
            )
        );
        let found = texts(&spec(5, 2), Some(&spec(0, 1)));
        assert_eq!(
            found,
            [
                "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
            ]
        );
    }
}
