//! Autoscalers from what they say and what is measured to replicas, conditions and events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rkube_operator::Item;
use serde_json::{Value, json};

use super::calculate::{Figure, Figures};
use super::limits::{self, Bounds, History, Rules};
use super::plan::{self, First, Target};
use super::propose::Measured;
use super::view::{Autoscaler, Status};
use crate::pods::Pod;
use crate::settings::Settings;

const SECOND: i64 = 1_000_000;
/// Long after pods started.
const NOW: i64 = 1_000_000 * SECOND;

fn autoscaler(spec: &Value) -> Autoscaler {
    let object = json!({ "metadata": { "name": "h", "namespace": "n" }, "spec": spec });
    let json = object.to_string().into();
    Autoscaler::read(&Item { namespace: "n".into(), name: "h".into(), uid: "u".into(), revision: 1, json }).unwrap()
}

fn of_metrics(metrics: &Value) -> Autoscaler {
    autoscaler(&json!({ "minReplicas": 1, "maxReplicas": 10, "scaleTargetRef": {}, "metrics": metrics }))
}

fn pods(count: usize) -> Vec<Arc<Pod>> {
    let pod = |index: usize| {
        let container = json!({ "name": "main", "resources": { "requests": { "cpu": "100m", "memory": "100Mi" } } });
        let object = json!({
            "metadata": {},
            "spec": { "containers": [container] },
            "status": {
                "phase": "Running", "startTime": "1970-01-01T00:00:00Z",
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z" }],
            },
        });
        let (json, name) = (object.to_string().into(), format!("p{index}"));
        let item = Item { namespace: "n".into(), name: name.into(), uid: "u".into(), revision: 1, json };
        Arc::new(Pod::read(&item).unwrap())
    };
    (0..count).map(pod).collect()
}

fn figures(values: &[i64]) -> Measured {
    let figure = |value: &i64| Figure { value: *value, at_micros: NOW, window_micros: 15 * SECOND };
    let all: Figures =
        values.iter().enumerate().map(|(index, value)| (format!("p{index}").into(), figure(value))).collect();
    Measured::Pods(all)
}

fn cpu(percent: i32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
}

fn external(name: &str, value: &str) -> Value {
    let metric = json!({ "name": name, "selector": { "matchLabels": { "queue": "a" } } });
    json!({ "type": "External", "external": { "metric": metric, "target": { "type": "Value", "value": value } } })
}

fn measure(autoscaler: &Autoscaler, replicas: i32, measured: Vec<Result<Measured, String>>) -> (plan::Outcome, Status) {
    let mut status = Status::default();
    let target = Target { replicas, status_replicas: replicas };
    let there = pods(usize::try_from(replicas).unwrap());
    let settings = Settings::default();
    let outcome = plan::measure(autoscaler, &target, &there, measured, &settings, NOW, &mut status);
    (outcome, status)
}

fn conditions(status: &Status) -> BTreeMap<&str, (&str, &str)> {
    let all = status.conditions.iter();
    all.map(|one| (one.kind.as_str(), (one.status.as_str(), one.reason.as_str()))).collect()
}

#[test]
fn who_is_out_of_bounds_needs_no_metrics() {
    let some = autoscaler(&json!({ "minReplicas": 2, "maxReplicas": 4, "scaleTargetRef": {} }));
    let below = First::Set { replicas: 2, reason: "Current number of replicas below Spec.MinReplicas" };
    let above = First::Set { replicas: 4, reason: "Current number of replicas above Spec.MaxReplicas" };
    for (current, expected) in
        [(0, First::Disabled), (1, below), (2, First::Measure), (4, First::Measure), (i32::MAX, above)]
    {
        assert_eq!(plan::first(&some, current), expected, "{current}");
    }
}

#[test]
fn three_pods_at_eighty_percent_become_five() {
    let autoscaler = of_metrics(&json!([cpu(50)]));
    let (outcome, status) = measure(&autoscaler, 3, vec![Ok(figures(&[80, 80, 80]))]);
    let name = "cpu resource utilization (percentage of request)";
    assert_eq!(outcome.replicas, Some((5, name.to_owned())));
    assert_eq!((outcome.error, outcome.told), (None, Vec::new()));
    let current = json!({ "averageUtilization": 80, "averageValue": "80m" });
    let expected = [json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } })];
    assert_eq!(outcome.metrics, expected);
    assert_eq!(conditions(&status)["ScalingActive"], ("True", "ValidMetricFound"));
}

#[test]
fn every_kind_of_metric_says_what_it_found() {
    let about = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
    let named = json!({ "name": "qps" });
    let average = json!({ "type": "AverageValue", "averageValue": "10" });
    let value = json!({ "type": "Value", "value": "10" });
    let one = || Ok(Measured::Values(vec![50_000]));
    let container =
        json!({ "name": "memory", "container": "main", "target": { "type": "Utilization", "averageUtilization": 50 } });
    let selector =
        "&LabelSelector{MatchLabels:map[string]string{queue: a,},MatchExpressions:[]LabelSelectorRequirement{},}";
    // The metric, what is measured, then replicas, the name and the status.
    let table = [
        (
            json!({ "type": "ContainerResource", "containerResource": container }),
            Ok(figures(&[50 * 1024 * 1024 * 1000, 150 * 1024 * 1024 * 1000])),
            (4, "memory container resource utilization (percentage of request)"),
            json!({ "type": "ContainerResource", "containerResource": {
                "name": "memory", "container": "main", "current": { "averageUtilization": 100, "averageValue": "100Mi" } } }),
        ),
        (
            json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "AverageValue", "averageValue": "20m" } } }),
            Ok(figures(&[50, 70])),
            (6, "cpu resource"),
            json!({ "type": "Resource", "resource": { "name": "cpu", "current": { "averageValue": "60m" } } }),
        ),
        (
            json!({ "type": "Pods", "pods": { "metric": named, "target": average } }),
            Ok(figures(&[15_000, 45_000])),
            (6, "pods metric qps"),
            json!({ "type": "Pods", "pods": { "metric": named, "current": { "averageValue": "30" } } }),
        ),
        (
            json!({ "type": "Object", "object": { "describedObject": about, "metric": named, "target": value } }),
            one(),
            (10, "Deployment metric qps"),
            json!({ "type": "Object", "object": { "describedObject": about, "metric": named, "current": { "value": "50" } } }),
        ),
        (
            json!({ "type": "Object", "object": { "describedObject": about, "metric": named, "target": average } }),
            one(),
            (5, "external metric qps(nil)"),
            json!({ "type": "Object", "object": { "describedObject": about, "metric": named, "current": { "averageValue": "25" } } }),
        ),
        (
            external("jobs", "20"),
            Ok(Measured::Values(vec![50_000, 10_000])),
            (6, &*format!("external metric jobs({selector})")),
            json!({ "type": "External", "external": {
                "metric": { "name": "jobs", "selector": { "matchLabels": { "queue": "a" } } }, "current": { "value": "60" } } }),
        ),
    ];
    for (metric, measured, (replicas, name), status) in table {
        let (outcome, _) = measure(&of_metrics(&json!([metric])), 2, vec![measured]);
        assert_eq!(outcome.replicas, Some((replicas, name.to_owned())), "{metric}");
        assert_eq!(outcome.metrics, [status], "{metric}");
    }
}

#[test]
fn metrics_that_are_not_there_are_told_as_upstream_tells_them() {
    let about = json!({ "kind": "Deployment", "name": "d" });
    let (named, value) = (json!({ "name": "qps" }), json!({ "type": "Value", "value": "10" }));
    let average = json!({ "type": "AverageValue", "averageValue": "10" });
    let container =
        json!({ "name": "cpu", "container": "main", "target": { "type": "AverageValue", "averageValue": "1" } });
    // The metric; then the reason, what is told, and what stands before it in the error.
    let table = [
        (
            cpu(50),
            "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: E",
            "failed to get cpu resource metric value: ",
        ),
        (
            json!({ "type": "ContainerResource", "containerResource": container }),
            "FailedGetContainerResourceMetric",
            "failed to get cpu usage: unable to get metrics for resource cpu: E",
            "failed to get main container metric value: ",
        ),
        (
            json!({ "type": "Pods", "pods": { "metric": named, "target": average } }),
            "FailedGetPodsMetric",
            "unable to get metric qps: E",
            "failed to get pods metric value: ",
        ),
        (
            json!({ "type": "Object", "object": { "describedObject": about, "metric": named, "target": value } }),
            "FailedGetObjectMetric",
            "unable to get metric qps: Deployment on n d/E",
            "failed to get object metric value: ",
        ),
        (
            json!({ "type": "Object", "object": { "describedObject": about, "metric": named, "target": average } }),
            "FailedGetObjectMetric",
            "unable to get metric qps: Deployment on n d/E",
            "failed to get object metric value: failed to get qps object metric: ",
        ),
        (
            json!({ "type": "External", "external": { "metric": named, "target": average } }),
            "FailedGetExternalMetric",
            "unable to get external metric n/qps/nil: E",
            "failed to get qps external metric value: failed to get qps external metric: ",
        ),
        (
            json!({ "type": "External", "external": { "metric": named, "target": value } }),
            "FailedGetExternalMetric",
            "unable to get external metric n/qps/nil: E",
            "failed to get qps external metric value: failed to get external metric qps: ",
        ),
    ];
    for (metric, reason, told, before) in table {
        let (outcome, status) = measure(&of_metrics(&json!([metric])), 2, vec![Err("E".to_owned())]);
        assert_eq!(outcome.told, [(reason, told.to_owned())]);
        let error = format!("invalid metrics (1 invalid out of 1), first error is: {before}{told}");
        assert_eq!((outcome.replicas, outcome.error), (None, Some(error)));
        assert_eq!(outcome.metrics, [json!({ "type": "" })]);
        assert_eq!(conditions(&status)["ScalingActive"], ("False", reason));
        assert_eq!(status.conditions[0].message, format!("the HPA was unable to compute the replica count: {told}"));
    }
}

/// With something that cannot be measured there are more, but not fewer.
#[test]
fn what_is_not_measured_holds_back() {
    let autoscaler = of_metrics(&json!([external("jobs", "10"), cpu(50), external("mails", "10")]));
    let (missing, low) = (|| Err("E".to_owned()), || Ok(Measured::Values(vec![1_000])));
    // What is measured, and what there will be.
    let table = [
        (vec![missing(), Ok(figures(&[80, 80, 80])), missing()], Some(5)),
        (vec![missing(), Ok(figures(&[50, 50, 50])), low()], Some(3)),
        (vec![missing(), Ok(figures(&[10, 10, 10])), low()], None),
        (vec![missing(), missing(), missing()], None),
        (vec![low(), Ok(figures(&[10, 10, 10])), low()], Some(1)),
    ];
    for (measured, expected) in table {
        let failed = measured.iter().filter(|one| one.is_err()).count();
        let (outcome, status) = measure(&autoscaler, 3, measured);
        assert_eq!(outcome.replicas.map(|(replicas, _)| replicas), expected);
        assert_eq!(outcome.told.len(), failed);
        let state =
            if expected.is_some() { ("True", "ValidMetricFound") } else { ("False", "FailedGetExternalMetric") };
        assert_eq!(conditions(&status)["ScalingActive"], state);
    }
}

#[test]
fn bounds_are_kept() {
    // The least and most, what there is and what is wanted; then what there will be and why.
    let table = [
        (1, 10, 3, 5, 5, "DesiredWithinRange"),
        (1, 10, 3, 7, 6, "ScaleUpLimit"),
        (1, 10, 1, 9, 4, "ScaleUpLimit"),
        (1, 6, 3, 7, 6, "TooManyReplicas"),
        (2, 10, 3, 1, 2, "TooFewReplicas"),
        (1, i32::MAX, i32::MAX - 1, i32::MAX, i32::MAX, "DesiredWithinRange"),
    ];
    for (min, max, current, desired, expected, reason) in table {
        let limited = limits::limit(Bounds { min, max, current }, desired);
        assert_eq!((limited.replicas, limited.reason), (expected, reason), "{min} {max} {current} {desired}");
        assert_eq!(limited.is_free, expected == desired);
    }
}

#[test]
fn the_highest_of_the_window_stands() {
    let (mut history, window) = (History::default(), Duration::from_secs(300));
    history.begin(3, NOW);
    // Seconds later, what is wanted, and what stands.
    let table = [
        (0, 5, 5, "ReadyForNewScale"),
        (15, 2, 5, "ScaleDownStabilized"),
        (300, 2, 5, "ScaleDownStabilized"),
        (301, 2, 2, "ReadyForNewScale"),
        (302, 4, 4, "ReadyForNewScale"),
    ];
    for (later, desired, expected, reason) in table {
        let stable = history.stabilize(desired, window, NOW + later * SECOND);
        assert_eq!((stable.replicas, stable.reason), (expected, reason), "{later}");
    }
}

#[test]
fn both_directions_have_windows() {
    let behavior = json!({
        "scaleUp": { "stabilizationWindowSeconds": 60, "policies": [], "selectPolicy": "Max" },
        "scaleDown": { "stabilizationWindowSeconds": 120, "policies": [], "selectPolicy": "Max" },
    });
    let behavior = serde_json::from_value(behavior).unwrap();
    let rules = Rules::of(&behavior, Duration::from_secs(300));
    let mut history = History::default();
    history.begin(3, NOW);
    let bounds = Bounds { min: 1, max: 20, current: 3 };
    // Seconds later, what is wanted, and what stands.
    let table = [
        (15, 6, 3, "ScaleUpStabilized"),
        (61, 8, 6, "ScaleUpStabilized"),
        (80, 1, 3, "ScaleDownStabilized"),
        (130, 1, 3, "ScaleDownStabilized"),
        (260, 1, 1, "ReadyForNewScale"),
    ];
    for (later, desired, expected, reason) in table {
        let stable = history.stabilize_with(&rules, bounds, desired, NOW + later * SECOND);
        assert_eq!((stable.replicas, stable.reason), (expected, reason), "{later}");
    }
}

#[test]
fn policies_limit_the_rate() {
    let up = |select: &str, policies: Value| json!({ "scaleUp": { "policies": policies, "selectPolicy": select } });
    let down = |select: &str, policies: Value| json!({ "scaleDown": { "policies": policies, "selectPolicy": select } });
    let pods = |value: i32| json!({ "type": "Pods", "value": value, "periodSeconds": 60 });
    let percent = |value: i32| json!({ "type": "Percent", "value": value, "periodSeconds": 60 });
    // The behaviour, replicas a moment ago and now, what is wanted; then what there will be and why.
    let table = [
        (up("Max", json!([pods(4), percent(100)])), 3, 3, 20, 7, "ScaleUpLimit"),
        (up("Max", json!([pods(4), percent(100)])), 10, 10, 50, 20, "ScaleUpLimit"),
        (up("Min", json!([pods(4), percent(100)])), 10, 10, 50, 14, "ScaleUpLimit"),
        (up("Max", json!([percent(10)])), 1, 1, 9, 2, "ScaleUpLimit"),
        (up("Disabled", json!([pods(4)])), 3, 3, 9, 3, "ScaleUpLimit"),
        (up("Max", json!([pods(4)])), 3, 5, 20, 7, "ScaleUpLimit"),
        (up("Max", json!([pods(4)])), 3, 9, 20, 9, "ScaleUpLimit"),
        (up("Max", json!([pods(200)])), 3, 3, 150, 100, "TooManyReplicas"),
        (up("Max", json!([pods(i32::MAX)])), 3, 3, 150, 100, "TooManyReplicas"),
        (up("Max", json!([pods(4)])), 3, 3, 5, 5, "DesiredWithinRange"),
        (down("Max", json!([pods(4), percent(10)])), 40, 40, 1, 36, "ScaleDownLimit"),
        (down("Max", json!([pods(4), percent(50)])), 40, 40, 1, 20, "ScaleDownLimit"),
        (down("Min", json!([pods(4), percent(50)])), 40, 40, 1, 36, "ScaleDownLimit"),
        (down("Disabled", json!([pods(4)])), 40, 40, 1, 40, "ScaleDownLimit"),
        (down("Max", json!([pods(4)])), 12, 10, 1, 8, "ScaleDownLimit"),
        (down("Max", json!([percent(100)])), 9, 9, 1, 2, "TooFewReplicas"),
        (down("Max", json!([pods(4)])), 9, 9, 9, 9, "DesiredWithinRange"),
        // Nobody said anything: nothing changes.
        (json!({}), 9, 9, 1, 9, "ScaleDownLimit"),
    ];
    for (behavior, before, current, desired, expected, reason) in table {
        let text = behavior.to_string();
        let behavior = serde_json::from_value(behavior).unwrap();
        let rules = Rules::of(&behavior, Duration::ZERO);
        let mut history = History::default();
        if before != current {
            history.scaled(Some(&behavior), before, current, NOW - 30 * SECOND);
        }
        let bounds = Bounds { min: 2, max: 100, current };
        let limited = history.limit_with(&rules, bounds, desired, NOW);
        assert_eq!((limited.replicas, limited.reason), (expected, reason), "{text} {before} {current} {desired}");
        // What happened before the period does not count.
        let later = history.limit_with(&rules, bounds, desired, NOW + 31 * SECOND);
        let mut fresh = History::default();
        fresh.begin(current, NOW);
        assert_eq!(later, fresh.limit_with(&rules, bounds, desired, NOW + 31 * SECOND), "{text}");
    }
}

/// What is remembered does not grow with time.
#[test]
fn old_recommendations_make_room() {
    let (mut history, window) = (History::default(), Duration::from_secs(60));
    for step in 0..10_000 {
        history.stabilize(3, window, NOW + step * SECOND);
    }
    assert!(format!("{history:?}").matches("replicas").count() <= 62);
}

#[test]
fn limits_are_told_in_conditions_that_keep_their_places() {
    let autoscaler = of_metrics(&json!([cpu(50)]));
    let (mut history, mut status, settings) = (History::default(), Status::default(), Settings::default());
    history.begin(3, NOW);
    let mut limit =
        |wanted, at| plan::limit(&autoscaler, 3, (wanted, "cpu resource"), &mut history, &settings, at, &mut status);
    assert_eq!(limit(9, NOW), (6, "cpu resource above target".to_owned()));
    assert_eq!(limit(3, NOW + 400 * SECOND), (3, String::new()));
    assert_eq!(limit(1, NOW + 401 * SECOND), (3, "All metrics below target".to_owned()));
    let expected =
        [("AbleToScale", ("True", "ScaleDownStabilized")), ("ScalingLimited", ("False", "DesiredWithinRange"))];
    assert_eq!(conditions(&status), BTreeMap::from(expected));
    let since = status.conditions.iter().map(|one| one.last_transition_time.clone().unwrap()).collect::<Vec<_>>();
    assert_eq!(since, ["1970-01-12T13:46:40Z", "1970-01-12T13:53:20Z"]);
    assert_eq!(status.conditions[0].kind, "AbleToScale");
}
