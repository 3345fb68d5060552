//! The checks of metrics: what is measured, and what it should be.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::validate::{VersionRule, reference};
use crate::core::pod_spec::{amounts, resources};

/// Each type and the field that belongs to it, in the order in which fields are looked at.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The metrics of a spec. `rule`: for the objects that metrics are about.
pub(super) fn validate(path: Path<'_>, spec: &Value, rule: VersionRule, errors: &mut Errors) {
    let metrics = spec.list("metrics");
    for (index, metric) in metrics.iter().enumerate() {
        validate_metric(path.index(index), metric, rule, errors);
    }
    // Metrics of the pods themselves say nothing where there are none.
    let outside = metrics.iter().any(|metric| matches!(metric.str("type"), "Object" | "External"));
    if spec.get("minReplicas").as_int() == Some(0) && !outside {
        let words = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(path, words);
    }
}

fn validate_metric(path: Path<'_>, metric: &Value, rule: VersionRule, errors: &mut Errors) {
    let kind = metric.str("type");
    if kind.is_empty() {
        errors.required(path.child("type"), "must specify a metric source type");
    }
    if !TYPES.contains(&kind) {
        errors.not_supported(path.child("type"), kind, TYPES);
    }
    let there = || SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.has(field));
    if let Some(field) = there().next() {
        validate_source(path.child(field), field, metric.get(field), rule, errors);
    }
    let own = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    match own {
        Some(field) if !metric.has(field) => {
            errors.required(path.child(field), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => errors.not_supported(path.child("type"), kind, TYPES),
    }
    if there().count() > 1 {
        for field in there().filter(|field| Some(*field) != own) {
            errors.forbidden(path.child(field), "must populate the given metric source only");
        }
    }
}

fn validate_source(path: Path<'_>, field: &str, source: &Value, rule: VersionRule, errors: &mut Errors) {
    let target = source.get("target");
    let target_path = path.child("target");
    match field {
        "object" => {
            reference(path.child("describedObject"), source.get("describedObject"), rule, errors);
            validate_identifier(path.child("metric"), source.get("metric"), errors);
        }
        "external" | "pods" => validate_identifier(path.child("metric"), source.get("metric"), errors),
        _ => validate_resource(path, source, field == "containerResource", errors),
    }
    validate_target(target_path, target, errors);
    let (value, average) = (target.has("value"), target.has("averageValue"));
    match field {
        "object" if !value && !average => {
            errors.required(target_path.child("averageValue"), "must set either a target value or averageValue");
        }
        "external" if !value && !average => {
            let words = "must set either a target value for metric or a per-pod target";
            errors.required(target_path.child("averageValue"), words);
        }
        "external" if value && average => {
            let words = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(target_path.child("value"), words);
        }
        "pods" if !average => {
            errors.required(target_path.child("averageValue"), "must specify a positive target averageValue");
        }
        "object" | "external" | "pods" => {}
        _ => validate_resource_target(target_path, target, errors),
    }
}

fn validate_resource(path: Path<'_>, source: &Value, of_container: bool, errors: &mut Errors) {
    let name = source.str("name");
    if name.is_empty() {
        errors.required(path.child("name"), "must specify a resource name");
    } else if of_container {
        resources::validate_container_resource(path.child("name"), name, errors);
    }
    if !of_container {
        return;
    }
    let container = source.str("container");
    if container.is_empty() {
        errors.required(path.child("container"), "must specify a container");
    } else {
        for message in names::dns1123_label(container) {
            errors.invalid(path.child("container"), container, message);
        }
    }
}

fn validate_resource_target(path: Path<'_>, target: &Value, errors: &mut Errors) {
    match (target.has("averageUtilization"), target.has("averageValue")) {
        (false, false) => {
            let words = "must set either a target raw value or a target utilization";
            errors.required(path.child("averageUtilization"), words);
        }
        (true, true) => {
            let words = "may not set both a target raw value and a target utilization";
            errors.forbidden(path.child("averageValue"), words);
        }
        _ => {}
    }
}

fn validate_target(path: Path<'_>, target: &Value, errors: &mut Errors) {
    let kind = target.str("type");
    if kind.is_empty() {
        errors.required(path.child("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(path.child("type"), kind, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        let amount = target.get(field);
        if !amount.is_null() && !amounts::is_positive(amount) {
            errors.invalid(path.child(field), amount, "must be positive");
        }
    }
    if let Some(percent) = target.get("averageUtilization").as_int().filter(|percent| *percent < 1) {
        errors.invalid(path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn validate_identifier(path: Path<'_>, identifier: &Value, errors: &mut Errors) {
    let name = identifier.str("name");
    if name.is_empty() {
        errors.required(path.child("name"), "must specify a metric name");
    } else {
        for message in names::path_segment_name(name) {
            errors.invalid(path.child("name"), name, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn check(metric: Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate_metric(Path::new("m"), &metric, VersionRule::Readable, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sources_belong_to_types() {
        let target = object! { "type": "AverageValue", "averageValue": "1" };
        let resource = object! { "name": "cpu", "target": target };
        let metric = object! { "type": "Resource", "resource": resource.clone() };
        assert_eq!(check(metric), Vec::<String>::new());
        let external = object! { "metric": object! { "name": "a%" }, "target": object! { "type": "Value" } };
        assert_eq!(
            check(object! { "type": "Resource", "resource": resource, "external": external }),
            [
                "m.external.metric.name: Invalid value: \"a%\": may not contain '%'",
                "m.external.target.averageValue: Required value: must set either a target value for metric or a \
                 per-pod target",
                "m.external: Forbidden: must populate the given metric source only",
            ]
        );
        assert_eq!(
            check(Value::object()),
            [
                "m.type: Required value: must specify a metric source type",
                "m.type: Unsupported value: \"\": supported values: \"ContainerResource\", \"External\", \"Object\", \
                 \"Pods\", \"Resource\"",
                "m.type: Unsupported value: \"\": supported values: \"ContainerResource\", \"External\", \"Object\", \
                 \"Pods\", \"Resource\"",
            ]
        );
    }

    #[test]
    fn targets() {
        let target = object! { "type": "X", "value": "0", "averageValue": "-1", "averageUtilization": 0 };
        let source = object! { "target": target, "name": "gpu", "container": "C" };
        let found = check(object! { "type": "ContainerResource", "containerResource": source });
        assert_eq!(
            found[0],
            "m.containerResource.name: Invalid value: \"gpu\": must be a standard resource type or fully qualified"
        );
        assert_eq!(
            found[1],
            "m.containerResource.name: Invalid value: \"gpu\": must be a standard resource for containers"
        );
        assert!(found[2].starts_with("m.containerResource.container: Invalid value: \"C\""));
        assert_eq!(
            found[3..],
            [
                "m.containerResource.target.type: Invalid value: \"X\": must be either Utilization, Value, or \
                 AverageValue",
                "m.containerResource.target.value: Invalid value: \"0\": must be positive",
                "m.containerResource.target.averageValue: Invalid value: \"-1\": must be positive",
                "m.containerResource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "m.containerResource.target.averageValue: Forbidden: may not set both a target raw value and a target \
                 utilization",
            ]
        );
    }
}
