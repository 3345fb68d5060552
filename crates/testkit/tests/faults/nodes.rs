//! Pods on nodes whose requests take their time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, PostParams};
use rkube_testkit::{Faults, TestCluster};
use serde_json::json;

const PODS: u64 = 30;

/// A pod is marked for deletion while its node is about to say that it runs. The node must not take the pod that it finds
/// then, which has its own status and the mark, for what it wrote itself.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_seen_that_comes_while_a_status_is_on_its_way() {
    let faults = Faults { slow_requests: 1000, ..Faults::none() };
    let cluster = TestCluster::builder().nodes(1).virtual_time().seed(5).faults(faults).start().await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    for number in 0..PODS {
        let pod = json!({
            "metadata": { "name": format!("pod-{number}") },
            "spec": { "containers": [{ "name": "c", "image": "server" }], "nodeName": "sim-0" },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        cluster.advance(Duration::from_millis(100 * number)).await;
        pods.delete(&format!("pod-{number}"), &DeleteParams::default()).await.unwrap();
    }
    cluster.advance(Duration::from_secs(300)).await;
    let left = pods.list(&ListParams::default()).await.unwrap().items;
    let left: Vec<String> = left.iter().map(|pod| pod.name_any()).collect();
    assert!(left.is_empty(), "{left:?}");
}
