//! HorizontalPodAutoscalers.

use serde_json::{Value, json};

use super::{A_WHILE, History};

fn autoscaler(least: u64, most: u64) -> Value {
    json!({ "spec": { "scaleTargetRef": { "name": "web" }, "minReplicas": least, "maxReplicas": most } })
}

fn deployment(replicas: u64) -> Value {
    json!({ "metadata": { "uid": "d" }, "spec": { "replicas": replicas } })
}

/// A Deployment of three that may be from two to four.
fn three() -> History {
    let start = History::new().put("horizontalpodautoscalers/a/h", &autoscaler(2, 4));
    start.put("deployments/a/web", &deployment(3)).by("horizontal-pod-autoscaler")
}

#[test]
fn nobody_is_scaled_to_more_or_less_than_may_be() {
    three().put("deployments/a/web", &deployment(4)).put("deployments/a/web", &deployment(2)).stays_silent();
    let scaled = |to: u64| format!("/registry/deployments/a/web: is scaled to {to}, and it may be from 2 to 4");
    three().put("deployments/a/web", &deployment(5)).says(&[&scaled(5)]);
    three().put("deployments/a/web", &deployment(1)).says(&[&scaled(1)]);
    // Users may, and of what nobody scales nothing is known.
    three().by_users().put("deployments/a/web", &deployment(9)).stays_silent();
    three().put("deployments/a/other", &deployment(1)).put("deployments/a/other", &deployment(9)).stays_silent();
    three().gone("horizontalpodautoscalers/a/h").put("deployments/a/web", &deployment(9)).stays_silent();
}

#[test]
fn what_may_be_may_have_changed() {
    let narrowed = |seconds| three().put("horizontalpodautoscalers/a/h", &autoscaler(3, 3)).after(seconds);
    narrowed(10).put("deployments/a/web", &deployment(4)).stays_silent();
    narrowed(10).put("deployments/a/web", &deployment(2)).stays_silent();
    for replicas in [2, 4] {
        let said = format!("/registry/deployments/a/web: is scaled to {replicas}, and it may be from 3 to 3");
        narrowed(A_WHILE).put("deployments/a/web", &deployment(replicas)).says(&[&said]);
    }
}
