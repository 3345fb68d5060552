//! The two forms of an autoscaler. The first version knows one metric, of processors; all others, what was measured, the
//! behavior and the conditions stand in annotations there.

mod metric;

use rkube_machinery::{Map, Text, Type, TypeRef, Value, decode, json, object};

use super::defaults::{CPU_UTILIZATION_PERCENT, cpu_metric};
use crate::core::pod_spec::go_form::go_json;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// Annotations that only carry what this version has no fields for.
const CARRIED: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    CURRENT_METRICS,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

const SPEC_FIELDS: [&str; 3] = ["scaleTargetRef", "minReplicas", "maxReplicas"];
const STATUS_FIELDS: [&str; 4] = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];

/// From `v1` to `v2`.
pub(super) fn to_stored(mut first: Value) -> Value {
    let mut spec = picked(first.get("spec"), &SPEC_FIELDS);
    let mut status = picked(first.get("status"), &STATUS_FIELDS);
    let percent = first.get("spec").get("targetCPUUtilizationPercentage").as_int();
    let current = first.get("status").get("currentCPUUtilizationPercentage").as_int();
    let annotations = first.at(&["metadata", "annotations"]);
    let mut metrics: Vec<Value> = Vec::new();
    if let Some(others) = listed(annotations, METRICS, "io.k8s.api.autoscaling.v1.MetricSpec") {
        metrics.extend(others.iter().map(metric::spec_to_stored));
    }
    metrics.extend(percent.map(cpu_metric));
    if metrics.is_empty() {
        metrics.push(cpu_metric(CPU_UTILIZATION_PERCENT));
    }
    spec.set("metrics", metrics);
    if let Some(behavior) = behavior(annotations.str(BEHAVIOR)) {
        spec.set("behavior", behavior);
    }
    if let Some(all) = listed(annotations, CURRENT_METRICS, "io.k8s.api.autoscaling.v1.MetricStatus") {
        status.set("currentMetrics", all.iter().map(metric::status_to_stored).collect::<Vec<_>>());
    } else if let Some(percent) = current {
        let measured = object! { "name": "cpu", "current": object! { "averageUtilization": percent } };
        status.set("currentMetrics", vec![object! { "type": "Resource", "resource": measured }]);
    }
    let condition = "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerCondition";
    if let Some(conditions) = listed(annotations, CONDITIONS, condition) {
        status.set("conditions", conditions);
    }
    drop_annotations(&mut first);
    assemble(first, "autoscaling/v2", "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler", spec, status)
}

/// From `v2` to `v1`.
pub(super) fn from_stored(mut stored: Value) -> Value {
    drop_annotations(&mut stored);
    let (old_spec, old_status) = (stored.get("spec"), stored.get("status"));
    let mut spec = picked(old_spec, &SPEC_FIELDS);
    let mut status = picked(old_status, &STATUS_FIELDS);
    let mut carried: Vec<(&str, String)> = Vec::new();
    let metrics = old_spec.list("metrics");
    if let Some(percent) = metrics.iter().find_map(cpu_target) {
        spec.set("targetCPUUtilizationPercentage", percent);
    }
    let others: Vec<Value> =
        metrics.iter().filter(|metric| cpu_target(metric).is_none()).map(metric::spec_from_stored).collect();
    if !others.is_empty() {
        carried.push((METRICS, written(others, "io.k8s.api.autoscaling.v1.MetricSpec")));
    }
    let measured = old_status.list("currentMetrics");
    if let Some(percent) = measured.iter().rev().find_map(cpu_measured) {
        status.set("currentCPUUtilizationPercentage", percent);
    }
    if !measured.is_empty() {
        let all = measured.iter().map(metric::status_from_stored).collect();
        carried.push((CURRENT_METRICS, written(all, "io.k8s.api.autoscaling.v1.MetricStatus")));
    }
    if old_spec.has("behavior") {
        carried.push((BEHAVIOR, go_json("HorizontalPodAutoscalerBehavior", old_spec.get("behavior"))));
    }
    if !old_status.list("conditions").is_empty() {
        let conditions = old_status.list("conditions").to_vec();
        let condition = "io.k8s.api.autoscaling.v1.HorizontalPodAutoscalerCondition";
        carried.push((CONDITIONS, written(conditions, condition)));
    }
    if !carried.is_empty() {
        let annotations = stored.object_mut("metadata").object_mut("annotations");
        for (key, value) in carried {
            annotations.set(key, value);
        }
    }
    assemble(stored, "autoscaling/v1", "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler", spec, status)
}

/// Takes out what only the first version has a use for.
pub(super) fn drop_annotations(autoscaler: &mut Value) {
    let Some(metadata) = autoscaler.find_mut("metadata") else { return };
    let Some(annotations) = metadata.find_mut("annotations") else { return };
    let mut dropped = false;
    for key in CARRIED {
        dropped |= annotations.remove(key).is_some();
    }
    if dropped && annotations.as_map().is_empty() {
        metadata.remove("annotations");
    }
}

/// The object in the form of this type.
fn assemble(mut object: Value, version: &str, type_name: &str, spec: Value, status: Value) -> Value {
    let metadata = object.remove("metadata").unwrap_or_default();
    let mut whole = object! {
        "kind": "HorizontalPodAutoscaler", "apiVersion": version, "metadata": metadata, "spec": spec, "status": status,
    };
    if let Some(schema) = schema(type_name) {
        decode::complete(&mut whole, schema);
    }
    whole
}

fn picked(object: &Value, fields: &[&'static str]) -> Value {
    let there = fields.iter().filter(|field| object.has(field));
    let entries = there.map(|field| (Text::new_static(field), object.get(field).clone()));
    Value::Object(Map::in_order(entries.collect()))
}

fn schema(type_name: &str) -> Option<&'static Type> {
    TypeRef::find(type_name).map(TypeRef::get)
}

/// The annotation as a list of this type. One that cannot be read counts as absent.
fn listed(annotations: &Value, key: &str, type_name: &str) -> Option<Vec<Value>> {
    if !annotations.has(key) {
        return None;
    }
    let schema = schema(type_name)?;
    match json::parse(annotations.str(key).as_bytes()).ok()? {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => {
            items.into_iter().map(|item| decode::decode(item, schema).ok().map(|decoded| decoded.value)).collect()
        }
        _ => None,
    }
}

/// The list as an annotation: JSON as Go writes it, with escapes for HTML.
fn written(mut items: Vec<Value>, type_name: &str) -> String {
    if let Some(schema) = schema(type_name) {
        items.iter_mut().for_each(|item| decode::complete(item, schema));
    }
    json::to_string(&Value::Array(items)).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The behavior in an annotation, which names fields as Go does inside; case does not matter.
fn behavior(text: &str) -> Option<Value> {
    let mut behavior = json::parse(text.as_bytes()).ok()?;
    lower_names(&mut behavior);
    let schema = schema("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior")?;
    let behavior = decode::decode(behavior, schema).ok()?.value;
    (behavior.has("scaleUp") || behavior.has("scaleDown")).then_some(behavior)
}

fn lower_names(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(lower_names),
        Value::Object(map) => {
            let entries = std::mem::take(map).into_entries().into_iter().map(|(key, mut value)| {
                lower_names(&mut value);
                (metric::known_name(&key).map_or(key, Text::new_static), value)
            });
            *map = Map::in_order(entries.collect());
        }
        _ => {}
    }
}

/// The degree to which processors should be busy, where the metric says that.
fn cpu_target(metric: &Value) -> Option<i64> {
    let resource = metric.get("resource");
    let of_cpu = metric.str("type") == "Resource" && resource.str("name") == "cpu";
    resource.get("target").get("averageUtilization").as_int().filter(|_| of_cpu)
}

fn cpu_measured(metric: &Value) -> Option<i64> {
    let resource = metric.get("resource");
    let of_cpu = metric.str("type") == "Resource" && resource.str("name") == "cpu";
    resource.get("current").get("averageUtilization").as_int().filter(|_| of_cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Value {
        let pods = object! { "metric": object! { "name": "rps" }, "target": object! { "type": "AverageValue", "averageValue": "100" } };
        let up = object! { "selectPolicy": "Max", "policies": vec![object! { "type": "Pods", "value": 4, "periodSeconds": 15 }] };
        let mut whole = object! {
            "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
            "metadata": object! { "name": "a" },
            "spec": object! {
                "scaleTargetRef": object! { "kind": "Deployment", "name": "d", "apiVersion": "apps/v1" },
                "minReplicas": 2, "maxReplicas": 10,
                "metrics": vec![object! { "type": "Pods", "pods": pods }, cpu_metric(50)],
                "behavior": object! { "scaleUp": up },
            },
            "status": object! { "desiredReplicas": 0, "currentMetrics": Value::Null },
        };
        decode::complete(&mut whole, schema("io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler").unwrap());
        whole
    }

    #[test]
    fn there_and_back() {
        let first = from_stored(stored());
        let annotations = first.at(&["metadata", "annotations"]);
        assert_eq!(
            annotations.str(METRICS),
            "[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"rps\",\"targetAverageValue\":\"100\"}}]"
        );
        assert_eq!(
            annotations.str(BEHAVIOR),
            "{\"ScaleUp\":{\"StabilizationWindowSeconds\":null,\"SelectPolicy\":\"Max\",\"Policies\":[{\"Type\":\
             \"Pods\",\"Value\":4,\"PeriodSeconds\":15}],\"Tolerance\":null},\"ScaleDown\":null}"
        );
        assert_eq!(first.get("spec").int("targetCPUUtilizationPercentage"), 50);
        assert_eq!(json::to_string(&to_stored(first)), json::to_string(&stored()));
    }

    #[test]
    fn one_metric_by_default_and_bad_annotations_are_nothing() {
        let annotations = object! { "autoscaling.alpha.kubernetes.io/metrics": "x", "keep": "me" };
        let first = object! { "metadata": object! { "name": "a", "annotations": annotations } };
        let stored = to_stored(first);
        assert_eq!(stored.get("spec").list("metrics"), [cpu_metric(80)]);
        assert_eq!(stored.at(&["metadata", "annotations"]), &object! { "keep": "me" });
    }
}
