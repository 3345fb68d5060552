//! Nodes that come and go: who gets which addresses, and what becomes of the pods of a node that is gone.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use rkube_cluster::SimulatedNodes;
use rkube_cluster::parts::NodeTemplate;
use rkube_operator::kube::Client;
use rkube_operator::kube::api::{Api, DeleteParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(3);
/// So many nodes get a part of the cluster's addresses.
const NODES: usize = 256;

async fn create_node(client: &Client, name: &str, spec: Value) {
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
}

async fn range(client: &Client, name: &str) -> String {
    let node: Node = Api::all(client.clone()).get(name).await.unwrap();
    node.spec.and_then(|spec| spec.pod_cidr).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn no_two_nodes_get_the_same_addresses() {
    let cluster = TestCluster::builder().virtual_time().start().await;
    let client = cluster.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let taken = "10.244.1.0/24";
    create_node(&client, "first", json!({})).await;
    create_node(&client, "claims", json!({ "podCIDR": taken, "podCIDRs": [taken] })).await;
    create_node(&client, "thief", json!({ "podCIDR": taken, "podCIDRs": [taken] })).await;
    create_node(&client, "last", json!({})).await;
    cluster.advance(SOON).await;
    assert_eq!(
        (range(&client, "first").await, range(&client, "last").await),
        ("10.244.0.0/24".into(), "10.244.2.0/24".into())
    );
    nodes.delete("thief", &DeleteParams::default()).await.unwrap();
    for number in 3..NODES {
        create_node(&client, &format!("n{number}"), json!({})).await;
    }
    create_node(&client, "late", json!({})).await;
    cluster.advance(SOON).await;
    assert_eq!(range(&client, "late").await, "", "what the thief claimed is still another's");
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let events = events.list(&Default::default()).await.unwrap().items;
    let said = events.iter().any(|event| event.message.as_deref() == Some("Node late status is now: CIDRNotAvailable"));
    assert!(said, "{events:?}");

    nodes.delete("first", &DeleteParams::default()).await.unwrap();
    cluster.advance(SOON).await;
    assert_eq!(range(&client, "late").await, "10.244.0.0/24", "it gets what is given back");
    nodes.delete("last", &DeleteParams::default()).await.unwrap();
    create_node(&client, "last", json!({})).await;
    cluster.advance(SOON).await;
    assert_eq!(range(&client, "last").await, "10.244.2.0/24", "another node of the same name");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_gone_go_too() {
    let part = SimulatedNodes { count: 2, template: NodeTemplate::default(), ranges_are_given: true };
    let cluster = TestCluster::builder().virtual_time().part(part.into()).start().await;
    let client = cluster.client();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    for (name, node) in [("stays", "sim-0"), ("goes", "sim-1"), ("held", "sim-1")] {
        let finalizers: &[&str] = if name == "held" { &["example.com/hold"] } else { &[] };
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "finalizers": finalizers },
            "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
        }))
        .unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    cluster.advance(SOON).await;
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.delete("sim-1", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(30)).await;
    assert!(pods.get_opt("goes").await.unwrap().is_some(), "the node may come back");
    cluster.advance(Duration::from_secs(60)).await;
    assert!(pods.get_opt("goes").await.unwrap().is_none());
    assert!(pods.get_opt("stays").await.unwrap().is_some());
    let held = serde_json::to_value(pods.get("held").await.unwrap()).unwrap();
    assert_eq!(held["status"]["phase"], "Failed");
    let conditions = held["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("DeletionByPodGC")));
    assert_eq!(target["message"], "PodGC: node no longer exists");
}
