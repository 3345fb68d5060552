//! Deployments on simulated nodes, from their creation to their end.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use rkube_operator::kube::Api;
use rkube_operator::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_testkit::TestCluster;
use serde_json::json;

const MINUTE: Duration = Duration::from_secs(60);

fn deployment(name: &str, replicas: u32) -> Deployment {
    let labels = json!({ "app": name });
    let containers = json!([{ "name": "main", "image": "registry.example.com/main:1" }]);
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": containers } });
    let spec = json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

async fn create(cluster: &TestCluster, name: &str, replicas: u32) -> Api<Deployment> {
    let deployments = Api::<Deployment>::namespaced(cluster.client(), "default");
    deployments.create(&PostParams::default(), &deployment(name, replicas)).await.unwrap();
    deployments
}

/// Waits until so many replicas are up to date and available, and no others are there.
async fn rolled_out(cluster: &TestCluster, name: &str, replicas: i32) -> Deployment {
    let deployments = Api::<Deployment>::namespaced(cluster.client(), "default");
    let what = format!("{name} has {replicas} available replicas");
    cluster
        .eventually(&what, async || {
            let found = deployments.get(name).await.map_err(|error| error.to_string())?;
            let status = found.status.clone().unwrap_or_default();
            let is_there = status.observed_generation == found.metadata.generation
                && status.updated_replicas.unwrap_or_default() == replicas
                && status.available_replicas.unwrap_or_default() == replicas
                && status.replicas.unwrap_or_default() == replicas;
            if is_there { Ok(found) } else { Err(format!("{status:?}")) }
        })
        .await
}

async fn pods(cluster: &TestCluster) -> Vec<Pod> {
    Api::<Pod>::namespaced(cluster.client(), "default").list(&ListParams::default()).await.unwrap().items
}

fn images(pods: &[Pod]) -> Vec<&str> {
    pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()).collect()
}

fn condition(deployment: &Deployment, of: &str) -> (String, String) {
    let conditions = deployment.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let found = conditions.iter().find(|condition| condition.type_ == of).unwrap();
    (found.status.clone(), found.reason.clone().unwrap_or_default())
}

#[tokio::test]
async fn three_replicas_become_available_and_go() {
    let cluster = TestCluster::builder().nodes(3).virtual_time().start().await;
    let deployments = create(&cluster, "web", 3).await;
    let done = rolled_out(&cluster, "web", 3).await;
    assert_eq!(condition(&done, "Available"), ("True".to_owned(), "MinimumReplicasAvailable".to_owned()));
    assert_eq!(condition(&done, "Progressing"), ("True".to_owned(), "NewReplicaSetAvailable".to_owned()));
    let running = pods(&cluster).await;
    let nodes: std::collections::BTreeSet<_> =
        running.iter().map(|pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap()).collect();
    assert_eq!(nodes.len(), 3, "each on a node of its own");
    assert!(running.iter().all(|pod| pod.status.as_ref().unwrap().pod_ip.is_some()));

    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    cluster.advance(MINUTE).await;
    assert!(pods(&cluster).await.is_empty());
    assert!(deployments.get_opt("web").await.unwrap().is_none());
}

#[tokio::test]
async fn a_rollout_replaces_every_pod_and_is_undone_by_another() {
    let cluster = TestCluster::builder().nodes(3).virtual_time().start().await;
    let deployments = create(&cluster, "web", 4).await;
    rolled_out(&cluster, "web", 4).await;
    for (image, sets) in [("registry.example.com/main:2", 2), ("registry.example.com/main:1", 2)] {
        let containers = json!([{ "name": "main", "image": image }]);
        let patch = Patch::Strategic(json!({ "spec": { "template": { "spec": { "containers": containers } } } }));
        deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
        rolled_out(&cluster, "web", 4).await;
        cluster.advance(MINUTE).await;
        let running = pods(&cluster).await;
        assert_eq!(images(&running), [image; 4]);
        let all = Api::<ReplicaSet>::namespaced(cluster.client(), "default");
        assert_eq!(all.list(&ListParams::default()).await.unwrap().items.len(), sets);
    }
}

/// A pod that fits nowhere says so, and is scheduled when there is room.
#[tokio::test]
async fn a_pod_that_fits_nowhere_waits_for_room() {
    let cluster = TestCluster::builder().nodes(2).virtual_time().start().await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let requests = json!({ "cpu": "100000" });
    let containers = json!([{ "name": "main", "image": "x", "resources": { "requests": requests } }]);
    let pod = json!({ "metadata": { "name": "huge" }, "spec": { "containers": containers } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    cluster.advance(MINUTE).await;
    let status = pods.get("huge").await.unwrap().status.unwrap();
    let scheduled = status.conditions.unwrap().into_iter().find(|one| one.type_ == "PodScheduled").unwrap();
    assert_eq!((scheduled.status.as_str(), scheduled.reason.as_deref()), ("False", Some("Unschedulable")));
    assert!(scheduled.message.unwrap().starts_with("0/2 nodes are available: 2 Insufficient cpu."));
}

/// A node that says nothing any more gets taints; when it is deleted its pods are, too, and others are made elsewhere.
#[tokio::test]
async fn a_node_vanishes() {
    let cluster = TestCluster::builder().nodes(3).virtual_time().start().await;
    create(&cluster, "web", 6).await;
    rolled_out(&cluster, "web", 6).await;
    let nodes = Api::<Node>::all(cluster.client());
    let lost = pods(&cluster).await[0].spec.as_ref().unwrap().node_name.clone().unwrap();
    let fault = Patch::Merge(json!({ "metadata": { "annotations": { "sim.rkube.io/fault": "lost" } } }));
    nodes.patch(&lost, &PatchParams::default(), &fault).await.unwrap();
    cluster.advance(2 * MINUTE).await;
    let spec = nodes.get(&lost).await.unwrap().spec.unwrap();
    let taints = spec.taints.unwrap_or_default();
    assert!(taints.iter().any(|taint| taint.key == "node.kubernetes.io/unreachable"), "{taints:?}");

    nodes.delete(&lost, &DeleteParams::default()).await.unwrap();
    cluster.advance(10 * MINUTE).await;
    rolled_out(&cluster, "web", 6).await;
    let running = pods(&cluster).await;
    assert_eq!(running.len(), 6);
    assert!(running.iter().all(|pod| pod.spec.as_ref().unwrap().node_name.as_deref() != Some(&lost)));
}

#[tokio::test]
async fn quiet_hours() {
    Box::pin(quiet(Duration::from_secs(2 * 60 * 60))).await;
}

#[tokio::test]
#[cfg_attr(debug_assertions, ignore = "a hundred thousand leases take minutes without optimisation")]
async fn a_quiet_week() {
    Box::pin(quiet(Duration::from_secs(7 * 24 * 60 * 60))).await;
}

/// Time in which nothing happens changes nothing: no pod is made anew, no object is written but leases.
async fn quiet(time: Duration) {
    let cluster = TestCluster::builder().nodes(1).virtual_time().start().await;
    create(&cluster, "web", 2).await;
    let before = rolled_out(&cluster, "web", 2).await;
    let names = |pods: Vec<Pod>| pods.into_iter().map(|pod| pod.metadata.uid).collect::<Vec<_>>();
    cluster.advance(MINUTE).await;
    let pods_before = names(pods(&cluster).await);
    cluster.advance(time).await;
    let after = rolled_out(&cluster, "web", 2).await;
    assert_eq!(before.metadata.resource_version, after.metadata.resource_version);
    assert_eq!(pods_before, names(pods(&cluster).await));
}
