//! DaemonSets on simulated nodes, from their creation to their end.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use rkube_operator::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Api, ResourceExt};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_secs(60);

struct Sets {
    cluster: TestCluster,
}

impl Sets {
    async fn start() -> Sets {
        Sets { cluster: TestCluster::builder().nodes(3).virtual_time().start().await }
    }

    fn sets(&self) -> Api<DaemonSet> {
        Api::namespaced(self.cluster.client(), "default")
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn create(&self, spec: Value) {
        let labels = json!({ "app": "d" });
        let containers = json!([{ "name": "main", "image": "img:1" }]);
        let mut set = json!({ "metadata": { "name": "d" }, "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
        } });
        for (field, value) in spec.as_object().unwrap() {
            set["spec"][field] = value.clone();
        }
        self.sets().create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
        self.cluster.advance(MINUTE).await;
    }

    async fn set_image(&self, image: &str) {
        let containers = json!([{ "name": "main", "image": image }]);
        let patch = Patch::Merge(json!({ "spec": { "template": { "spec": { "containers": containers } } } }));
        self.sets().patch("d", &PatchParams::default(), &patch).await.unwrap();
        self.cluster.advance(10 * MINUTE).await;
    }

    async fn list(&self) -> Vec<Pod> {
        self.pods().list(&ListParams::default()).await.unwrap().items
    }

    /// The nodes of pods, and their images.
    async fn placed(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let pods = self.list().await;
        let spec = |pod: &Pod| pod.spec.clone().unwrap();
        let nodes = pods.iter().filter_map(|pod| spec(pod).node_name).collect();
        (nodes, pods.iter().filter_map(|pod| spec(pod).containers[0].image.clone()).collect())
    }

    async fn status(&self) -> Value {
        serde_json::to_value(self.sets().get("d").await.unwrap().status.unwrap()).unwrap()
    }

    async fn nodes(&self) -> Vec<String> {
        let nodes = Api::<Node>::all(self.cluster.client()).list(&ListParams::default()).await.unwrap();
        nodes.items.iter().map(|node| node.name_any()).collect()
    }

    async fn patch_node(&self, name: &str, patch: Value) {
        let nodes = Api::<Node>::all(self.cluster.client());
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        self.cluster.advance(2 * MINUTE).await;
    }
}

#[tokio::test]
async fn every_node_has_a_pod_until_the_set_goes() {
    let sets = Sets::start().await;
    sets.create(json!({})).await;
    let nodes = sets.nodes().await;
    assert_eq!(sets.placed().await.0, nodes.iter().cloned().collect());
    let status = sets.status().await;
    for field in ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"] {
        assert_eq!(status[field], 3, "{field}");
    }
    let pod = sets.list().await.remove(0);
    assert_eq!(pod.labels()["pod-template-generation"], "1");
    let tolerations = pod.spec.unwrap().tolerations.unwrap();
    assert!(tolerations.iter().any(|one| one.key.as_deref() == Some("node.kubernetes.io/unschedulable")));
    sets.pods().delete(&pod.metadata.name.unwrap(), &DeleteParams::default()).await.unwrap();
    sets.cluster.advance(2 * MINUTE).await;
    assert_eq!(sets.list().await.len(), 3, "what is deleted comes back");
    sets.sets().delete("d", &DeleteParams::default()).await.unwrap();
    sets.cluster.advance(2 * MINUTE).await;
    assert!(sets.list().await.is_empty());
}

#[tokio::test]
async fn labels_and_taints_of_nodes_decide() {
    let sets = Sets::start().await;
    let spec = json!({ "nodeSelector": { "color": "blue" }, "containers": [{ "name": "main", "image": "img:1" }] });
    sets.create(json!({ "template": { "metadata": { "labels": { "app": "d" } }, "spec": spec } })).await;
    assert!(sets.list().await.is_empty());
    let node = sets.nodes().await.remove(0);
    sets.patch_node(&node, json!({ "metadata": { "labels": { "color": "blue" } } })).await;
    assert_eq!(sets.placed().await.0, [node.clone()].into());
    assert_eq!(sets.status().await["desiredNumberScheduled"], 1);
    sets.patch_node(&node, json!({ "metadata": { "labels": { "color": "green" } } })).await;
    assert!(sets.list().await.is_empty());
    sets.patch_node(&node, json!({ "metadata": { "labels": { "color": "blue" } } })).await;
    assert_eq!(sets.list().await.len(), 1);
    let taint = json!([{ "key": "busy", "effect": "NoExecute" }]);
    sets.patch_node(&node, json!({ "spec": { "taints": taint } })).await;
    assert!(sets.list().await.is_empty());
}

/// All pods are replaced, never more of them at a time than may be missing; going back makes no new revision.
#[tokio::test]
async fn templates_are_rolled_out_and_back() {
    let sets = Sets::start().await;
    sets.create(json!({})).await;
    let image = |image: &str| BTreeSet::from([image.to_owned()]);
    sets.set_image("img:2").await;
    assert_eq!(sets.placed().await.1, image("img:2"));
    assert_eq!(sets.status().await["updatedNumberScheduled"], 3);
    sets.set_image("img:1").await;
    assert_eq!(sets.placed().await.1, image("img:1"));
    let revisions = Api::<ControllerRevision>::namespaced(sets.cluster.client(), "default");
    let mut numbers: Vec<i64> =
        revisions.list(&ListParams::default()).await.unwrap().items.iter().map(|one| one.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
}

#[tokio::test]
async fn with_a_surge_the_new_pod_comes_first() {
    let sets = Sets::start().await;
    let rolling = json!({ "maxSurge": 1, "maxUnavailable": 0 });
    sets.create(json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": rolling } })).await;
    sets.set_image("img:2").await;
    assert_eq!((sets.list().await.len(), sets.placed().await.1), (3, ["img:2".to_owned()].into()));
}

#[tokio::test]
async fn pods_that_failed_are_replaced() {
    let sets = Sets::start().await;
    sets.create(json!({})).await;
    let pod = sets.list().await.remove(0).name_any();
    let failed = Patch::Merge(json!({ "status": { "phase": "Failed" } }));
    sets.pods().patch_status(&pod, &PatchParams::default(), &failed).await.unwrap();
    sets.cluster.advance(2 * MINUTE).await;
    let there = sets.list().await;
    assert!(there.len() == 3 && there.iter().all(|one| one.name_any() != pod));
}

/// Somebody makes a second revision with the template that the set has. It may stay beside the first until something else
/// happens, and is the set's own when the first is deleted.
#[tokio::test]
async fn a_revision_that_comes_with_its_owner_wakes_nobody() {
    let sets = Sets::start().await;
    sets.create(json!({})).await;
    let revisions: Api<ControllerRevision> = Api::namespaced(sets.cluster.client(), "default");
    let first = revisions.list(&ListParams::default()).await.unwrap().items.remove(0);
    let mut second = first.clone();
    second.metadata = serde_json::from_value(json!({
        "name": "d-second",
        "labels": { "app": "d", "controller-revision-hash": "second" },
        "ownerReferences": first.owner_references(),
    }))
    .unwrap();
    second.revision = first.revision + 1;
    revisions.create(&PostParams::default(), &second).await.unwrap();
    let names = || async {
        sets.cluster.advance(MINUTE).await;
        let all = revisions.list(&ListParams::default()).await.unwrap().items;
        all.iter().map(|one| one.name_any()).collect::<Vec<_>>()
    };
    assert_eq!(names().await, [first.name_any(), "d-second".to_owned()]);
    revisions.delete(&first.name_any(), &DeleteParams::default()).await.unwrap();
    assert_eq!(names().await, ["d-second"]);
}

/// One that nobody has is adopted as soon as it comes.
#[tokio::test]
async fn a_revision_without_owner_is_adopted() {
    let sets = Sets::start().await;
    sets.create(json!({})).await;
    let revisions: Api<ControllerRevision> = Api::namespaced(sets.cluster.client(), "default");
    let orphan = json!({
        "metadata": { "name": "old", "labels": { "app": "d" } }, "data": { "spec": {} }, "revision": 7,
    });
    revisions.create(&PostParams::default(), &serde_json::from_value(orphan).unwrap()).await.unwrap();
    sets.cluster.advance(MINUTE).await;
    let adopted = revisions.get("old").await.unwrap();
    assert_eq!(adopted.owner_references()[0].name, "d");
    assert_eq!(adopted.labels()["controller-revision-hash"], "old", "every revision has a label by which pods name it");
}
