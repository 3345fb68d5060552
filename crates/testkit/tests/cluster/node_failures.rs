//! Nodes that are lost: what is said of them, and what becomes of their pods.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use rkube_operator::kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Client, ResourceExt as _};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

/// A node that is lost is found out, and tainted, within this.
const FOUND_OUT: Duration = Duration::from_secs(70);
/// How long pods stand such a taint, if they do not say otherwise.
const TOLERATED: Duration = Duration::from_secs(300);
const SOON: Duration = Duration::from_secs(3);

async fn patch_node(client: &Client, name: &str, patch: Value) {
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn fail(client: &Client, name: &str, fault: Option<&str>) {
    patch_node(client, name, json!({ "metadata": { "annotations": { "sim.rkube.io/fault": fault } } })).await;
}

async fn deploy(client: &Client, replicas: usize, spec: Value) {
    let mut pod = json!({ "terminationGracePeriodSeconds": 1, "containers": [{ "name": "c", "image": "i" }] });
    pod.as_object_mut().unwrap().extend(spec.as_object().cloned().unwrap_or_default());
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": pod },
        },
    }))
    .unwrap();
    Api::namespaced(client.clone(), "default").create(&PostParams::default(), &deployment).await.unwrap();
}

async fn pods(client: &Client) -> Vec<Pod> {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    api.list(&ListParams::default()).await.unwrap().items
}

/// How many pods are ready and stay, on any node but this.
async fn ready_elsewhere(client: &Client, node: &str) -> usize {
    let is_ready = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.clone().any(|one| one.type_ == "Ready" && one.status == "True")
    };
    let is_elsewhere = |pod: &&Pod| {
        let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        pod.metadata.deletion_timestamp.is_none() && name.is_some_and(|name| name != node) && is_ready(pod)
    };
    pods(client).await.iter().filter(is_elsewhere).count()
}

async fn terminating(client: &Client) -> usize {
    pods(client).await.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count()
}

/// `key:effect` of each of a node's taints.
async fn taints(client: &Client, name: &str) -> Vec<String> {
    let node: Node = Api::all(client.clone()).get(name).await.unwrap();
    let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
    let mut taints: Vec<String> = taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect();
    taints.sort();
    taints
}

/// Reasons and messages of events about objects of a kind.
async fn said(client: &Client, kind: &str) -> Vec<(String, String)> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let about = events.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some(kind));
    about.map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
}

async fn on_node(client: &Client, name: &str) -> usize {
    let is_on = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name);
    pods(client).await.iter().filter(is_on).count()
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_node_run_elsewhere_after_five_minutes() {
    let cluster = TestCluster::builder().virtual_time().nodes(3).start().await;
    let client = cluster.client();
    deploy(&client, 60, json!({})).await;
    cluster.advance(SOON).await;
    let lost = on_node(&client, "sim-1").await;
    assert!(lost > 0 && ready_elsewhere(&client, "").await == 60);

    fail(&client, "sim-1", Some("lost")).await;
    cluster.advance(FOUND_OUT).await;
    let unreachable = ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"];
    assert_eq!(taints(&client, "sim-1").await, unreachable);
    assert_eq!(ready_elsewhere(&client, "").await, 60 - lost, "pods of a silent node are not ready");
    assert_eq!(terminating(&client).await, 0);
    let nodes = said(&client, "Node").await;
    let expected = [
        ("RegisteredNode", "Node sim-1 event: Registered Node sim-1 in Controller"),
        ("NodeNotReady", "Node sim-1 status is now: NodeNotReady"),
    ];
    for (reason, message) in expected {
        assert!(nodes.contains(&(reason.to_owned(), message.to_owned())), "{reason}: {nodes:?}");
    }
    let unready = said(&client, "Pod").await;
    assert!(unready.contains(&("NodeNotReady".to_owned(), "Node is not ready".to_owned())), "{unready:?}");

    cluster.advance(TOLERATED - FOUND_OUT + Duration::from_secs(35)).await;
    assert_eq!(terminating(&client).await, 0, "they are tolerated for five minutes from the taint on");
    cluster.advance(Duration::from_secs(35) + SOON).await;
    assert_eq!(ready_elsewhere(&client, "sim-1").await, 60);
    assert_eq!(terminating(&client).await, lost, "nobody ends them: their node is lost");
    let evicted = pods(&client).await.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_some()).unwrap();
    let conditions = serde_json::to_value(evicted.status.clone().unwrap().conditions).unwrap();
    let target = conditions.as_array().and_then(|conditions| conditions.last()).unwrap();
    assert_eq!((&target["type"], &target["status"]), (&json!("DisruptionTarget"), &json!("True")), "{conditions}");
    assert_eq!(target["reason"], "DeletionByTaintManager");
    assert_eq!(target["message"], "Taint manager: deleting due to NoExecute taint");
    let message = format!("Marking for deletion Pod default/{}", evicted.name_any());
    let evictions = said(&client, "Pod").await;
    assert!(evictions.contains(&("TaintManagerEviction".to_owned(), message)), "{evictions:?}");

    fail(&client, "sim-1", None).await;
    cluster.advance(Duration::from_secs(60)).await;
    assert!(taints(&client, "sim-1").await.is_empty());
    assert_eq!((terminating(&client).await, pods(&client).await.len()), (0, 60));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_time_keeps_its_pods() {
    let cluster = TestCluster::builder().virtual_time().nodes(3).start().await;
    let client = cluster.client();
    deploy(&client, 6, json!({})).await;
    cluster.advance(SOON).await;
    let mut before: Vec<String> = pods(&client).await.iter().map(|pod| pod.name_any()).collect();
    fail(&client, "sim-0", Some("lost")).await;
    cluster.advance(FOUND_OUT + Duration::from_secs(100)).await;
    assert_eq!(taints(&client, "sim-0").await.len(), 2);
    fail(&client, "sim-0", None).await;
    cluster.advance(TOLERATED * 2).await;
    assert!(taints(&client, "sim-0").await.is_empty());
    let mut after: Vec<String> = pods(&client).await.iter().map(|pod| pod.name_any()).collect();
    before.sort();
    after.sort();
    assert_eq!(before, after);
    assert_eq!(ready_elsewhere(&client, "").await, 6);
    let cancelled = said(&client, "Pod").await;
    let is_cancelled = |(reason, message): &(String, String)| {
        reason == "TaintManagerEviction" && message.starts_with("Cancelling deletion of Pod default/web-")
    };
    assert!(cancelled.iter().any(is_cancelled), "{cancelled:?}");
}

#[tokio::test(start_paused = true)]
async fn when_all_nodes_are_lost_no_pod_goes() {
    let cluster = TestCluster::builder().virtual_time().nodes(3).start().await;
    let client = cluster.client();
    deploy(&client, 6, json!({})).await;
    cluster.advance(SOON).await;
    for name in ["sim-0", "sim-1", "sim-2"] {
        fail(&client, name, Some("lost")).await;
    }
    cluster.advance(TOLERATED * 3).await;
    for name in ["sim-0", "sim-1", "sim-2"] {
        assert_eq!(taints(&client, name).await, ["node.kubernetes.io/unreachable:NoSchedule"], "{name}");
    }
    assert_eq!((terminating(&client).await, pods(&client).await.len()), (0, 6));
    // Two of them come back: the third is the one that is lost.
    fail(&client, "sim-0", None).await;
    fail(&client, "sim-1", None).await;
    cluster.advance(FOUND_OUT + TOLERATED + SOON).await;
    assert!(taints(&client, "sim-0").await.is_empty());
    assert_eq!(taints(&client, "sim-2").await.len(), 2);
    assert_eq!(ready_elsewhere(&client, "sim-2").await, 6);
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_is_mostly_lost_is_left_alone_and_another_is_not() {
    let cluster = TestCluster::builder().virtual_time().nodes(8).start().await;
    let client = cluster.client();
    let in_zone = |zone: &str| json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } });
    for index in 0..8 {
        patch_node(&client, &format!("sim-{index}"), in_zone(if index < 4 { "a" } else { "b" })).await;
    }
    deploy(&client, 16, json!({})).await;
    cluster.advance(SOON).await;
    for index in [0, 1, 2, 4] {
        fail(&client, &format!("sim-{index}"), Some("lost")).await;
    }
    cluster.advance(FOUND_OUT + TOLERATED * 2).await;
    let (mut tainted, mut going) = (Vec::new(), 0);
    for index in 0..8 {
        let name = format!("sim-{index}");
        if taints(&client, &name).await.contains(&"node.kubernetes.io/unreachable:NoExecute".to_owned()) {
            tainted.push(index);
            going += on_node(&client, &name).await;
        }
    }
    // The first of the small zone may have had its turn before it was known how many are lost.
    assert!(tainted.contains(&4) && tainted.len() <= 2, "{tainted:?}");
    assert_eq!(terminating(&client).await, going);
}

#[tokio::test(start_paused = true)]
async fn pods_go_by_their_own_tolerations() {
    let cluster = TestCluster::builder().virtual_time().nodes(2).start().await;
    let client = cluster.client();
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let toleration = |seconds: Option<i64>| match seconds {
        Some(seconds) => {
            json!({ "key": "out", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds })
        }
        None => json!({ "key": "out", "operator": "Exists", "effect": "NoExecute" }),
    };
    for (name, tolerations) in [
        ("none", vec![]),
        ("short", vec![toleration(Some(20))]),
        ("long", vec![toleration(Some(60))]),
        ("ever", vec![toleration(None)]),
    ] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "nodeName": "sim-0", "tolerations": tolerations, "terminationGracePeriodSeconds": 1,
                "containers": [{ "name": "c", "image": "i" }],
            },
        }))
        .unwrap();
        api.create(&PostParams::default(), &pod).await.unwrap();
    }
    cluster.advance(SOON).await;
    let left = async || pods(&client).await.iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
    let taint = json!([{ "key": "out", "value": "x", "effect": "NoExecute" }]);
    patch_node(&client, "sim-0", json!({ "spec": { "taints": taint } })).await;
    cluster.advance(SOON).await;
    assert_eq!(left().await, ["ever", "long", "short"]);
    cluster.advance(Duration::from_secs(20)).await;
    assert_eq!(left().await, ["ever", "long"]);
    patch_node(&client, "sim-0", json!({ "spec": { "taints": null } })).await;
    cluster.advance(Duration::from_secs(100)).await;
    assert_eq!(left().await, ["ever", "long"], "without the taint nobody has to go");
    patch_node(&client, "sim-0", json!({ "spec": { "taints": taint } })).await;
    cluster.advance(Duration::from_secs(50)).await;
    assert_eq!(left().await, ["ever", "long"], "its time counts from the taint on");
    cluster.advance(Duration::from_secs(15)).await;
    assert_eq!(left().await, ["ever"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_told_how_long_to_keep_what_they_know() {
    let cluster = TestCluster::builder().virtual_time().nodes(2).start().await;
    let client = cluster.client();
    cluster.advance(SOON).await;
    let ttl = async |name: &str| {
        let node: Node = Api::all(client.clone()).get(name).await.unwrap();
        node.annotations().get("node.alpha.kubernetes.io/ttl").cloned()
    };
    assert_eq!(ttl("sim-0").await.as_deref(), Some("0"));
    let nodes: Api<Node> = Api::all(client.clone());
    for index in 0..99 {
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": format!("n{index}") } })).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    cluster.advance(SOON).await;
    assert_eq!(ttl("sim-0").await.as_deref(), Some("15"));
}
