//! Writes that others were faster than: of one that is refused nobody hears again, unless it is tried again.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::rbac::v1::ClusterRole;
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use rkube_testkit::{Faults, TestCluster};
use serde_json::json;

const COUNT: u64 = 20;
const MINUTE: Duration = Duration::from_secs(60);

async fn start(nodes: usize) -> TestCluster {
    let faults = Faults { conflicts: 500, ..Faults::none() };
    TestCluster::builder().nodes(nodes).virtual_time().seed(7).faults(faults).start().await
}

#[tokio::test(start_paused = true)]
async fn roles_are_summed_up() {
    let cluster = start(0).await;
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    for number in 0..COUNT {
        let (label, name) = (json!({ "to": format!("sum-{number}") }), format!("sum-{number}"));
        let rule = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] });
        let part = json!({ "metadata": { "name": format!("part-{number}"), "labels": label }, "rules": [rule] });
        roles.create(&PostParams::default(), &serde_json::from_value(part).unwrap()).await.unwrap();
        let selectors = json!([{ "matchLabels": label }]);
        let sum = json!({ "metadata": { "name": name }, "aggregationRule": { "clusterRoleSelectors": selectors } });
        roles.create(&PostParams::default(), &serde_json::from_value(sum).unwrap()).await.unwrap();
    }
    cluster.advance(10 * MINUTE).await;
    let all = roles.list(&ListParams::default()).await.unwrap().items;
    let empty =
        all.iter().filter(|role| role.aggregation_rule.is_some() && role.rules.as_ref().is_none_or(Vec::is_empty));
    let empty: Vec<String> = empty.map(|role| role.name_any()).collect();
    assert!(empty.is_empty(), "{empty:?}");
}

/// Also, the nodes have got addresses before any pod ran on them.
#[tokio::test(start_paused = true)]
async fn pods_leave_a_node_that_they_do_not_tolerate() {
    let cluster = start(4).await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let nodes: Api<Node> = Api::all(cluster.client());
    cluster.advance(10 * MINUTE).await;
    let without = nodes.list(&ListParams::default()).await.unwrap().items;
    let without = without.iter().filter(|node| node.spec.as_ref().is_none_or(|spec| spec.pod_cidr.is_none())).count();
    assert_eq!(without, 0, "nodes have no addresses");
    for number in 0..COUNT {
        let pod = json!({
            "metadata": { "name": format!("pod-{number}") },
            "spec": { "containers": [{ "name": "c", "image": "server" }], "nodeName": "sim-0" },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    cluster.advance(10 * MINUTE).await;
    let taint = json!({ "spec": { "taints": [{ "key": "example.com/out", "effect": "NoExecute" }] } });
    nodes.patch("sim-0", &PatchParams::default(), &Patch::Merge(taint)).await.unwrap();
    cluster.advance(10 * MINUTE).await;
    let left = pods.list(&ListParams::default()).await.unwrap().items;
    let left: Vec<String> = left.iter().map(|pod| pod.name_any()).collect();
    assert!(left.is_empty(), "{left:?}");
}
