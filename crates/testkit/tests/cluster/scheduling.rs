//! Pods get nodes: what the API shows of it, and what happens when answers are lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{Binding, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use rkube_cluster::{Part, component_user};
use rkube_operator::kube::api::{ListParams, PostParams};
use rkube_operator::kube::{Api, Client};
use rkube_store::{Memory, Store};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

async fn make_node(cluster: &TestCluster, name: &str, pods: usize) {
    let nodes = Api::<Node>::all(cluster.client());
    let node = json!({
        "metadata": { "name": name },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": pods.to_string() } },
    });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
}

fn pods(cluster: &TestCluster) -> Api<Pod> {
    Api::namespaced(cluster.client(), "default")
}

async fn make_pod(cluster: &TestCluster, name: &str, spec: Value) {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pods(cluster).create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

/// How many pods are on which node; under the empty name those that wait.
async fn by_node(cluster: &TestCluster) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods(cluster).list(&ListParams::default()).await.unwrap() {
        *counts.entry(pod.spec.unwrap().node_name.unwrap_or_default()).or_default() += 1;
    }
    counts
}

async fn node_of(cluster: &TestCluster, name: &str) -> String {
    let node = async || {
        let node = pods(cluster).get(name).await.unwrap().spec.unwrap().node_name;
        node.ok_or_else(|| "it has no node".to_owned())
    };
    cluster.eventually("a pod gets a node", node).await
}

/// The condition as it is once it says this.
async fn condition(cluster: &TestCluster, name: &str, message: &str) -> Value {
    let found = async || {
        let pod = serde_json::to_value(pods(cluster).get(name).await.unwrap()).unwrap();
        let one = pod["status"]["conditions"][0].clone();
        if one["message"] == message { Ok(one) } else { Err(one.to_string()) }
    };
    cluster.eventually("a pod says why it waits", found).await
}

#[tokio::test]
async fn a_pod_says_why_it_waits_and_then_gets_a_node() {
    let cluster = TestCluster::start().await;
    make_pod(&cluster, "p", json!({})).await;
    let waits = condition(&cluster, "p", "no nodes available to schedule pods").await;
    assert_eq!((&waits["type"], &waits["status"]), (&json!("PodScheduled"), &json!("False")));
    assert_eq!((&waits["reason"], &waits["observedGeneration"]), (&json!("Unschedulable"), &json!(1)));
    make_node(&cluster, "n", 10).await;
    assert_eq!(node_of(&cluster, "p").await, "n");
    let events = Api::<Event>::namespaced(cluster.client(), "default");
    let scheduled = async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        all.into_iter().find(|event| event.reason.as_deref() == Some("Scheduled")).ok_or_else(|| "none".to_owned())
    };
    let event = cluster.eventually("an event says so", scheduled).await;
    assert_eq!(event.note.as_deref(), Some("Successfully assigned default/p to n"));
    assert_eq!(event.action.as_deref(), Some("Binding"));
    assert_eq!(event.reporting_controller.as_deref(), Some("default-scheduler"));
    assert_eq!(event.reporting_instance.as_deref(), Some("default-scheduler-test"));
    let pod = pods(&cluster).get("p").await.unwrap();
    let managers = pod.metadata.managed_fields.unwrap();
    assert!(managers.iter().any(|one| one.manager.as_deref() == Some("kube-scheduler")), "{managers:?}");
}

#[tokio::test]
async fn nodes_are_filled_and_no_further() {
    let cluster = TestCluster::start().await;
    for node in ["n0", "n1", "n2"] {
        make_node(&cluster, node, 5).await;
    }
    for number in 0..20 {
        make_pod(&cluster, &format!("p{number}"), json!({})).await;
    }
    let full = async || {
        let counts = by_node(&cluster).await;
        if counts.get("") == Some(&5) { Ok(counts) } else { Err(format!("{counts:?}")) }
    };
    let counts = cluster.eventually("all but five have a node", full).await;
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [5, 5, 5, 5]);
    // One goes, another one comes.
    let all = pods(&cluster).list(&ListParams::default()).await.unwrap();
    let one = all.items.iter().find(|pod| pod.spec.as_ref().unwrap().node_name.is_some()).unwrap();
    let now = rkube_operator::kube::api::DeleteParams::default().grace_period(0);
    pods(&cluster).delete(one.metadata.name.as_ref().unwrap(), &now).await.unwrap();
    let next = async || if by_node(&cluster).await.get("") == Some(&4) { Ok(()) } else { Err("not yet".to_owned()) };
    cluster.eventually("one of those that wait gets its place", next).await;
}

#[tokio::test]
async fn gates_and_other_schedulers_are_respected() {
    let cluster = TestCluster::start().await;
    make_node(&cluster, "n", 10).await;
    make_pod(&cluster, "gated", json!({ "schedulingGates": [{ "name": "a.b/c" }] })).await;
    make_pod(&cluster, "others", json!({ "schedulerName": "another" })).await;
    make_pod(&cluster, "ours", json!({})).await;
    assert_eq!(node_of(&cluster, "ours").await, "n");
    assert_eq!(by_node(&cluster).await.get(""), Some(&2));
    let open = json!([{ "op": "remove", "path": "/spec/schedulingGates" }]);
    let open = rkube_operator::kube::api::Patch::<()>::Json(serde_json::from_value(open).unwrap());
    pods(&cluster).patch("gated", &Default::default(), &open).await.unwrap();
    assert_eq!(node_of(&cluster, "gated").await, "n");
}

/// A client that sends, and now and then tells nobody what came of it, or does not send at all.
fn losing(client: Client, lost: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: http::Request<rkube_operator::kube::client::Body>| {
        let (client, number) = (client.clone(), lost.fetch_add(1, Ordering::Relaxed));
        async move {
            let gone = || Box::<dyn std::error::Error + Send + Sync>::from("the connection is gone");
            if number % 5 == 3 {
                return Err(gone());
            }
            let answer = client.send(request).await.map_err(|_| gone())?;
            if number % 3 == 1 { Err(gone()) } else { Ok(answer) }
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn an_answer_that_is_lost_binds_nobody_twice_and_overfills_nothing() {
    let lost = Arc::new(AtomicUsize::new(0));
    let counting = lost.clone();
    let part = Part::new(None, move |host| {
        let user = component_user(rkube_scheduler::USER, &[]);
        rkube_scheduler::start(rkube_scheduler::Config {
            client: losing(host.client(user.clone(), rkube_scheduler::AGENT), counting),
            source: host.source(user),
            clock: host.clock().clone(),
            entropy: host.entropy().clone(),
            names: vec![rkube_scheduler::DEFAULT_NAME.to_owned(), "another".to_owned()],
            percentage_of_nodes_to_score: 0,
            host_name: "test".to_owned(),
        })
    });
    let cluster = TestCluster::builder().without_scheduler().part(part).virtual_time().start().await;
    for node in ["n0", "n1", "n2", "n3"] {
        make_node(&cluster, node, 10).await;
    }
    for number in 0..50 {
        let name = if number % 2 == 0 { "another" } else { rkube_scheduler::DEFAULT_NAME };
        make_pod(&cluster, &format!("p{number}"), json!({ "schedulerName": name })).await;
    }
    let full = async || {
        let counts = by_node(&cluster).await;
        assert!(counts.iter().all(|(node, count)| node.is_empty() || *count <= 10), "{counts:?}");
        if counts.get("") == Some(&10) { Ok(()) } else { Err(format!("{counts:?}")) }
    };
    cluster.eventually("all but ten have a node", full).await;
    assert!(lost.load(Ordering::Relaxed) > 50);
}

#[tokio::test]
async fn the_next_scheduler_counts_what_the_last_one_did() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let first = TestCluster::builder().store(store.clone()).start().await;
    make_node(&first, "n", 3).await;
    make_pod(&first, "p0", json!({})).await;
    node_of(&first, "p0").await;
    // Another one is bound by hand.
    make_pod(&first, "p1", json!({ "schedulerName": "by hand" })).await;
    let binding: Binding =
        serde_json::from_value(json!({ "metadata": { "name": "p1" }, "target": { "kind": "Node", "name": "n" } }))
            .unwrap();
    let _: Value = pods(&first).create_subresource("binding", "p1", &PostParams::default(), &binding).await.unwrap();
    first.shutdown().await;
    let second = TestCluster::builder().store(store).start().await;
    make_pod(&second, "p2", json!({})).await;
    make_pod(&second, "p3", json!({})).await;
    assert_eq!(node_of(&second, "p2").await, "n");
    let outlook = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    condition(&second, "p3", &format!("0/1 nodes are available: 1 Too many pods. {outlook}")).await;
}
