//! Namespaces that are to go and cannot.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use rkube_cluster::parts::Settings;
use rkube_operator::kube::Api;
use rkube_operator::kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::json;

const HOURS: Duration = Duration::from_secs(60 * 60);

/// The namespace says whose finalizer it waits for, waits without end, and goes when that is gone.
#[tokio::test]
async fn a_finalizer_that_nobody_removes_is_named() {
    let cluster = TestCluster::builder().virtual_time().start().await;
    let namespaces = Api::<Namespace>::all(cluster.client());
    let space = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    namespaces.create(&PostParams::default(), &space).await.unwrap();
    let maps = Api::<ConfigMap>::namespaced(cluster.client(), "a");
    let map = json!({ "metadata": { "name": "held", "finalizers": ["example.com/mine"] } });
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    namespaces.delete("a", &DeleteParams::default()).await.unwrap();

    cluster.advance(Duration::from_secs(60)).await;
    let status = namespaces.get("a").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    let remaining = |of: &str| {
        let found = status.conditions.as_ref().unwrap().iter().find(|condition| condition.type_ == of);
        found.map(|condition| (condition.status.clone(), condition.message.clone().unwrap_or_default()))
    };
    let finalizers = "Some content in the namespace has finalizers remaining: example.com/mine in 1 resource instances";
    assert_eq!(remaining("NamespaceFinalizersRemaining"), Some(("True".to_owned(), finalizers.to_owned())));
    let content = "Some resources are remaining: configmaps. has 1 resource instances";
    assert_eq!(remaining("NamespaceContentRemaining"), Some(("True".to_owned(), content.to_owned())));

    cluster.advance(HOURS).await;
    assert!(namespaces.get_opt("a").await.unwrap().is_some());
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    maps.patch("held", &PatchParams::default(), &patch).await.unwrap();
    cluster.advance(Duration::from_secs(30 * 60)).await;
    assert!(namespaces.get_opt("a").await.unwrap().is_none());
}

/// It holds a pod that may take hours to end, and ends sooner: whether it goes within the period.
async fn goes_within(period: Duration, namespace_sync_period: Duration) -> bool {
    let settings = Settings { namespace_sync_period, ..Settings::default() };
    let builder = TestCluster::builder().controllers("namespace-controller,serviceaccount-controller");
    let cluster = builder.controller_settings(settings).without_scheduler().virtual_time().start().await;
    let namespaces = Api::<Namespace>::all(cluster.client());
    let space = serde_json::from_value(json!({ "metadata": { "name": "a" } })).unwrap();
    namespaces.create(&PostParams::default(), &space).await.unwrap();
    cluster.advance(Duration::from_secs(1)).await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "a");
    let pod = json!({ "metadata": { "name": "p" }, "spec": {
        "nodeName": "of-nobody", "terminationGracePeriodSeconds": 7200, "containers": [{ "name": "c", "image": "i" }],
    } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    namespaces.delete("a", &DeleteParams::default()).await.unwrap();
    cluster.advance(Duration::from_secs(40 * 60)).await;
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    cluster.advance(period).await;
    namespaces.get_opt("a").await.unwrap().is_none()
}

#[tokio::test]
async fn it_is_looked_at_once_in_a_period_at_least() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert!(goes_within(minutes(5), minutes(5)).await);
    assert!(goes_within(minutes(1), minutes(1)).await);
    assert!(!goes_within(minutes(5), Duration::ZERO).await, "it waits for what the pod may take");
}
