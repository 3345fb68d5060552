//! What groups of pods and the templates for them have in common.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names;

/// Fields of features that are off, and what stands in their place.
const GATED: [(&str, Option<Value>); 5] = [
    ("schedulingConstraints", Some(Value::Null)),
    ("resourceClaims", None),
    ("disruptionMode", None),
    ("priorityClassName", None),
    ("priority", None),
];

/// Drops what belongs to features that are off, unless `old` has it already.
pub(super) fn drop_disabled(template: &mut Value, old: &Value) {
    for (field, place) in GATED {
        if !old.get(field).is_empty() || !template.has(field) {
            continue;
        }
        match place {
            Some(place) => template.set(field, place),
            None => drop(template.remove(field)),
        }
    }
}

/// Pods of a group start one by one, or all together.
pub(super) fn validate_policy(path: Path<'_>, policy: &Value, errors: &mut Errors) {
    match (policy.has("basic"), policy.has("gang")) {
        (false, false) => errors.invalid(path, "", "must specify one of: `basic`, `gang`"),
        (true, true) => errors.invalid(path, "{basic, gang}", "must specify exactly one of: `basic`, `gang`"),
        _ => {}
    }
    if policy.has("gang") {
        let path = path.child("gang");
        match policy.get("gang").int("minCount") {
            0 => errors.required(path.child("minCount"), ""),
            count @ ..0 => errors.invalid(path.child("minCount"), count, "must be greater than or equal to 1"),
            _ => {}
        }
    }
}

/// The text is there and right.
pub(super) fn require(
    path: Path<'_>,
    object: &Value,
    field: &str,
    check: fn(&str) -> Vec<String>,
    errors: &mut Errors,
) {
    let value = object.str(field);
    if value.is_empty() {
        return errors.required(path.child(field), "");
    }
    for message in check(value) {
        errors.invalid(path.child(field), value, message);
    }
}

/// A reference to a template in a workload.
pub(super) fn validate_template_reference(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    let workload = reference.get("workload");
    if workload.is_null() {
        return errors.invalid(path, "", "must specify one of: `workload`");
    }
    let path = path.child("workload");
    require(path, workload, "workloadName", names::long_name, errors);
    require(path, workload, "podGroupTemplateName", names::short_name, errors);
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn policies() {
        let gang = |count: i64| object! { "gang": object! { "minCount": count } };
        let both = object! { "basic": Value::object(), "gang": object! { "minCount": 1 } };
        let table = [
            (Value::object(), "p: Invalid value: \"\": must specify one of: `basic`, `gang`"),
            (both, "p: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`"),
            (gang(0), "p.gang.minCount: Required value"),
            (gang(-1), "p.gang.minCount: Invalid value: -1: must be greater than or equal to 1"),
        ];
        for (policy, want) in table {
            let mut errors = Errors::new();
            validate_policy(Path::new("p"), &policy, &mut errors);
            assert_eq!(errors.summary(), want);
        }
    }
}
