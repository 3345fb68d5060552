//! Metrics in their two forms: each field of the newer one has a place in the older.

use rkube_machinery::{Text, Value, object};

/// From `v1` to `v2`.
pub(super) fn spec_to_stored(metric: &Value) -> Value {
    convert(metric, |field, source| {
        let (value, average, utilization) = match field {
            "object" => {
                // The older form cannot leave the value out.
                let value = source.get("targetValue");
                let meant = !source.has("averageValue") || value.as_str() != "0";
                (if meant { value } else { &Value::Null }, source.get("averageValue"), &Value::Null)
            }
            "external" => (source.get("targetValue"), source.get("targetAverageValue"), &Value::Null),
            _ => (&Value::Null, source.get("targetAverageValue"), source.get("targetAverageUtilization")),
        };
        let kind = match field {
            "object" if average.is_null() => "Value",
            "external" if !value.is_null() => "Value",
            _ if !utilization.is_null() => "Utilization",
            _ => "AverageValue",
        };
        let mut target = object! { "type": kind };
        put(&mut target, "value", value);
        put(&mut target, "averageValue", average);
        put(&mut target, "averageUtilization", utilization);
        let mut converted = subject(field, source);
        converted.set("target", target);
        converted
    })
}

/// From `v1` to `v2`.
pub(super) fn status_to_stored(metric: &Value) -> Value {
    convert(metric, |field, source| {
        let mut current = Value::object();
        match field {
            "object" => {
                put(&mut current, "value", source.get("currentValue"));
                put(&mut current, "averageValue", source.get("averageValue"));
            }
            "external" => {
                put(&mut current, "value", source.get("currentValue"));
                put(&mut current, "averageValue", source.get("currentAverageValue"));
            }
            _ => {
                put(&mut current, "averageValue", source.get("currentAverageValue"));
                put(&mut current, "averageUtilization", source.get("currentAverageUtilization"));
            }
        }
        let mut converted = subject(field, source);
        converted.set("current", current);
        converted
    })
}

/// From `v2` to `v1`.
pub(super) fn spec_from_stored(metric: &Value) -> Value {
    convert(metric, |field, source| {
        let target = source.get("target");
        let mut converted = old_subject(field, source);
        match field {
            "object" => {
                put(&mut converted, "targetValue", target.get("value"));
                put(&mut converted, "averageValue", target.get("averageValue"));
            }
            "external" => {
                put(&mut converted, "targetValue", target.get("value"));
                put(&mut converted, "targetAverageValue", target.get("averageValue"));
            }
            _ => {
                put(&mut converted, "targetAverageValue", target.get("averageValue"));
                if field != "pods" {
                    put(&mut converted, "targetAverageUtilization", target.get("averageUtilization"));
                }
            }
        }
        converted
    })
}

/// From `v2` to `v1`.
pub(super) fn status_from_stored(metric: &Value) -> Value {
    convert(metric, |field, source| {
        let current = source.get("current");
        let mut converted = old_subject(field, source);
        match field {
            "object" => {
                put(&mut converted, "currentValue", current.get("value"));
                put(&mut converted, "averageValue", current.get("averageValue"));
            }
            "external" => {
                put(&mut converted, "currentValue", current.get("value"));
                put(&mut converted, "currentAverageValue", current.get("averageValue"));
            }
            _ => {
                put(&mut converted, "currentAverageValue", current.get("averageValue"));
                if field != "pods" {
                    put(&mut converted, "currentAverageUtilization", current.get("averageUtilization"));
                }
            }
        }
        converted
    })
}

/// The name of a behavior's field, however its letters are written.
pub(super) fn known_name(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 9] = [
        "scaleUp",
        "scaleDown",
        "stabilizationWindowSeconds",
        "selectPolicy",
        "policies",
        "tolerance",
        "type",
        "value",
        "periodSeconds",
    ];
    NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// The metric with each of its sources converted.
fn convert(metric: &Value, source: impl Fn(&str, &Value) -> Value) -> Value {
    let mut converted = object! { "type": metric.str("type") };
    for field in ["object", "pods", "resource", "containerResource", "external"] {
        if metric.has(field) {
            converted.set(field, source(field, metric.get(field)));
        }
    }
    converted
}

/// What is measured, as the newer form says it.
fn subject(field: &str, source: &Value) -> Value {
    let mut subject = Value::object();
    if matches!(field, "resource" | "containerResource") {
        put(&mut subject, "name", source.get("name"));
        put(&mut subject, "container", source.get("container"));
        return subject;
    }
    let mut metric = object! { "name": source.str("metricName") };
    put(&mut metric, "selector", source.get(selector_field(field)));
    subject.set("metric", metric);
    if field == "object" {
        put(&mut subject, "describedObject", source.get("target"));
    }
    subject
}

/// What is measured, as the older form says it.
fn old_subject(field: &str, source: &Value) -> Value {
    let mut subject = Value::object();
    if matches!(field, "resource" | "containerResource") {
        put(&mut subject, "name", source.get("name"));
        put(&mut subject, "container", source.get("container"));
        return subject;
    }
    let metric = source.get("metric");
    subject.set("metricName", Text::new(metric.str("name")));
    put(&mut subject, selector_field(field), metric.get("selector"));
    if field == "object" {
        put(&mut subject, "target", source.get("describedObject"));
    }
    subject
}

fn selector_field(field: &str) -> &'static str {
    if field == "external" { "metricSelector" } else { "selector" }
}

/// Sets the field where there is a value.
fn put(object: &mut Value, field: &str, value: &Value) {
    if !value.is_null() {
        object.set(field, value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_targets() {
        let table = [
            (object! { "type": "Object", "object": object! { "targetValue": "0" } }, "object", "Value"),
            (
                object! { "type": "Object", "object": object! { "targetValue": "0", "averageValue": "1" } },
                "object",
                "AverageValue",
            ),
            (object! { "type": "External", "external": object! { "targetValue": "1" } }, "external", "Value"),
            (object! { "type": "External", "external": Value::object() }, "external", "AverageValue"),
            (
                object! { "type": "Resource", "resource": object! { "targetAverageUtilization": 5 } },
                "resource",
                "Utilization",
            ),
        ];
        for (metric, field, want) in table {
            let stored = spec_to_stored(&metric);
            assert_eq!(stored.at(&[field, "target"]).str("type"), want);
            assert_eq!(spec_from_stored(&stored).get(field).get("averageValue"), metric.get(field).get("averageValue"));
        }
        let zero = object! { "type": "Object", "object": object! { "targetValue": "0", "averageValue": "1" } };
        assert!(!spec_to_stored(&zero).at(&["object", "target"]).has("value"));
    }
}
