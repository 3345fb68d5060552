//! Objects that own each other, while watches are late.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use rkube_operator::kube::ResourceExt as _;
use rkube_operator::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_testkit::{Faults, TestCluster};
use serde_json::json;

const CYCLES: usize = 20;

/// One of two that own each other is deleted in the foreground. What the collector has heard of that, or not yet, when it
/// looks at the other must not have both wait for each other.
#[tokio::test(start_paused = true)]
async fn a_cycle_goes_however_late_its_deletion_is_heard_of() {
    let faults = Faults { delayed_watches: 500, ..Faults::none() };
    let cluster = TestCluster::builder().virtual_time().seed(3).faults(faults).start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    for cycle in 0..CYCLES {
        let names = [format!("a-{cycle}"), format!("b-{cycle}")];
        let mut uids = Vec::new();
        for name in &names {
            let map = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
            uids.push(maps.create(&PostParams::default(), &map).await.unwrap().uid().unwrap());
        }
        for (own, other) in [(0, 1), (1, 0)] {
            let owner = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": names[other], "uid": uids[other],
                "blockOwnerDeletion": true,
            });
            let patch = Patch::Merge(json!({ "metadata": { "ownerReferences": [owner] } }));
            maps.patch(&names[own], &PatchParams::default(), &patch).await.unwrap();
            cluster.advance(Duration::from_millis(100)).await;
        }
        maps.delete(&names[0], &DeleteParams::foreground()).await.unwrap();
    }
    cluster.advance(Duration::from_secs(600)).await;
    cluster.end_faults().await;
    cluster.advance(Duration::from_secs(600)).await;
    let left = maps.list(&ListParams::default()).await.unwrap().items;
    let left: Vec<String> = left.iter().map(|map| map.name_any()).filter(|name| name != "kube-root-ca.crt").collect();
    assert!(left.is_empty(), "{left:?}");
}
