//! Taints of devices, tolerations of claims, and conditions that a device waits for.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::names::label_value;
use crate::core::pod_spec::checks::{Seen, one_of, required_one_of};
use crate::fields::{texts, written_at};
use crate::meta::validate_label_name;

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
const CONDITIONS_MAX: usize = 4;

/// The effect of an old taint is not looked at again.
pub(super) fn validate_taint(path: Path<'_>, taint: &Value, old: Option<&Value>, errors: &mut Errors) {
    validate_label_name(path.child("key"), taint.str("key"), errors);
    if !taint.str("value").is_empty() {
        label_value(path.child("value"), taint.str("value"), errors);
    }
    let effect = taint.str("effect");
    if old.is_none_or(|old| old.str("effect") != effect) {
        required_one_of(path.child("effect"), effect, EFFECTS, errors);
    }
}

pub(super) fn validate_tolerations(path: Path<'_>, request: &Value, errors: &mut Errors) {
    let path = path.child("tolerations");
    for (index, toleration) in request.list("tolerations").iter().enumerate() {
        validate_toleration(path.index(index), toleration, errors);
    }
}

fn validate_toleration(path: Path<'_>, toleration: &Value, errors: &mut Errors) {
    if !toleration.str("key").is_empty() {
        validate_label_name(path.child("key"), toleration.str("key"), errors);
    }
    let value = toleration.str("value");
    match toleration.str("operator") {
        "Exists" if !value.is_empty() => {
            errors.invalid(path.child("value"), value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => label_value(path.child("value"), value, errors),
        other => required_one_of(path.child("operator"), other, &["Equal", "Exists"], errors),
    }
    let effect = toleration.str("effect");
    if !effect.is_empty() {
        one_of(path.child("effect"), effect, EFFECTS, errors);
    }
}

/// Conditions that say when a device is ready, and when it has failed: both or none.
pub(super) fn validate_conditions(path: Path<'_>, device: &Value, errors: &mut Errors) {
    const READY: &str = "bindingConditions";
    const FAILED: &str = "bindingFailureConditions";
    for field in [READY, FAILED] {
        super::lists::slice(path.child(field), device.list(field), CONDITIONS_MAX, errors, |path, name, errors| {
            validate_label_name(path, name.as_str(), errors);
        });
    }
    let mut ready = Seen::new();
    for (index, name) in texts(device, READY).enumerate() {
        if !ready.add(name) {
            errors.duplicate(path.child(READY).index(index), name);
        }
    }
    let mut failed = Seen::new();
    for (index, name) in texts(device, FAILED).enumerate() {
        let path = path.child(FAILED);
        if !failed.add(name) {
            errors.duplicate(path.index(index), name);
        }
        if ready.has(name) {
            let words = "bindingFailureConditions must not overlap with bindingConditions";
            errors.invalid(path.index(index), name, words);
        }
    }
    let (none_ready, none_failed) = (device.list(READY).is_empty(), device.list(FAILED).is_empty());
    if none_ready && !none_failed {
        let words = "bindingConditions are required to use bindingFailureConditions";
        errors.invalid(path.child(READY), device.get(READY), words);
    }
    if none_failed && !none_ready {
        let words = "bindingFailureConditions are required to use bindingConditions";
        errors.invalid(path.child(FAILED), device.get(FAILED), words);
    }
}

/// A taint is there since it is written, where its author says nothing else.
pub(super) fn stamp(taints: &mut [Value], now: Option<&Value>) {
    let Some(now) = now else { return };
    for taint in taints {
        taint.set_if_absent("timeAdded", now.clone());
    }
}

/// The time of the write that is under way.
pub(super) fn now(object: &Value, old: Option<&Value>) -> Option<Value> {
    match old {
        None => Some(object.get("metadata").get("creationTimestamp").clone()).filter(|time| !time.is_null()),
        Some(_) => written_at(object),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn conditions_come_in_pairs() {
        let names = |names: &[&str]| Value::from(names.iter().map(|name| Value::from(*name)).collect::<Vec<_>>());
        let table: &[(&[&str], &[&str], usize)] = &[
            (&["a"], &["b"], 0),
            (&[], &[], 0),
            (&["a"], &[], 1),
            (&[], &["b"], 1),
            (&["a"], &["a"], 1),
            (&["a", "a"], &["b"], 1),
            (&["a", "b", "c", "d", "e"], &["f"], 1),
        ];
        for (ready, failed, wrong) in table {
            let device = object! { "bindingConditions": names(ready), "bindingFailureConditions": names(failed) };
            let mut errors = Errors::new();
            validate_conditions(Path::new("x"), &device, &mut errors);
            assert_eq!(errors.len(), *wrong, "{ready:?} {failed:?}");
        }
    }

    #[test]
    fn tolerations_are_checked() {
        let toleration = |operator: &str, value: &str| {
            object! { "tolerations": vec![object! { "key": "a", "operator": operator, "value": value }] }
        };
        for (operator, value, wrong) in
            [("Exists", "", 0), ("Exists", "x", 1), ("Equal", "x", 0), ("", "", 1), ("X", "", 1)]
        {
            let mut errors = Errors::new();
            validate_tolerations(Path::new("x"), &toleration(operator, value), &mut errors);
            assert_eq!(errors.len(), wrong, "{operator} {value}");
        }
    }
}
