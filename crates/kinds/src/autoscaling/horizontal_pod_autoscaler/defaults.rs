//! What an autoscaler gets where its author says nothing.

use rkube_machinery::{Value, object};

pub(super) const CPU_UTILIZATION_PERCENT: i64 = 80;
const PERIOD_SECONDS: i64 = 15;

/// Fills in an autoscaler in its stored form.
pub(super) fn fill(autoscaler: &mut Value) {
    let spec = autoscaler.object_mut("spec");
    spec.set_if_absent("minReplicas", 1);
    if spec.list("metrics").is_empty() {
        spec.set("metrics", vec![cpu_metric(CPU_UTILIZATION_PERCENT)]);
    }
    let Some(behavior) = spec.find_mut("behavior") else { return };
    let policy = |kind: &str, value: i64| {
        object! { "type": kind, "value": value, "periodSeconds": PERIOD_SECONDS }
    };
    let up = behavior.object_mut("scaleUp");
    up.set_if_absent("stabilizationWindowSeconds", 0);
    up.set_if_absent("selectPolicy", "Max");
    if !up.has("policies") {
        up.set("policies", vec![policy("Pods", 4), policy("Percent", 100)]);
    }
    let down = behavior.object_mut("scaleDown");
    down.set_if_absent("selectPolicy", "Max");
    if !down.has("policies") {
        down.set("policies", vec![policy("Percent", 100)]);
    }
}

/// A metric that keeps processors busy to this degree.
pub(super) fn cpu_metric(percent: i64) -> Value {
    let target = object! { "type": "Utilization", "averageUtilization": percent };
    object! { "type": "Resource", "resource": object! { "name": "cpu", "target": target } }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    #[test]
    fn defaults_are_idempotent() {
        let up = object! { "policies": Value::Array(Vec::new()), "selectPolicy": "Min" };
        let mut autoscaler = object! { "spec": object! { "behavior": object! { "scaleUp": up } } };
        fill(&mut autoscaler);
        let once = json::to_string(&autoscaler);
        fill(&mut autoscaler);
        assert_eq!(json::to_string(&autoscaler), once);
        let behavior = autoscaler.at(&["spec", "behavior"]);
        assert_eq!(behavior.get("scaleUp").str("selectPolicy"), "Min");
        assert!(behavior.get("scaleUp").list("policies").is_empty());
        assert!(!behavior.get("scaleDown").has("stabilizationWindowSeconds"));
    }
}
