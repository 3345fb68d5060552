//! What tables show of an autoscaler.

use rkube_machinery::Value;

use crate::columns::{AGE, NAME, NONE, UNKNOWN};
use crate::kind::Column;

/// So many metrics are shown.
const SHOWN_MAX: usize = 2;

pub(super) const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Reference", "doc:io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec scaleTargetRef", reference),
    Column::text("Targets", "doc:io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec metrics", targets),
    Column::text("MinPods", "doc:io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec minReplicas", |object, _| {
        let least = object.get("spec").get("minReplicas").as_int();
        least.map_or("<unset>".to_owned(), |least| least.to_string()).into()
    }),
    Column::text("MaxPods", "doc:io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerSpec maxReplicas", |object, _| {
        object.get("spec").int("maxReplicas").into()
    }),
    Column::text(
        "Replicas",
        "doc:io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus currentReplicas",
        |object, _| object.get("status").int("currentReplicas").into(),
    ),
    AGE,
];

fn reference(object: &Value, _now: i64) -> Value {
    let target = object.at(&["spec", "scaleTargetRef"]);
    format!("{}/{}", target.str("kind"), target.str("name")).into()
}

fn targets(object: &Value, _now: i64) -> Value {
    let metrics = object.get("spec").list("metrics");
    let measured = object.get("status").list("currentMetrics");
    if metrics.is_empty() {
        return NONE.into();
    }
    let shown = metrics.iter().take(SHOWN_MAX).enumerate();
    let texts: Vec<String> =
        shown.map(|(index, metric)| target(metric, measured.get(index).unwrap_or(&Value::Null))).collect();
    let mut text = texts.join(", ");
    if metrics.len() > SHOWN_MAX {
        text.push_str(&format!(" + {} more...", metrics.len() - SHOWN_MAX));
    }
    text.into()
}

/// What is measured and what it should be: `cpu: 20%/50%`.
fn target(metric: &Value, measured: &Value) -> String {
    let field = match metric.str("type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (source, measured) = (metric.get(field), measured.get(field));
    let (wanted, current) = (source.get("target"), measured.get("current"));
    let average = wanted.has("averageValue");
    match field {
        "pods" => {
            format!("{}/{}", amount(measured, current, "averageValue"), amount(wanted, wanted, "averageValue"))
        }
        "external" | "object" if average => {
            let now = if current.has("averageValue") { current.str("averageValue") } else { UNKNOWN };
            format!("{now}/{} (avg)", wanted.str("averageValue"))
        }
        "external" | "object" => {
            format!("{}/{}", amount(measured, current, "value"), amount(wanted, wanted, "value"))
        }
        _ if average => {
            let now = amount(measured, current, "averageValue");
            format!("{}: {now}/{}", source.str("name"), wanted.str("averageValue"))
        }
        _ => {
            let percent = |value: &Value, missing: &str| {
                let percent = value.get("averageUtilization").as_int();
                percent.map_or(missing.to_owned(), |percent| format!("{percent}%"))
            };
            format!("{}: {}/{}", source.str("name"), percent(current, UNKNOWN), percent(wanted, "<auto>"))
        }
    }
}

/// The amount; one that is not there where its parent is shows as Go shows nothing.
fn amount<'a>(parent: &Value, values: &'a Value, field: &str) -> &'a str {
    match (parent.is_null(), values.has(field)) {
        (true, _) => UNKNOWN,
        (false, true) => values.str(field),
        (false, false) => "<nil>",
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn what_is_measured_and_what_it_should_be() {
        let resource =
            |target: Value| object! { "type": "Resource", "resource": object! { "name": "cpu", "target": target } };
        let pods = object! { "type": "Pods", "pods": object! { "target": object! { "averageValue": "100" } } };
        let specs =
            vec![resource(object! { "averageUtilization": 50 }), pods, resource(object! { "averageValue": "1" })];
        let current =
            object! { "type": "Resource", "resource": object! { "current": object! { "averageUtilization": 20 } } };
        let object = object! {
            "spec": object! { "metrics": specs }, "status": object! { "currentMetrics": vec![current] },
        };
        assert_eq!(targets(&object, 0), Value::from("cpu: 20%/50%, <unknown>/100 + 1 more..."));
        assert_eq!(targets(&Value::object(), 0), Value::from("<none>"));
    }
}
