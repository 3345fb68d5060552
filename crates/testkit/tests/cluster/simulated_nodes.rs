//! Pods on simulated nodes, as clients see them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use rkube_cluster::SimulatedNodes;
use rkube_cluster::parts::NodeTemplate;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Client, ResourceExt as _};
use rkube_store::{Memory, Store};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

/// Controllers that have nothing to do with pods on nodes.
const CONTROLLERS: &str = "serviceaccount-controller,root-ca-certificate-publisher-controller";

async fn cluster(nodes: usize, store: Option<Arc<dyn Store>>) -> TestCluster {
    let part = SimulatedNodes { count: nodes, template: NodeTemplate::default(), ranges_are_given: false };
    let builder = TestCluster::builder().controllers(CONTROLLERS).virtual_time().part(part.into());
    let builder = match store {
        Some(store) => builder.store(store),
        None => builder,
    };
    builder.start().await
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

async fn create(client: &Client, name: &str, more: Value) {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "nodeName": "sim-0", "containers": [{ "name": "a", "image": "web" }] },
    });
    merge(&mut pod, more);
    pods(client).create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

fn merge(to: &mut Value, from: Value) {
    match (to, from) {
        (Value::Object(to), Value::Object(from)) => {
            for (key, value) in from {
                merge(to.entry(key).or_insert(Value::Null), value);
            }
        }
        (to, from) => *to = from,
    }
}

/// Waits until the pod's phase and reason are so.
async fn phase(cluster: &TestCluster, name: &str, expected: &str) -> Pod {
    let api = pods(&cluster.client());
    cluster
        .eventually(&format!("{name} is {expected}"), async || {
            let pod = api.get(name).await.map_err(|error| error.to_string())?;
            let status = pod.status.clone().unwrap_or_default();
            let found = [status.phase, status.reason].into_iter().flatten().collect::<Vec<_>>().join(" ");
            if found == expected { Ok(pod) } else { Err(format!("it is {found}: {:?}", status.message)) }
        })
        .await
}

async fn gone(cluster: &TestCluster, name: &str) {
    let api = pods(&cluster.client());
    cluster
        .eventually("the pod is gone", async || match api.get_opt(name).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn nodes_register_and_renew_their_leases() {
    let cluster = cluster(3, None).await;
    let nodes: Api<Node> = Api::all(cluster.client());
    let found = nodes.list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = found.iter().map(|node| node.name_any()).collect();
    assert_eq!(names, ["sim-0", "sim-1", "sim-2"]);
    cluster
        .eventually("a node is ready and takes pods", async || {
            let node = nodes.get("sim-1").await.map_err(|error| error.to_string())?;
            let status = node.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True");
            let spec = node.spec.clone().unwrap_or_default();
            if ready && spec.taints.is_none() { Ok(()) } else { Err(format!("{node:?}")) }
        })
        .await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "kube-node-lease");
    let renewed = async || leases.get("sim-1").await.unwrap().spec.unwrap().renew_time.unwrap();
    cluster.advance(Duration::from_secs(11)).await;
    let first = renewed().await;
    cluster.advance(Duration::from_secs(11)).await;
    assert!(renewed().await > first);
}

#[tokio::test(start_paused = true)]
async fn a_pod_lives_and_dies() {
    let cluster = cluster(1, None).await;
    let client = cluster.client();
    create(&client, "p", json!({})).await;
    let pod = phase(&cluster, "p", "Running").await;
    let status = pod.status.clone().unwrap();
    let conditions: Vec<String> =
        status.conditions.iter().flatten().map(|one| format!("{}={}", one.type_, one.status)).collect();
    let expected = [
        "PodReadyToStartContainers=True",
        "Initialized=True",
        "Ready=True",
        "ContainersReady=True",
        "PodScheduled=True",
    ];
    assert_eq!(conditions, expected);
    assert_eq!(status.observed_generation, pod.metadata.generation);
    assert_eq!((status.pod_ip.as_deref(), status.host_ip.as_deref()), (Some("10.128.0.2"), Some("172.24.0.2")));
    let managers: Vec<_> =
        pod.managed_fields().iter().map(|one| (one.manager.clone(), one.subresource.clone())).collect();
    assert!(managers.contains(&(Some("kubelet".to_owned()), Some("status".to_owned()))), "{managers:?}");

    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    cluster
        .eventually("events say what happened", async || {
            let found = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let mut reasons: Vec<_> = found.iter().filter_map(|event| event.reason.clone()).collect();
            reasons.sort();
            if reasons == ["Created", "Pulled", "Pulling", "Started"] { Ok(()) } else { Err(format!("{reasons:?}")) }
        })
        .await;

    pods(&client).delete("p", &DeleteParams::default()).await.unwrap();
    let dying = pods(&client).get("p").await.unwrap();
    assert!(dying.metadata.deletion_timestamp.is_some(), "it takes a moment");
    gone(&cluster, "p").await;
}

#[tokio::test(start_paused = true)]
async fn pods_end_as_their_commands_annotations_and_deadlines_say() {
    let cluster = cluster(1, None).await;
    let client = cluster.client();
    let command = |words: &[&str]| json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "a", "image": "x", "command": words }] } });
    create(&client, "good", command(&["true"])).await;
    create(&client, "bad", command(&["sh", "-c", "sleep 30; exit 3"])).await;
    create(&client, "late", json!({ "spec": { "activeDeadlineSeconds": 60 } })).await;
    create(
        &client,
        "greedy",
        json!({ "spec": { "containers": [
        { "name": "a", "image": "x", "resources": { "requests": { "cpu": "100" } } }
    ] } }),
    )
    .await;
    create(&client, "picky", json!({ "spec": { "nodeSelector": { "no": "such" } } })).await;
    create(
        &client,
        "fault",
        json!({ "metadata": { "annotations": { "sim.rkube.io/fault": "oom" } }, "spec": { "restartPolicy": "Never" } }),
    )
    .await;
    phase(&cluster, "good", "Succeeded").await;
    phase(&cluster, "bad", "Running").await;
    let greedy = phase(&cluster, "greedy", "Failed OutOfcpu").await;
    let message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 100000, used: 0, capacity: 8000";
    assert_eq!(greedy.status.unwrap().message.as_deref(), Some(message));
    phase(&cluster, "picky", "Failed NodeAffinity").await;
    cluster.advance(Duration::from_secs(65)).await;
    let bad = phase(&cluster, "bad", "Failed").await;
    let state = bad.status.unwrap().container_statuses.unwrap().remove(0).state.unwrap();
    assert_eq!(state.terminated.unwrap().exit_code, 3);
    phase(&cluster, "late", "Failed DeadlineExceeded").await;
    phase(&cluster, "fault", "Failed").await;
    // What has ended makes room, and goes at once.
    pods(&client).delete("greedy", &DeleteParams::default()).await.unwrap();
    gone(&cluster, "greedy").await;
}

#[tokio::test(start_paused = true)]
async fn what_ran_runs_on_when_the_process_starts_again() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let first = cluster(1, Some(store.clone())).await;
    create(&first.client(), "p", json!({})).await;
    create(&first.client(), "q", json!({})).await;
    let before = (phase(&first, "p", "Running").await, phase(&first, "q", "Running").await);
    pods(&first.client()).delete("q", &DeleteParams::default()).await.unwrap();
    first.shutdown().await;
    let second = cluster(1, Some(store)).await;
    gone(&second, "q").await;
    create(&second.client(), "r", json!({})).await;
    let other = phase(&second, "r", "Running").await;
    let after = phase(&second, "p", "Running").await;
    assert_eq!(after.status, before.0.status);
    assert_ne!(other.status.unwrap().pod_ip, after.status.unwrap().pod_ip);
}

#[tokio::test(start_paused = true)]
async fn spec_changes_are_observed() {
    let cluster = cluster(1, None).await;
    let client = cluster.client();
    create(&client, "p", json!({})).await;
    phase(&cluster, "p", "Running").await;
    for number in 0..50 {
        let tolerations = json!([{ "key": format!("k{number}"), "operator": "Exists" }]);
        let pod = pods(&client).get("p").await.unwrap();
        let mut all = serde_json::to_value(pod.spec.unwrap().tolerations).unwrap();
        all.as_array_mut().unwrap().extend(tolerations.as_array().unwrap().clone());
        let patch = json!({ "spec": { "tolerations": all } });
        pods(&client).patch("p", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
    cluster
        .eventually("the last generation is observed", async || {
            let pod = pods(&client).get("p").await.map_err(|error| error.to_string())?;
            let observed = pod.status.as_ref().and_then(|status| status.observed_generation);
            if observed == Some(51) && pod.metadata.generation == Some(51) {
                Ok(())
            } else {
                Err(format!("{observed:?}"))
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_does_nothing_until_it_is_back() {
    let cluster = cluster(2, None).await;
    let client = cluster.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let fault =
        |fault: Option<&str>| Patch::Merge(json!({ "metadata": { "annotations": { "sim.rkube.io/fault": fault } } }));
    cluster.advance(Duration::from_secs(1)).await;
    nodes.patch("sim-0", &PatchParams::default(), &fault(Some("lost"))).await.unwrap();
    cluster.advance(Duration::from_secs(1)).await;
    create(&client, "p", json!({})).await;
    cluster.advance(Duration::from_secs(600)).await;
    phase(&cluster, "p", "Pending").await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let renewed = async |name: &str| leases.get(name).await.unwrap().spec.unwrap().renew_time.unwrap().0;
    assert!(renewed("sim-0").await < renewed("sim-1").await);
    nodes.patch("sim-0", &PatchParams::default(), &fault(None)).await.unwrap();
    phase(&cluster, "p", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_comes_back_when_it_is_made_again() {
    let cluster = cluster(1, None).await;
    let client = cluster.client();
    let nodes: Api<Node> = Api::all(client.clone());
    create(&client, "p", json!({})).await;
    let before = phase(&cluster, "p", "Running").await;
    nodes.delete("sim-0", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(60)).await;
    assert!(nodes.get_opt("sim-0").await.unwrap().is_none(), "a kubelet registers when it starts");
    let labels = BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())]);
    let node = json!({ "metadata": { "name": "sim-0", "labels": labels } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    cluster
        .eventually("it says how it is", async || {
            let node = nodes.get("sim-0").await.map_err(|error| error.to_string())?;
            let info = node.status.and_then(|status| status.node_info);
            if info.is_some_and(|info| info.kubelet_version == "v1.36.4") { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    assert_eq!(phase(&cluster, "p", "Running").await.status, before.status, "its pods run on");
    create(&client, "q", json!({})).await;
    phase(&cluster, "q", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn two_nodes_with_one_range_give_no_address_twice() {
    let cluster = cluster(1, None).await;
    let client = cluster.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let thief = json!({ "metadata": { "name": "thief" }, "spec": { "podCIDR": "10.128.0.0/24", "podCIDRs": ["10.128.0.0/24"] } });
    nodes.create(&PostParams::default(), &serde_json::from_value(thief).unwrap()).await.unwrap();
    let mut seen = std::collections::HashSet::new();
    for name in ["p", "q", "r"] {
        create(&client, name, json!({})).await;
        let status = phase(&cluster, name, "Running").await.status.unwrap();
        assert!(seen.insert(status.pod_ip.unwrap()));
    }
    // Nobody runs the pods of a node that is not ours.
    create(&client, "s", json!({ "spec": { "nodeName": "thief" } })).await;
    cluster.advance(Duration::from_secs(5)).await;
    phase(&cluster, "s", "Pending").await;
}

#[tokio::test(start_paused = true)]
async fn usage_and_logs_can_be_asked_for() {
    let cluster = cluster(2, None).await;
    let client = cluster.client();
    create(
        &client,
        "p",
        json!({ "metadata": {
        "labels": { "app": "x" },
        "annotations": { "sim.rkube.io/cpu-usage": "250m", "sim.rkube.io/memory-usage": "64Mi" },
    } }),
    )
    .await;
    create(&client, "q", json!({})).await;
    phase(&cluster, "p", "Running").await;
    phase(&cluster, "q", "Running").await;
    let ask = async |path: &str| -> Value {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request(request).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let all = ask("/apis/metrics.k8s.io/v1beta1/pods").await;
    assert_eq!((all["kind"].as_str(), all["items"].as_array().map(Vec::len)), (Some("PodMetricsList"), Some(2)));
    let one = ask("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dx").await;
    assert_eq!(one["items"][0]["containers"][0]["usage"], json!({ "cpu": "250m", "memory": "65536Ki" }));
    assert_eq!(one["items"].as_array().map(Vec::len), Some(1));
    let named = ask("/apis/metrics.k8s.io/v1beta1/pods?fieldSelector=metadata.name%3Dq").await;
    assert_eq!((&named["items"][0]["metadata"]["name"], &named["items"][1]), (&json!("q"), &Value::Null));
    let pod = ask("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/p").await;
    assert_eq!((&pod["kind"], &pod["containers"]), (&json!("PodMetrics"), &one["items"][0]["containers"]));
    let elsewhere = ask("/apis/metrics.k8s.io/v1beta1/namespaces/kube-system/pods").await;
    assert_eq!(elsewhere["items"], json!([]));
    let node = ask("/apis/metrics.k8s.io/v1beta1/nodes/sim-0").await;
    assert_eq!(node["usage"], json!({ "cpu": "301m", "memory": "335872Ki" }));
    let missing =
        http::Request::get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/z").body(Vec::new()).unwrap();
    let error = client.request::<Value>(missing).await.unwrap_err().to_string();
    assert!(error.contains("podmetrics.metrics.k8s.io \"default/z\" not found"), "{error}");
    let groups = ask("/apis").await["groups"].as_array().unwrap().clone();
    assert!(groups.iter().any(|group| group["name"] == "metrics.k8s.io"));
    let resources = ask("/apis/metrics.k8s.io/v1beta1").await;
    assert_eq!(resources["resources"][1]["kind"], "PodMetrics");

    let log = pods(&client).logs("p", &Default::default()).await.unwrap();
    assert_eq!(log, "node \"sim-0\" is simulated: its containers run nothing, so that there is no log\n");
}
