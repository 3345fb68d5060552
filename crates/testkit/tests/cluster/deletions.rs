//! Deletions that somebody else is faster with, and what they leave behind.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use rkube_operator::kube::api::{Api, DeleteParams, PostParams, WatchEvent, WatchParams};
use rkube_operator::kube::{Client, ResourceExt as _};
use rkube_testkit::{Settings, TestCluster};
use serde_json::json;

const PODS: usize = 200;

/// A kubelet deletes what is marked as soon as it sees it: whoever marked it gets no error for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_deletes_without_grace_is_not_told_that_it_is_gone() {
    let cluster = TestCluster::start().await;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let kubelet = tokio::spawn(delete_marked(cluster.client()));
    for number in 0..PODS {
        let pod = json!({
            "metadata": { "name": format!("pod-{number}") },
            "spec": { "nodeName": "elsewhere", "containers": [{ "name": "a", "image": "web" }] },
        });
        let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let deleted = pods.delete(&made.name_any(), &DeleteParams::default().grace_period(0)).await;
        assert!(deleted.is_ok(), "{}: {deleted:?}", made.name_any());
    }
    kubelet.abort();
    cluster.shutdown().await;
}

async fn delete_marked(client: Client) {
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let mut events = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    while let Some(event) = events.next().await {
        if let Ok(WatchEvent::Modified(pod)) = event
            && pod.metadata.deletion_timestamp.is_some()
        {
            // The other one may be faster, too.
            let _ = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        }
    }
}

/// With `--enable-garbage-collector=false` they stay.
#[tokio::test]
async fn what_is_owned_goes_with_its_owner_if_somebody_collects_it() {
    for enable_garbage_collector in [true, false] {
        let settings = Settings { enable_garbage_collector, ..Settings::default() };
        let cluster = TestCluster::builder().controller_settings(settings).virtual_time().start().await;
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
        let map = |metadata| serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        let owner = maps.create(&PostParams::default(), &map(json!({ "name": "owner" }))).await.unwrap();
        let reference =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid().unwrap() });
        let owned = map(json!({ "name": "owned", "ownerReferences": [reference] }));
        maps.create(&PostParams::default(), &owned).await.unwrap();
        maps.delete("owner", &DeleteParams::background()).await.unwrap();
        cluster.advance(Duration::from_secs(60)).await;
        assert_eq!(maps.get_opt("owned").await.unwrap().is_none(), enable_garbage_collector);
    }
}
