//! Pods with claims that wait for their first consumer: the scheduler chooses, and the test is whoever binds claims and
//! makes volumes.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::StorageClass;
use rkube_cluster::{Part, component_user};
use rkube_operator::kube::api::{ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::kube::{Api, Resource};
use rkube_operator::source::Event as SourceEvent;
use rkube_operator::{Discovered, Selection, Source};
use rkube_testkit::{Builder, TestCluster};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(3);
const SELECTED: &str = "volume.kubernetes.io/selected-node";
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// A cluster in which nobody but the test binds claims.
async fn start() -> TestCluster {
    start_with(TestCluster::builder()).await
}

async fn start_with(builder: Builder) -> TestCluster {
    let cluster = builder.controllers("serviceaccount-controller").virtual_time().start().await;
    for name in ["n0", "n1"] {
        let node = json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } },
        });
        let nodes: Api<Node> = Api::all(cluster.client());
        make(&nodes, node).await;
        // New nodes have a taint until somebody has looked at them, and nobody does.
        let patch = Patch::Merge(json!({ "spec": { "taints": null } }));
        nodes.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    for (name, provisioner) in [("late", "example.com/test"), ("static", "kubernetes.io/no-provisioner")] {
        let class = json!({ "metadata": { "name": name }, "provisioner": provisioner,
                            "volumeBindingMode": "WaitForFirstConsumer" });
        make::<StorageClass>(&Api::all(cluster.client()), class).await;
    }
    cluster.advance(SOON).await;
    cluster
}

async fn make<K>(api: &Api<K>, json: Value) -> K
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(json).unwrap()).await.unwrap()
}

fn pods(cluster: &TestCluster) -> Api<Pod> {
    Api::namespaced(cluster.client(), "default")
}

fn claims(cluster: &TestCluster) -> Api<PersistentVolumeClaim> {
    Api::namespaced(cluster.client(), "default")
}

fn volumes(cluster: &TestCluster) -> Api<PersistentVolume> {
    Api::all(cluster.client())
}

async fn make_claim(cluster: &TestCluster, name: &str, class: &str) {
    let claim = json!({
        "metadata": { "name": name },
        "spec": { "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                  "resources": { "requests": { "storage": "1Gi" } } },
    });
    make(&claims(cluster), claim).await;
}

/// A volume that only this node reaches.
async fn make_volume(cluster: &TestCluster, name: &str, class: &str, node: &str) {
    let host = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] });
    let volume = json!({
        "metadata": { "name": name },
        "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "hostPath": { "path": "/x" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [host] }] } },
        },
    });
    make(&volumes(cluster), volume).await;
    let status = Patch::Merge(json!({ "status": { "phase": "Available" } }));
    volumes(cluster).patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

async fn make_pod(cluster: &TestCluster, name: &str, claim: &str) {
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "containers": [{ "name": "c", "image": "i" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": claim } }],
        },
    });
    make(&pods(cluster), pod).await;
}

/// As whoever binds claims does it.
async fn bind_claim(cluster: &TestCluster, name: &str, volume: &str) {
    let patch = json!({ "metadata": { "annotations": { COMPLETED: "yes" } }, "spec": { "volumeName": volume } });
    claims(cluster).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn json_of<K>(api: &Api<K>, name: &str) -> Value
where
    K: DeserializeOwned + Serialize + Clone + std::fmt::Debug,
{
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

fn selected(claim: &Value) -> &Value {
    &claim["metadata"]["annotations"][SELECTED]
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_volume_of_the_pods_node() {
    let cluster = start().await;
    make_volume(&cluster, "v1", "static", "n1").await;
    make_claim(&cluster, "c", "static").await;
    make_pod(&cluster, "p", "c").await;
    cluster.advance(SOON).await;
    let volume = json_of(&volumes(&cluster), "v1").await;
    let claim = json_of(&claims(&cluster), "c").await;
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");
    let reference = &volume["spec"]["claimRef"];
    assert_eq!((&reference["name"], &reference["uid"]), (&json!("c"), &claim["metadata"]["uid"]));
    assert_eq!((&reference["kind"], &reference["apiVersion"]), (&json!("PersistentVolumeClaim"), &json!("v1")));
    let pod = json_of(&pods(&cluster), "p").await;
    assert_eq!((&pod["spec"]["nodeName"], &pod["status"]["nominatedNodeName"]), (&Value::Null, &json!("n1")));
    bind_claim(&cluster, "c", "v1").await;
    cluster.advance(SOON).await;
    let pod = json_of(&pods(&cluster), "p").await;
    assert_eq!((&pod["spec"]["nodeName"], &pod["status"]["nominatedNodeName"]), (&json!("n1"), &Value::Null));
    assert_eq!(*selected(&json_of(&claims(&cluster), "c").await), Value::Null, "nothing had to be made");
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_for_the_pods_node_and_tried_again_where_that_fails() {
    let cluster = start().await;
    make_claim(&cluster, "c", "late").await;
    make_pod(&cluster, "p", "c").await;
    cluster.advance(SOON).await;
    let node = selected(&json_of(&claims(&cluster), "c").await).as_str().unwrap().to_owned();
    // Whoever makes volumes says that it cannot.
    let patch = json!({ "metadata": { "annotations": { SELECTED: null } } });
    claims(&cluster).patch("c", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    cluster.advance(Duration::from_millis(100)).await;
    let pod = json_of(&pods(&cluster), "p").await;
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(condition["reason"], "SchedulerError");
    let why = "running PreBind plugin \"VolumeBinding\": binding volumes: provisioning failed for PVC \"c\"";
    assert_eq!(condition["message"], why);
    assert_eq!(pod["status"]["nominatedNodeName"], Value::Null, "it was to be on {node}");
    cluster.advance(SOON).await;
    let node = selected(&json_of(&claims(&cluster), "c").await).as_str().unwrap().to_owned();
    make_volume(&cluster, "made", "late", &node).await;
    let reference = json!({ "namespace": "default", "name": "c", "kind": "PersistentVolumeClaim", "apiVersion": "v1" });
    let patch = Patch::Merge(json!({ "spec": { "claimRef": reference } }));
    volumes(&cluster).patch("made", &PatchParams::default(), &patch).await.unwrap();
    bind_claim(&cluster, "c", "made").await;
    cluster.advance(SOON).await;
    assert_eq!(json_of(&pods(&cluster), "p").await["spec"]["nodeName"], json!(node));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_binds_is_not_waited_for_forever() {
    let cluster = start().await;
    make_claim(&cluster, "c", "late").await;
    make_pod(&cluster, "p", "c").await;
    cluster.advance(Duration::from_secs(590)).await;
    let pod = json_of(&pods(&cluster), "p").await;
    assert_eq!(pod["status"]["conditions"], Value::Null, "it waits and says nothing");
    cluster.advance(Duration::from_secs(20)).await;
    let pod = json_of(&pods(&cluster), "p").await;
    let why = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    assert_eq!(pod["status"]["conditions"][0]["message"], why);
    // Others go on meanwhile.
    make_volume(&cluster, "v0", "static", "n0").await;
    make_claim(&cluster, "d", "static").await;
    make_pod(&cluster, "q", "d").await;
    cluster.advance(SOON).await;
    bind_claim(&cluster, "d", "v0").await;
    cluster.advance(SOON).await;
    assert_eq!(json_of(&pods(&cluster), "q").await["spec"]["nodeName"], "n0");
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_claim_that_is_bound_without_it() {
    let cluster = start().await;
    make_pod(&cluster, "p", "c").await;
    cluster.advance(SOON).await;
    let message = async || json_of(&pods(&cluster), "p").await["status"]["conditions"][0]["message"].clone();
    assert_eq!(message().await, r#"0/2 nodes are available: persistentvolumeclaim "c" not found. not found"#);
    make_claim(&cluster, "c", "").await;
    cluster.advance(SOON).await;
    let why = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
    assert_eq!(message().await, why);
    make_volume(&cluster, "v1", "", "n1").await;
    bind_claim(&cluster, "c", "v1").await;
    cluster.advance(SOON).await;
    assert_eq!(json_of(&pods(&cluster), "p").await["spec"]["nodeName"], "n1");
}

/// What the server has, but claims are shown late.
struct LateClaims(Arc<dyn Source>);

impl Source for LateClaims {
    fn follow(&self, resource: &ApiResource, selection: &Selection) -> BoxStream<'static, SourceEvent> {
        let events = self.0.follow(resource, selection);
        if resource.plural != "persistentvolumeclaims" {
            return events;
        }
        let late = events.then(|event| async move {
            if matches!(event, SourceEvent::Applied(_)) {
                tokio::time::sleep(SOON / 10).await;
            }
            event
        });
        late.boxed()
    }

    fn discover(&self) -> BoxStream<'static, Vec<Discovered>> {
        self.0.discover()
    }

    fn resources(&self) -> BoxFuture<'static, Result<Vec<Discovered>, String>> {
        self.0.resources()
    }
}

/// A pod is seen before its claim, which was there first: nobody hears of it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_the_scheduler_has_not_seen_yet_is_waited_for() {
    let part = Part::new(None, move |host| {
        let user = component_user(rkube_scheduler::USER, &[]);
        rkube_scheduler::start(rkube_scheduler::Config {
            client: host.client(user.clone(), rkube_scheduler::AGENT),
            source: Arc::new(LateClaims(host.source(user))),
            clock: host.clock().clone(),
            entropy: host.entropy().clone(),
            names: vec![rkube_scheduler::DEFAULT_NAME.to_owned()],
            percentage_of_nodes_to_score: 0,
            host_name: "test".to_owned(),
        })
    });
    let cluster = start_with(TestCluster::builder().without_scheduler().part(part)).await;
    make_volume(&cluster, "v1", "static", "n1").await;
    make_claim(&cluster, "c", "static").await;
    bind_claim(&cluster, "c", "v1").await;
    make_pod(&cluster, "p", "c").await;
    make_pod(&cluster, "q", "nowhere").await;
    cluster.advance(2 * SOON).await;
    assert_eq!(json_of(&pods(&cluster), "p").await["spec"]["nodeName"], "n1");
    let events: Api<Event> = Api::namespaced(cluster.client(), "default");
    let failed = ListParams::default().fields("reason=FailedScheduling");
    let events = events.list(&failed).await.unwrap().items;
    let about: Vec<_> = events.iter().filter_map(|event| event.regarding.as_ref()?.name.as_deref()).collect();
    assert_eq!(about, ["q"], "only the one whose claim is not there");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_goes_while_it_waits_leaves_its_volume_to_others() {
    let cluster = start().await;
    make_volume(&cluster, "v1", "static", "n1").await;
    for name in ["c", "d"] {
        make_claim(&cluster, name, "static").await;
    }
    make_pod(&cluster, "p", "c").await;
    cluster.advance(SOON).await;
    make_pod(&cluster, "q", "d").await;
    cluster.advance(SOON).await;
    assert!(json_of(&pods(&cluster), "q").await["spec"]["nodeName"].is_null());
    let now = rkube_operator::kube::api::DeleteParams::default().grace_period(0);
    pods(&cluster).delete("p", &now).await.unwrap();
    // The volume is the claim's, whatever became of the pod, until somebody takes it back.
    let patch = Patch::Merge(json!({ "spec": { "claimRef": null } }));
    volumes(&cluster).patch("v1", &PatchParams::default(), &patch).await.unwrap();
    cluster.advance(SOON).await;
    assert_eq!(json_of(&volumes(&cluster), "v1").await["spec"]["claimRef"]["name"], "d");
    bind_claim(&cluster, "d", "v1").await;
    cluster.advance(SOON).await;
    assert_eq!(json_of(&pods(&cluster), "q").await["spec"]["nodeName"], "n1");
}
