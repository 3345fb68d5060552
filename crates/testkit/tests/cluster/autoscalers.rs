//! HorizontalPodAutoscalers on simulated nodes: what their pods use is what annotations say.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rkube_operator::kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);
/// An autoscaler is looked at every fifteen seconds.
const LOOK: Duration = Duration::from_secs(16);

struct Scaling {
    cluster: TestCluster,
}

impl Scaling {
    async fn start() -> Scaling {
        Scaling { cluster: TestCluster::builder().nodes(3).virtual_time().start().await }
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.cluster.client(), "default")
    }

    fn autoscalers(&self) -> Api<HorizontalPodAutoscaler> {
        Api::namespaced(self.cluster.client(), "default")
    }

    /// A Deployment whose pods ask for a tenth of a CPU, and use so much.
    async fn deploy(&self, name: &str, replicas: u32, usage: &str) {
        let labels = json!({ "app": name });
        let containers = json!([{ "name": "main", "image": "web", "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } } }]);
        let metadata = json!({ "labels": labels, "annotations": { "sim.rkube.io/cpu-usage": usage } });
        let template = json!({ "metadata": metadata, "spec": { "containers": containers } });
        let spec = json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
        let deployment = json!({ "metadata": { "name": name }, "spec": spec });
        let deployment = serde_json::from_value(deployment).unwrap();
        self.deployments().create(&PostParams::default(), &deployment).await.unwrap();
    }

    async fn autoscale(&self, name: &str, target: Value, metrics: Value, more: Value) {
        let mut spec = json!({ "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 10, "metrics": metrics });
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let autoscaler = json!({ "metadata": { "name": name }, "spec": spec });
        let autoscaler = serde_json::from_value(autoscaler).unwrap();
        self.autoscalers().create(&PostParams::default(), &autoscaler).await.unwrap();
    }

    /// From now on all pods use so much.
    async fn use_cpu(&self, usage: &str) {
        let pods = Api::<Pod>::namespaced(self.cluster.client(), "default");
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { "sim.rkube.io/cpu-usage": usage } } }));
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            pods.patch(&pod.metadata.name.unwrap(), &PatchParams::default(), &patch).await.unwrap();
        }
    }

    async fn replicas(&self, name: &str) -> i32 {
        self.deployments().get(name).await.unwrap().spec.unwrap().replicas.unwrap()
    }

    /// Waits until so many are wanted and available.
    async fn available(&self, name: &str, replicas: i32) {
        let deployments = self.deployments();
        self.cluster
            .eventually(&format!("{name} has {replicas} replicas"), async || {
                let found = deployments.get(name).await.map_err(|error| error.to_string())?;
                let (spec, status) = (found.spec.unwrap(), found.status.unwrap_or_default());
                let all = (spec.replicas, status.available_replicas, status.replicas);
                if all == (Some(replicas), Some(replicas), Some(replicas)) { Ok(()) } else { Err(format!("{all:?}")) }
            })
            .await;
    }

    async fn status(&self, name: &str) -> HorizontalPodAutoscalerStatus {
        self.autoscalers().get(name).await.unwrap().status.unwrap_or_default()
    }

    /// Type, status and reason of the conditions.
    async fn conditions(&self, name: &str) -> Vec<String> {
        let all = self.status(name).await.conditions.unwrap_or_default();
        all.iter().map(|one| format!("{}={} {}", one.type_, one.status, one.reason.as_deref().unwrap_or("-"))).collect()
    }

    async fn message(&self, name: &str, of: &str) -> String {
        let all = self.status(name).await.conditions.unwrap_or_default();
        all.into_iter().find(|one| one.type_ == of).and_then(|one| one.message).unwrap_or_default()
    }

    /// Reasons and messages of what the controller told, in order.
    async fn told(&self, name: &str) -> Vec<(String, String)> {
        let events = Api::<Event>::namespaced(self.cluster.client(), "default");
        let mut all = events.list(&ListParams::default()).await.unwrap().items;
        all.retain(|event| event.involved_object.name.as_deref() == Some(name));
        all.retain(|event| event.source.as_ref().unwrap().component.as_deref() == Some("horizontal-pod-autoscaler"));
        all.sort_by_key(|event| event.first_timestamp.clone().map(|time| time.0));
        all.into_iter().map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
    }
}

fn deployment(name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": name })
}

fn cpu(percent: i32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": percent });
    json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }])
}

/// By the book: three pods at 80% with a target of 50% become five; and down again after the window.
#[tokio::test]
async fn three_pods_become_five_and_one_again() {
    let scaling = Scaling::start().await;
    scaling.deploy("web", 3, "80m").await;
    scaling.available("web", 3).await;
    scaling.autoscale("web", deployment("web"), cpu(50), json!({})).await;
    scaling.available("web", 5).await;
    scaling.use_cpu("48m").await;
    scaling.cluster.advance(10 * MINUTE).await;
    assert_eq!(scaling.replicas("web").await, 5);
    let status = scaling.status("web").await;
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(5), 5));
    assert!(status.last_scale_time.is_some());
    let metrics = serde_json::to_value(&status.current_metrics).unwrap();
    let current = json!({ "averageUtilization": 48, "averageValue": "48m" });
    assert_eq!(metrics, json!([{ "type": "Resource", "resource": { "name": "cpu", "current": current } }]));
    let expected = [
        "AbleToScale=True ReadyForNewScale",
        "ScalingActive=True ValidMetricFound",
        "ScalingLimited=False DesiredWithinRange",
    ];
    assert_eq!(scaling.conditions("web").await, expected);

    scaling.use_cpu("10m").await;
    scaling.cluster.advance(4 * MINUTE).await;
    assert_eq!(scaling.replicas("web").await, 5, "more were wanted less than five minutes ago");
    assert_eq!(scaling.conditions("web").await[0], "AbleToScale=True ScaleDownStabilized");
    scaling.cluster.advance(2 * MINUTE).await;
    assert_eq!(scaling.replicas("web").await, 1);
    let told = scaling.told("web").await;
    let size =
        |size: i32, reason: &str| ("SuccessfulRescale".to_owned(), format!("New size: {size}; reason: {reason}"));
    let above = "cpu resource utilization (percentage of request) above target";
    let rescaled: Vec<_> = told.into_iter().filter(|(reason, _)| reason == "SuccessfulRescale").collect();
    assert_eq!(rescaled, [size(5, above), size(1, "All metrics below target")]);
}

/// Who has nothing to do writes nothing.
#[tokio::test]
async fn an_autoscaler_that_is_content_is_quiet() {
    let scaling = Scaling::start().await;
    scaling.deploy("web", 2, "50m").await;
    scaling.available("web", 2).await;
    scaling.autoscale("web", deployment("web"), cpu(50), json!({})).await;
    scaling.cluster.advance(10 * MINUTE).await;
    let before = scaling.autoscalers().get("web").await.unwrap();
    assert_eq!(before.status.as_ref().unwrap().current_replicas, Some(2));
    scaling.cluster.advance(60 * MINUTE).await;
    let after = scaling.autoscalers().get("web").await.unwrap();
    assert_eq!(before.metadata.resource_version, after.metadata.resource_version);
}

#[tokio::test]
async fn bounds_need_no_metrics() {
    let scaling = Scaling::start().await;
    for (name, replicas, expected, why) in
        [("few", 1, 2, "below Spec.MinReplicas"), ("many", 6, 4, "above Spec.MaxReplicas"), ("none", 0, 0, "")]
    {
        scaling.deploy(name, replicas, "50m").await;
        let bounds = json!({ "minReplicas": 2, "maxReplicas": 4 });
        scaling.autoscale(name, deployment(name), cpu(50), bounds).await;
        scaling.cluster.advance(LOOK).await;
        assert_eq!(scaling.replicas(name).await, expected, "{name}");
        if expected == 0 {
            let expected = ["AbleToScale=True SucceededGetScale", "ScalingActive=False ScalingDisabled"];
            assert_eq!(scaling.conditions(name).await, expected);
            continue;
        }
        assert_eq!(scaling.conditions(name).await, ["AbleToScale=True SucceededRescale"]);
        let told = format!("New size: {expected}; reason: Current number of replicas {why}");
        assert_eq!(scaling.told(name).await, [("SuccessfulRescale".to_owned(), told)]);
    }
}

/// Containers are looked at one by one, and behaviour slows down.
#[tokio::test]
async fn a_container_is_scaled_by_as_it_may() {
    let scaling = Scaling::start().await;
    scaling.deploy("web", 2, "100m").await;
    scaling.available("web", 2).await;
    let target = json!({ "type": "Utilization", "averageUtilization": 20 });
    let metric = json!({ "name": "cpu", "container": "main", "target": target });
    let metrics = json!([{ "type": "ContainerResource", "containerResource": metric }]);
    let policies = json!([{ "type": "Pods", "value": 1, "periodSeconds": 60 }]);
    let behavior = json!({ "scaleUp": { "policies": policies }, "scaleDown": { "selectPolicy": "Disabled" } });
    scaling.autoscale("web", deployment("web"), metrics, json!({ "behavior": behavior })).await;
    scaling.available("web", 3).await;
    let limited = "ScalingLimited=True ScaleUpLimit".to_owned();
    assert!(scaling.conditions("web").await.contains(&limited));
    scaling.cluster.advance(30 * MINUTE).await;
    assert_eq!(scaling.replicas("web").await, 10);
    assert!(scaling.conditions("web").await.contains(&"ScalingLimited=True TooManyReplicas".to_owned()));
    scaling.use_cpu("1m").await;
    scaling.cluster.advance(30 * MINUTE).await;
    assert_eq!(scaling.replicas("web").await, 10, "down is disabled");
}

#[tokio::test]
async fn metrics_that_nobody_has_are_told_of() {
    let scaling = Scaling::start().await;
    scaling.deploy("web", 2, "50m").await;
    scaling.available("web", 2).await;
    let (named, average) = (json!({ "name": "qps" }), json!({ "type": "AverageValue", "averageValue": "10" }));
    let object = json!({ "describedObject": deployment("web"), "metric": named, "target": average });
    let custom =
        "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";
    let external = "unable to fetch metrics from external metrics API: the server could not find the requested resource (get qps.external.metrics.k8s.io)";
    let container =
        json!({ "name": "cpu", "container": "side", "target": { "type": "Utilization", "averageUtilization": 1 } });
    let cases = [
        (
            "pods",
            json!({ "type": "Pods", "pods": { "metric": named, "target": average } }),
            "FailedGetPodsMetric",
            format!("unable to get metric qps: {custom}"),
        ),
        (
            "object",
            json!({ "type": "Object", "object": object }),
            "FailedGetObjectMetric",
            format!("unable to get metric qps: Deployment on default web/{custom}"),
        ),
        (
            "external",
            json!({ "type": "External", "external": { "metric": named, "target": average } }),
            "FailedGetExternalMetric",
            format!("unable to get external metric default/qps/nil: {external}"),
        ),
        (
            "container",
            json!({ "type": "ContainerResource", "containerResource": container }),
            "FailedGetContainerResourceMetric",
            "failed to get cpu utilization: did not receive metrics for targeted pods (pods might be unready)"
                .to_owned(),
        ),
    ];
    for (name, metric, reason, told) in cases {
        scaling.autoscale(name, deployment("web"), json!([metric]), json!({})).await;
        scaling.cluster.advance(LOOK).await;
        let expected = ["AbleToScale=True SucceededGetScale".to_owned(), format!("ScalingActive=False {reason}")];
        assert_eq!(scaling.conditions(name).await, expected);
        let message = format!("the HPA was unable to compute the replica count: {told}");
        assert_eq!(scaling.message(name, "ScalingActive").await, message);
        let events = scaling.told(name).await;
        assert_eq!(events[0], (reason.to_owned(), told));
        assert_eq!(events[1].0, "FailedComputeMetricsReplicas");
        assert!(events[1].1.starts_with("invalid metrics (1 invalid out of 1), first error is: failed to get "));
        assert_eq!(scaling.replicas("web").await, 2);
        scaling.autoscalers().delete(name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn targets_that_cannot_be_scaled_are_told_of() {
    let scaling = Scaling::start().await;
    let cases = [
        (
            "kind",
            json!({ "apiVersion": "example.com/v1", "kind": "Thing", "name": "a" }),
            "no matches for kind \"Thing\" in group \"example.com\"",
        ),
        (
            "scaleless",
            json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent" }),
            "the server could not find the requested resource",
        ),
        ("gone", deployment("gone"), "deployments.apps \"gone\" not found"),
    ];
    for (name, target, error) in cases {
        scaling.autoscale(name, target, cpu(50), json!({})).await;
        scaling.cluster.advance(LOOK).await;
        assert_eq!(scaling.conditions(name).await, ["AbleToScale=False FailedGetScale"]);
        let message = format!("the HPA controller was unable to get the target's current scale: {error}");
        assert_eq!(scaling.message(name, "AbleToScale").await, message);
        assert_eq!(scaling.told(name).await, [("FailedGetScale".to_owned(), error.to_owned())]);
    }
    // It comes, and goes again.
    scaling.deploy("gone", 1, "50m").await;
    scaling.cluster.advance(2 * MINUTE).await;
    assert_eq!(
        scaling.conditions("gone").await[..2],
        ["AbleToScale=True ReadyForNewScale", "ScalingActive=True ValidMetricFound"]
    );
    scaling.deployments().delete("gone", &DeleteParams::default()).await.unwrap();
    scaling.cluster.advance(MINUTE).await;
    assert_eq!(scaling.conditions("gone").await[0], "AbleToScale=False FailedGetScale");
}

#[tokio::test]
async fn two_autoscalers_of_the_same_pods_do_nothing() {
    let scaling = Scaling::start().await;
    scaling.deploy("web", 3, "100m").await;
    scaling.available("web", 3).await;
    for name in ["one", "two"] {
        scaling.autoscale(name, deployment("web"), cpu(500), json!({ "minReplicas": 3 })).await;
    }
    scaling.cluster.advance(5 * MINUTE).await;
    let all = "pods by selector app=web are controlled by multiple HPAs: [default/one default/two]";
    for name in ["one", "two"] {
        assert_eq!(scaling.conditions(name).await[1], "ScalingActive=False AmbiguousSelector", "{name}");
        assert_eq!(scaling.message(name, "ScalingActive").await, all);
    }
    scaling.autoscalers().delete("one", &DeleteParams::default()).await.unwrap();
    scaling.cluster.advance(MINUTE).await;
    assert_eq!(scaling.conditions("two").await[1], "ScalingActive=True ValidMetricFound");
}

/// Anything with a scale is scaled: here by a selector that a custom resource names.
#[tokio::test]
async fn a_custom_resource_is_scaled() {
    let scaling = Scaling::start().await;
    let client = scaling.cluster.client();
    let properties = json!({ "spec": { "type": "object", "properties": { "size": { "type": "integer" } } },
        "status": { "type": "object", "properties": { "size": { "type": "integer" }, "selector": { "type": "string" } } } });
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": properties } },
        "subresources": { "status": {}, "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector" } },
    });
    let names = json!({ "plural": "stages", "singular": "stage", "kind": "Stage" });
    let definition = json!({ "metadata": { "name": "stages.example.com" },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": names, "versions": [version] } });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    definitions.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
    scaling.cluster.advance(LOOK).await;
    let resource = ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: "Stage".into(),
        plural: "stages".into(),
    };
    let stages = Api::<DynamicObject>::namespaced_with(client, "default", &resource);
    let stage = json!({ "apiVersion": "example.com/v1", "kind": "Stage", "metadata": { "name": "main" }, "spec": { "size": 3 } });
    stages.create(&PostParams::default(), &serde_json::from_value(stage).unwrap()).await.unwrap();
    scaling.deploy("web", 3, "80m").await;
    scaling.available("web", 3).await;
    let target = json!({ "apiVersion": "example.com/v1", "kind": "Stage", "name": "main" });
    scaling.autoscale("stage", target, cpu(50), json!({})).await;
    scaling.cluster.advance(LOOK).await;
    assert_eq!(scaling.conditions("stage").await[1], "ScalingActive=False InvalidSelector");
    assert_eq!(scaling.told("stage").await[0], ("SelectorRequired".to_owned(), "selector is required".to_owned()));
    let patch = Patch::Merge(json!({ "status": { "size": 3, "selector": "app=web" } }));
    stages.patch_status("main", &PatchParams::default(), &patch).await.unwrap();
    scaling.cluster.advance(2 * LOOK).await;
    assert_eq!(stages.get("main").await.unwrap().data["spec"]["size"], 5);
    assert_eq!(scaling.replicas("web").await, 3, "nobody scales these");
}
