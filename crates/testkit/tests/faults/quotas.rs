//! Quotas whose controller hears of pods late.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, PostParams};
use rkube_testkit::{Faults, TestCluster};
use serde_json::json;

const ALLOWED: usize = 5;
const ROUNDS: usize = 200;

/// Pods come and go all the time. What the controller counts when one goes must not leave out those that came and of which
/// its cache has not heard.
#[tokio::test(start_paused = true)]
async fn no_more_pods_are_let_in_however_late_the_controller_hears_of_them() {
    let faults = Faults { delayed_watches: 100, watch_delay_max: Duration::from_secs(3), ..Faults::none() };
    let cluster = TestCluster::builder().virtual_time().seed(11).faults(faults).start().await;
    let quotas: Api<ResourceQuota> = Api::default_namespaced(cluster.client());
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": ALLOWED.to_string() } } });
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    cluster.advance(Duration::from_secs(60)).await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let (mut made, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let pod = json!({
            "metadata": { "name": format!("pod-{round}") },
            "spec": { "containers": [{ "name": "c", "image": "server" }], "terminationGracePeriodSeconds": 0 },
        });
        match pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await {
            Ok(_) => made += 1,
            Err(_) => refused += 1,
        }
        let there = pods.list(&ListParams::default()).await.unwrap().items;
        assert!(there.len() <= ALLOWED, "round {round}: {} pods", there.len());
        if round % 3 == 0
            && let Some(first) = there.iter().map(|pod| pod.name_any()).min()
        {
            pods.delete(&first, &DeleteParams::default().grace_period(0)).await.unwrap();
        }
        cluster.advance(Duration::from_millis(300)).await;
    }
    // What is given back can be had again.
    assert!(made > ROUNDS / 6 && refused > ROUNDS / 6, "{made} made, {refused} refused");
}
