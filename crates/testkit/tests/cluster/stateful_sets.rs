//! StatefulSets on simulated nodes, from their creation to their end.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod, ResourceQuota};
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

    fn sets(&self) -> Api<StatefulSet> {
        Api::namespaced(self.cluster.client(), "default")
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), "default")
    }

    async fn create(&self, replicas: u32, spec: Value) {
        let labels = json!({ "app": "s" });
        let containers = json!([{ "name": "main", "image": "img:1" }]);
        let mut set = json!({ "metadata": { "name": "s" }, "spec": {
            "replicas": replicas, "serviceName": "svc", "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": containers } },
        } });
        for (field, value) in spec.as_object().unwrap() {
            set["spec"][field] = value.clone();
        }
        self.sets().create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    }

    async fn patch(&self, patch: Value) {
        self.sets().patch("s", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn set_image(&self, image: &str) {
        let containers = json!([{ "name": "main", "image": image }]);
        self.patch(json!({ "spec": { "template": { "spec": { "containers": containers } } } })).await;
    }

    /// Waits until so many pods are ready, and no others are there.
    async fn ready(&self, replicas: i32) {
        self.cluster
            .eventually(&format!("{replicas} are ready"), async || {
                let set = self.sets().get("s").await.map_err(|error| error.to_string())?;
                let status = set.status.unwrap_or_default();
                let counts = (status.replicas, status.ready_replicas.unwrap_or(0));
                let is_there = counts == (replicas, replicas) && status.observed_generation == set.metadata.generation;
                if is_there { Ok(()) } else { Err(format!("{status:?}")) }
            })
            .await;
    }

    /// Names and images, by name.
    async fn list(&self) -> Vec<(String, String)> {
        let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
        pods.iter().map(|pod| (pod.name_any(), image(pod))).collect()
    }

    async fn revisions(&self) -> Vec<(String, i64)> {
        let api = Api::<ControllerRevision>::namespaced(self.cluster.client(), "default");
        let mut all: Vec<(String, i64)> = api
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter()
            .map(|one| (one.name_any(), one.revision))
            .collect();
        all.sort_by_key(|(_, number)| *number);
        all
    }

    async fn claims(&self) -> Vec<String> {
        let api = Api::<PersistentVolumeClaim>::namespaced(self.cluster.client(), "default");
        api.list(&ListParams::default()).await.unwrap().items.iter().map(|claim| claim.name_any()).collect()
    }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

#[tokio::test]
async fn pods_come_one_after_the_other_and_go_in_reverse() {
    let sets = Sets::start().await;
    sets.create(3, json!({})).await;
    sets.ready(3).await;
    let pods = sets.pods().list(&ListParams::default()).await.unwrap().items;
    let mut names: Vec<(String, String)> = Vec::new();
    let mut last_ready = None;
    for pod in &pods {
        let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let ready = conditions.iter().find(|one| one.type_ == "Ready").unwrap().last_transition_time.clone();
        assert!(last_ready <= pod.creation_timestamp().map(|at| at.0), "the one before was ready first");
        last_ready = ready.map(|at| at.0);
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.subdomain.as_deref(), Some("svc"));
        assert_eq!(pod.labels()["statefulset.kubernetes.io/pod-name"], pod.name_any());
        names.push((pod.name_any(), spec.hostname.clone().unwrap()));
    }
    assert_eq!(names, pairs(&[("s-0", "s-0"), ("s-1", "s-1"), ("s-2", "s-2")]));
    let status = sets.sets().get("s").await.unwrap().status.unwrap();
    let revision = sets.revisions().await.remove(0).0;
    assert_eq!(status.current_revision.as_deref(), Some(revision.as_str()));
    assert_eq!((status.current_replicas, status.updated_replicas, status.collision_count), (Some(3), Some(3), Some(0)));
    sets.patch(json!({ "spec": { "replicas": 1 } })).await;
    sets.ready(1).await;
    assert_eq!(sets.list().await, pairs(&[("s-0", "img:1")]));
    sets.sets().delete("s", &DeleteParams::default()).await.unwrap();
    sets.cluster.advance(2 * MINUTE).await;
    assert!(sets.list().await.is_empty());
}

/// A template is rolled out from the last pod down to the partition, and back again.
#[tokio::test]
async fn rollouts_stop_at_the_partition_and_go_back() {
    let sets = Sets::start().await;
    sets.create(3, json!({ "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } } })).await;
    sets.ready(3).await;
    let first = sets.revisions().await.remove(0).0;
    sets.set_image("img:2").await;
    sets.cluster.advance(5 * MINUTE).await;
    assert_eq!(sets.list().await, pairs(&[("s-0", "img:1"), ("s-1", "img:1"), ("s-2", "img:2")]));
    let status = sets.sets().get("s").await.unwrap().status.unwrap();
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(2), Some(1)));
    assert_eq!(status.current_revision, Some(first.clone()));
    // A pod below the partition comes back as it was.
    sets.pods().delete("s-0", &DeleteParams::default()).await.unwrap();
    sets.cluster.advance(5 * MINUTE).await;
    assert_eq!(sets.list().await[0], pairs(&[("s-0", "img:1")])[0]);
    sets.patch(json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } })).await;
    sets.cluster.advance(5 * MINUTE).await;
    assert_eq!(sets.list().await, pairs(&[("s-0", "img:2"), ("s-1", "img:2"), ("s-2", "img:2")]));
    let status = sets.sets().get("s").await.unwrap().status.unwrap();
    assert_eq!((status.current_replicas, &status.current_revision), (Some(3), &status.update_revision));
    sets.set_image("img:1").await;
    sets.cluster.advance(5 * MINUTE).await;
    let numbers = sets.revisions().await;
    assert_eq!(numbers.last().unwrap(), &(first, 3), "the first template has the latest number again");
    assert_eq!(numbers.len(), 2);
}

/// With the gate, as many pods at once as may be unavailable; without it, one after the other whatever is asked for.
#[tokio::test]
async fn several_pods_are_updated_at_once() {
    for (gate, at_once) in [(true, 2), (false, 1)] {
        let builder = TestCluster::builder().nodes(3).virtual_time();
        let builder = if gate { builder.feature("MaxUnavailableStatefulSet") } else { builder };
        let sets = Sets { cluster: builder.start().await };
        let template = json!({
            "metadata": { "labels": { "app": "s" }, "annotations": { "sim.rkube.io/ready-delay": "60s" } },
            "spec": { "containers": [{ "name": "main", "image": "img:1" }] },
        });
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 2 } });
        let policy = "Parallel";
        sets.create(5, json!({ "podManagementPolicy": policy, "updateStrategy": strategy, "template": template }))
            .await;
        sets.ready(5).await;
        let kept = sets.sets().get("s").await.unwrap().spec.unwrap().update_strategy.unwrap().rolling_update.unwrap();
        assert_eq!(kept.max_unavailable.is_some(), gate);
        sets.set_image("img:2").await;
        let updated = async || {
            let pods = sets.list().await;
            pods.into_iter().filter(|(_, image)| image == "img:2").map(|(name, _)| name).collect::<Vec<_>>()
        };
        let mut expected: Vec<String> = Vec::new();
        for _ in 0..2 {
            // They have stopped and begun again, and are not ready yet.
            sets.cluster.advance(MINUTE / 2).await;
            let next = 5 - expected.len();
            drop(expected.splice(0..0, (next - at_once..next).map(|ordinal| format!("s-{ordinal}"))));
            assert_eq!(updated().await, expected, "{gate}");
            sets.cluster.advance(MINUTE / 2 + MINUTE / 30).await;
        }
        sets.cluster.advance(10 * MINUTE).await;
        assert_eq!(updated().await.len(), 5);
        sets.ready(5).await;
    }
}

#[tokio::test]
async fn a_parallel_set_does_not_wait() {
    let sets = Sets::start().await;
    let not_ready = json!({ "metadata": { "labels": { "app": "s" }, "annotations": { "sim.rkube.io/ready": "false" } },
        "spec": { "containers": [{ "name": "main", "image": "img:1" }] } });
    sets.create(40, json!({ "podManagementPolicy": "Parallel", "template": not_ready })).await;
    sets.cluster.advance(MINUTE).await;
    assert_eq!(sets.list().await.len(), 40);
    sets.patch(json!({ "spec": { "replicas": 2 } })).await;
    sets.cluster.advance(5 * MINUTE).await;
    assert_eq!(sets.list().await, pairs(&[("s-0", "img:1"), ("s-1", "img:1")]));
}

#[tokio::test]
async fn claims_stay_or_go_with_their_pods() {
    let sets = Sets::start().await;
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let templates = json!([{ "metadata": { "name": "data" }, "spec": spec }]);
    let policy = json!({ "whenScaled": "Delete", "whenDeleted": "Delete" });
    let claims = json!({ "volumeClaimTemplates": templates, "persistentVolumeClaimRetentionPolicy": policy });
    sets.create(3, claims).await;
    sets.ready(3).await;
    assert_eq!(sets.claims().await, ["data-s-0", "data-s-1", "data-s-2"]);
    let volumes = sets.pods().get("s-1").await.unwrap().spec.unwrap().volumes.unwrap();
    assert_eq!(volumes[0].persistent_volume_claim.as_ref().unwrap().claim_name, "data-s-1");
    sets.patch(json!({ "spec": { "replicas": 1 } })).await;
    sets.cluster.advance(5 * MINUTE).await;
    assert_eq!(sets.claims().await, ["data-s-0"]);
    sets.patch(json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Retain" } } })).await;
    sets.cluster.advance(MINUTE).await;
    sets.sets().delete("s", &DeleteParams::default()).await.unwrap();
    sets.cluster.advance(5 * MINUTE).await;
    assert_eq!(sets.claims().await, ["data-s-0"]);
}

/// A pod that is wanted again while it goes comes back once its claim has gone with it.
#[tokio::test]
async fn a_pod_comes_back_after_its_claim_has_gone() {
    let sets = Sets::start().await;
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let slow_to_stop = json!({
        "metadata": { "labels": { "app": "s" }, "annotations": { "sim.rkube.io/stop-delay": "20s" } },
        "spec": { "containers": [{ "name": "main", "image": "img:1" }] },
    });
    let templates = json!([{ "metadata": { "name": "data" }, "spec": spec }]);
    let policy = json!({ "whenScaled": "Delete" });
    let spec = json!({
        "volumeClaimTemplates": templates, "persistentVolumeClaimRetentionPolicy": policy, "template": slow_to_stop,
    });
    sets.create(2, spec).await;
    sets.ready(2).await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(sets.cluster.client(), "default");
    let before = claims.get("data-s-1").await.unwrap().uid();
    sets.patch(json!({ "spec": { "replicas": 1 } })).await;
    sets.cluster.advance(Duration::from_secs(5)).await;
    assert!(sets.pods().get("s-1").await.unwrap().metadata.deletion_timestamp.is_some());
    sets.patch(json!({ "spec": { "replicas": 2 } })).await;
    sets.cluster.advance(MINUTE).await;
    sets.ready(2).await;
    assert_ne!(claims.get("data-s-1").await.unwrap().uid(), before);
}

/// Claims of pods that wait are written once when it changes with whom they go.
#[tokio::test]
async fn claims_of_pods_that_wait_are_written_once() {
    let sets = Sets::start().await;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1Gi" } },
    });
    let templates = json!([{ "metadata": { "name": "data" }, "spec": spec }]);
    sets.create(8, json!({ "podManagementPolicy": "Parallel", "volumeClaimTemplates": templates })).await;
    sets.cluster.advance(MINUTE).await;
    sets.patch(json!({ "spec": { "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete" } } })).await;
    sets.cluster.advance(MINUTE).await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(sets.cluster.client(), "default");
    let claims = claims.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(claims.iter().filter(|claim| claim.owner_references().len() == 1).count(), 8);
    let events = Api::<Event>::namespaced(sets.cluster.client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let failed = events.into_iter().filter(|event| event.reason.as_deref() == Some("FailedUpdate"));
    assert_eq!(failed.filter_map(|event| event.message).collect::<Vec<_>>(), Vec::<String>::new());
}

/// The claim of a pod that waits for it is made again when it is deleted.
#[tokio::test]
async fn a_claim_that_is_missing_is_made_again() {
    let sets = Sets::start().await;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1Gi" } },
    });
    sets.create(1, json!({ "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": spec }] })).await;
    sets.cluster.advance(MINUTE).await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(sets.cluster.client(), "default");
    let before = claims.get("data-s-0").await.unwrap().uid();
    claims.delete("data-s-0", &DeleteParams::default()).await.unwrap();
    sets.cluster.advance(MINUTE).await;
    assert_ne!(claims.get("data-s-0").await.unwrap().uid(), before);
}

#[tokio::test]
async fn claims_that_cannot_be_made_are_told_of() {
    let sets = Sets::start().await;
    let quota = json!({ "metadata": { "name": "q" }, "spec": { "hard": { "persistentvolumeclaims": "0" } } });
    let quotas = Api::<ResourceQuota>::namespaced(sets.cluster.client(), "default");
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    sets.cluster.advance(MINUTE).await;
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let template = |name: &str| json!({ "metadata": { "name": name }, "spec": spec });
    sets.create(1, json!({ "volumeClaimTemplates": [template("a"), template("b")] })).await;
    sets.cluster.advance(Duration::from_secs(5)).await;
    let why = |claim: &str| {
        format!(
            "persistentvolumeclaims \"{claim}\" is forbidden: exceeded quota: q, requested: persistentvolumeclaims=1, \
             used: persistentvolumeclaims=0, limited: persistentvolumeclaims=0"
        )
    };
    let (a, b) = (why("a-s-0"), why("b-s-0"));
    let expected = [
        format!("Create Claim a-s-0 for Pod s-0 in StatefulSet s failed error: {a}"),
        format!("Create Claim b-s-0 for Pod s-0 in StatefulSet s failed error: {b}"),
        format!(
            "Create Pod s-0 in StatefulSet s failed error: \
             [failed to create PVC a-s-0: {a}, failed to create PVC b-s-0: {b}]"
        ),
    ];
    let events = Api::<Event>::namespaced(sets.cluster.client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let failed = events.into_iter().filter(|event| event.reason.as_deref() == Some("FailedCreate"));
    let told: BTreeSet<String> = failed.filter_map(|event| event.message).collect();
    for message in expected {
        assert!(told.contains(&message), "{message} is none of {told:#?}");
    }
}

/// A pod that ended is replaced, and so is one whose node is gone for good; those that were left behind are adopted.
#[tokio::test]
async fn pods_that_end_are_replaced_and_orphans_adopted() {
    let sets = Sets::start().await;
    sets.create(2, json!({})).await;
    sets.ready(2).await;
    let before = sets.pods().get("s-1").await.unwrap().uid();
    let failed = Patch::Merge(json!({ "status": { "phase": "Failed", "reason": "Evicted" } }));
    sets.pods().patch_status("s-1", &PatchParams::default(), &failed).await.unwrap();
    sets.cluster.advance(MINUTE).await;
    sets.ready(2).await;
    let now = sets.pods().get("s-1").await.unwrap().uid();
    assert_ne!(before, now);
    let orphan = DeleteParams {
        propagation_policy: Some(rkube_operator::kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    sets.sets().delete("s", &orphan).await.unwrap();
    sets.cluster.advance(MINUTE).await;
    assert_eq!(sets.list().await.len(), 2);
    sets.create(2, json!({})).await;
    sets.ready(2).await;
    assert_eq!(sets.pods().get("s-1").await.unwrap().uid(), now);
    assert_eq!(sets.revisions().await.len(), 1, "the revision is adopted as well");
}
