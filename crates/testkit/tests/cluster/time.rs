//! Virtual time: it passes when there is nothing to do, and overtakes nobody.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolumeClaim};
use rkube_operator::kube::Api;
use rkube_operator::kube::api::{ListParams, PostParams};
use rkube_testkit::{Settings, TestCluster};
use serde_json::json;

const HOURS: Duration = Duration::from_secs(3 * 60 * 60);
const START: &str = "2026-01-01T00:00:00Z";

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

async fn creation_time(cluster: &TestCluster, name: &str) -> String {
    let maps = Api::<ConfigMap>::namespaced(cluster.client(), "default");
    let made = maps.create(&PostParams::default(), &map(name)).await.unwrap();
    serde_json::to_value(&made.metadata.creation_timestamp).unwrap().as_str().unwrap().to_owned()
}

/// An event of the test's own is kept for an hour.
async fn make_event(cluster: &TestCluster) {
    let events = Api::<Event>::namespaced(cluster.client(), "default");
    let event = json!({ "metadata": { "name": "one" }, "involvedObject": { "namespace": "default" } });
    events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
}

async fn has_event(cluster: &TestCluster) -> bool {
    Api::<Event>::namespaced(cluster.client(), "default").get_opt("one").await.unwrap().is_some()
}

#[tokio::test]
async fn hours_pass_at_once_and_everything_in_it_happens() {
    let cluster = TestCluster::builder().virtual_time().start().await;
    assert_eq!(creation_time(&cluster, "first").await, START);
    make_event(&cluster).await;
    cluster.advance(Duration::from_secs(59 * 60)).await;
    assert!(has_event(&cluster).await);
    cluster.advance(Duration::from_secs(2 * 60)).await;
    assert!(!has_event(&cluster).await);
    cluster.advance(HOURS).await;
    assert!(creation_time(&cluster, "second").await.starts_with("2026-01-01T04:01:"));
    // The server has renewed its lease all the time.
    let leases = Api::<Lease>::namespaced(cluster.client(), "kube-system").list(&ListParams::default()).await.unwrap();
    let renewed = serde_json::to_value(leases.items[0].spec.as_ref().unwrap().renew_time.as_ref().unwrap()).unwrap();
    assert!(renewed.as_str().unwrap().starts_with("2026-01-01T04:0"), "{renewed}");
}

/// Controllers that are to look again at once leave time for others.
#[tokio::test]
async fn nobody_looks_without_a_pause() {
    let (node_monitor_period, pvclaimbinder_sync_period) = (Duration::ZERO, Duration::ZERO);
    let settings = Settings { node_monitor_period, pvclaimbinder_sync_period, ..Settings::default() };
    let cluster = TestCluster::builder().controller_settings(settings).nodes(1).virtual_time().start().await;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1Gi" } },
    });
    let claim = serde_json::from_value(json!({ "metadata": { "name": "waits" }, "spec": spec })).unwrap();
    let claims = Api::<PersistentVolumeClaim>::namespaced(cluster.client(), "default");
    claims.create(&PostParams::default(), &claim).await.unwrap();
    cluster.advance(Duration::from_secs(1)).await;
    let metrics = cluster.metrics();
    let of_binder = |line: &&str| {
        line.starts_with("workqueue_adds_total{") && line.contains("\"persistentvolume-binder-controller\"")
    };
    let looks = metrics.lines().find(of_binder).and_then(|line| line.rsplit(' ').next());
    let looks: u32 = looks.unwrap().parse().unwrap();
    assert!((10..200).contains(&looks), "it looked {looks} times in a second");
}

/// Between two requests no time passes, however long the store takes for each.
#[tokio::test]
async fn requests_are_not_overtaken() {
    for builder in [TestCluster::builder(), TestCluster::builder().embedded_store()] {
        let cluster = builder.virtual_time().start().await;
        let begun = cluster.clock().now_micros();
        for number in 0..200 {
            creation_time(&cluster, &format!("map-{number}")).await;
        }
        assert_eq!(cluster.clock().now_micros(), begun);
    }
}

/// The same seed, the same names.
#[tokio::test]
async fn random_numbers_are_of_a_seed() {
    let mut uids = Vec::new();
    for seed in [1, 1, 2] {
        let cluster = TestCluster::builder().controllers("").virtual_time().seed(seed).start().await;
        let maps = Api::<ConfigMap>::namespaced(cluster.client(), "default");
        let object = serde_json::from_value(json!({ "metadata": { "generateName": "map-" } })).unwrap();
        uids.push(maps.create(&PostParams::default(), &object).await.unwrap().metadata.name);
    }
    assert_eq!(uids[0], uids[1]);
    assert_ne!(uids[0], uids[2]);
}
