//! Claims and volumes: who gets which, what is said of those who get none, and what becomes of volumes whose claims are
//! gone.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use rkube_operator::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Api, ResourceExt};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub struct Storage {
    pub cluster: TestCluster,
}

impl Storage {
    async fn start() -> Storage {
        Storage { cluster: TestCluster::builder().virtual_time().start().await }
    }

    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.cluster.client(), "default")
    }

    pub fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.cluster.client())
    }

    pub async fn claim(&self, name: &str, size: &str, spec: Value) -> PersistentVolumeClaim {
        let mut claim = json!({ "metadata": { "name": name }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": size } },
        } });
        merge(&mut claim["spec"], spec);
        self.claims().create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap()
    }

    pub async fn volume(&self, name: &str, size: &str, spec: Value) -> PersistentVolume {
        let mut volume = json!({ "metadata": { "name": name }, "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": size }, "persistentVolumeReclaimPolicy": "Retain",
        } });
        if spec.get("csi").is_none() {
            volume["spec"]["hostPath"] = json!({ "path": "/data" });
        }
        merge(&mut volume["spec"], spec);
        self.volumes().create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap()
    }

    async fn class(&self, class: Value) {
        let api: Api<StorageClass> = Api::all(self.cluster.client());
        api.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    }

    async fn annotate(&self, claim: &str, name: &str, value: &str) {
        let patch = Patch::Merge(json!({ "metadata": { "annotations": { name: value } } }));
        self.claims().patch(claim, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the claim is in a phase.
    pub async fn claim_is(&self, name: &str, phase: &str) -> PersistentVolumeClaim {
        self.cluster
            .eventually(&format!("claim {name} is {phase}"), async || {
                let claim = self.claims().get(name).await.map_err(|error| error.to_string())?;
                let found = claim.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
                if found == phase { Ok(claim) } else { Err(found) }
            })
            .await
    }

    async fn volume_is(&self, name: &str, phase: &str) -> PersistentVolume {
        self.cluster
            .eventually(&format!("volume {name} is {phase}"), async || {
                let volume = self.volumes().get(name).await.map_err(|error| error.to_string())?;
                let found = volume.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
                if found == phase { Ok(volume) } else { Err(found) }
            })
            .await
    }

    async fn volume_goes(&self, name: &str) {
        self.cluster
            .eventually(&format!("volume {name} is gone"), async || {
                match self.volumes().get_opt(name).await.map_err(|error| error.to_string())? {
                    None => Ok(()),
                    Some(volume) => Err(format!("{volume:?}")),
                }
            })
            .await;
    }

    /// Waits for an event about an object of this name.
    pub async fn told(&self, name: &str, reason: &str, message: &str) {
        let events: Api<Event> = Api::all(self.cluster.client());
        self.cluster
            .eventually(&format!("{name} is told {reason}"), async || {
                let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
                let about = all.iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
                let texts: Vec<(&str, &str)> = about
                    .map(|event| (event.reason.as_deref().unwrap_or(""), event.message.as_deref().unwrap_or("")))
                    .collect();
                if texts.contains(&(reason, message)) { Ok(()) } else { Err(format!("{texts:?}")) }
            })
            .await;
    }

    async fn delete_claim(&self, name: &str) {
        self.claims().delete(name, &DeleteParams::default()).await.unwrap();
    }
}

fn merge(into: &mut Value, from: Value) {
    for (field, value) in from.as_object().unwrap() {
        into[field] = value.clone();
    }
}

fn claimant(volume: &PersistentVolume) -> Option<String> {
    volume.spec.as_ref()?.claim_ref.as_ref()?.name.clone()
}

#[tokio::test]
async fn a_claim_gets_the_smallest_volume_that_fits_and_lets_go_of_it() {
    let storage = Storage::start().await;
    storage.volume("large", "10Gi", json!({})).await;
    storage.volume("medium", "5Gi", json!({})).await;
    storage.volume("small", "1Gi", json!({})).await;
    storage.volume_is("medium", "Available").await;
    storage.claim("c", "3Gi", json!({ "storageClassName": "" })).await;
    let claim = storage.claim_is("c", "Bound").await;
    assert_eq!(claim.spec.as_ref().unwrap().volume_name.as_deref(), Some("medium"));
    for annotation in ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"] {
        assert_eq!(claim.annotations().get(annotation).map(String::as_str), Some("yes"));
    }
    let status = claim.status.as_ref().unwrap();
    assert_eq!(status.capacity.as_ref().unwrap()["storage"].0, "5Gi");
    assert_eq!(status.access_modes.as_ref().unwrap(), &["ReadWriteOnce"]);
    let volume = storage.volume_is("medium", "Bound").await;
    let reference = volume.spec.as_ref().unwrap().claim_ref.as_ref().unwrap();
    assert_eq!((reference.uid.as_ref(), reference.name.as_deref()), (claim.metadata.uid.as_ref(), Some("c")));
    assert!(volume.annotations().contains_key("pv.kubernetes.io/bound-by-controller"));
    storage.delete_claim("c").await;
    storage.volume_is("medium", "Released").await;
    // Another one of the same name is not the one that it was for.
    storage.claim("c", "3Gi", json!({ "storageClassName": "" })).await;
    let other = storage.claim_is("c", "Bound").await;
    assert_eq!(other.spec.unwrap().volume_name.as_deref(), Some("large"));
    storage.cluster.advance(Duration::from_secs(60)).await;
    storage.volume_is("medium", "Released").await;
    storage.volume_is("small", "Available").await;
}

#[tokio::test]
async fn claims_without_a_volume_say_why_and_get_one_when_it_comes() {
    let storage = Storage::start().await;
    storage.claim("c", "1Gi", json!({})).await;
    storage.claim("k", "1Gi", json!({ "storageClassName": "nope" })).await;
    let none = "no persistent volumes available for this claim and no storage class is set";
    storage.told("c", "FailedBinding", none).await;
    storage.told("k", "ProvisioningFailed", "storageclass.storage.k8s.io \"nope\" not found").await;
    let before = storage.cluster.clock().now_seconds();
    storage.volume("v", "1Gi", json!({ "storageClassName": "nope" })).await;
    storage.claim_is("k", "Bound").await;
    storage.volume("w", "1Gi", json!({})).await;
    storage.claim_is("c", "Bound").await;
    assert!(storage.cluster.clock().now_seconds() - before < 5, "nobody waited for the next look at all claims");
}

#[tokio::test]
async fn bound_by_hand_from_either_side() {
    let storage = Storage::start().await;
    storage.volume("kept", "5Gi", json!({ "claimRef": { "namespace": "default", "name": "c" } })).await;
    storage.volume("tiny", "1Gi", json!({})).await;
    storage.claim("other", "2Gi", json!({ "storageClassName": "" })).await;
    storage.claim("c", "1Gi", json!({ "storageClassName": "" })).await;
    let claim = storage.claim_is("c", "Bound").await;
    assert_eq!(claim.spec.unwrap().volume_name.as_deref(), Some("kept"));
    let volume = storage.volume_is("kept", "Bound").await;
    assert!(!volume.annotations().contains_key("pv.kubernetes.io/bound-by-controller"), "somebody else did it");
    storage.claim_is("other", "Pending").await;
    storage.claim("asks", "1Gi", json!({ "storageClassName": "", "volumeName": "kept" })).await;
    storage.told("asks", "FailedBinding", "volume \"kept\" already bound to a different claim.").await;
    storage.claim("wants", "2Gi", json!({ "storageClassName": "", "volumeName": "tiny" })).await;
    let why = "Cannot bind to requested volume \"tiny\": requested PV is too small";
    storage.told("wants", "VolumeMismatch", why).await;
    storage.claim("later", "1Gi", json!({ "storageClassName": "", "volumeName": "comes" })).await;
    storage.volume("comes", "1Gi", json!({})).await;
    storage.claim_is("later", "Bound").await;
}

#[tokio::test]
async fn a_claim_whose_volume_is_gone_is_lost_and_a_volume_of_another_claim_is_released() {
    let storage = Storage::start().await;
    storage.volume("v", "1Gi", json!({})).await;
    storage.claim("c", "1Gi", json!({ "storageClassName": "" })).await;
    storage.claim_is("c", "Bound").await;
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    storage.volumes().patch("v", &PatchParams::default(), &patch).await.unwrap();
    storage.volumes().delete("v", &DeleteParams::default()).await.unwrap();
    storage.claim_is("c", "Lost").await;
    storage.told("c", "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!").await;
    let other = json!({ "claimRef": { "namespace": "default", "name": "c", "uid": "another" } });
    storage.volume("w", "1Gi", other).await;
    storage.volume_is("w", "Released").await;
    let gone = json!({ "claimRef": { "namespace": "default", "name": "none", "uid": "u" },
        "persistentVolumeReclaimPolicy": "Delete" });
    storage.volume("x", "1Gi", gone).await;
    let failed = storage.volume_is("x", "Failed").await.status.unwrap();
    let why = "host_path deleter only supports /tmp/.+ but received provided /data";
    assert_eq!(failed.message.as_deref(), Some(why));
    storage.told("x", "VolumeFailedDelete", why).await;
    let temporary = json!({ "claimRef": { "namespace": "default", "name": "none", "uid": "u" },
        "persistentVolumeReclaimPolicy": "Delete", "hostPath": { "path": "/tmp/none" } });
    storage.volume("y", "1Gi", temporary).await;
    storage.volume_goes("y").await;
}

#[tokio::test]
async fn claims_get_the_default_class_later_and_its_provisioner_is_named() {
    let storage = Storage::start().await;
    storage.claim("c", "1Gi", json!({})).await;
    storage.claim("none", "1Gi", json!({ "storageClassName": "" })).await;
    storage.claim_is("c", "Pending").await;
    storage
        .class(json!({
            "metadata": { "name": "std", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
            "provisioner": "example.com/disks",
        }))
        .await;
    let message = "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually \
                   by the system administrator. If volume creation is delayed, please verify that the provisioner is \
                   running and correctly registered.";
    storage.told("c", "ExternalProvisioning", message).await;
    let claim = storage.claims().get("c").await.unwrap();
    assert_eq!(claim.spec.as_ref().unwrap().storage_class_name.as_deref(), Some("std"));
    for name in ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"] {
        assert_eq!(claim.annotations()[name], "example.com/disks");
    }
    // What the provisioner would do.
    let reference = json!({ "namespace": "default", "name": "c", "uid": claim.metadata.uid });
    storage.volume("made", "1Gi", json!({ "storageClassName": "std", "claimRef": reference })).await;
    let bound = storage.claim_is("c", "Bound").await;
    assert_eq!(bound.spec.unwrap().volume_name.as_deref(), Some("made"));
    storage.volume_is("made", "Bound").await;
    assert_eq!(storage.claims().get("none").await.unwrap().spec.unwrap().storage_class_name.as_deref(), Some(""));
}

#[tokio::test]
async fn many_claims_share_out_many_volumes() {
    const MANY: usize = 150;
    let storage = Storage::start().await;
    for number in 0..MANY {
        // Half of the claims are there before their volumes.
        if number % 2 == 0 {
            storage.claim(&format!("c{number:05}"), "1Gi", json!({ "storageClassName": "" })).await;
        }
        storage.volume(&format!("v{number:05}"), "1Gi", json!({})).await;
    }
    for number in (1..MANY + 10).step_by(2) {
        storage.claim(&format!("c{number:05}"), "1Gi", json!({ "storageClassName": "" })).await;
    }
    storage.cluster.advance(Duration::from_secs(60)).await;
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let claims = storage.claims().list(&ListParams::default()).await.unwrap().items;
    for claim in &claims {
        if let Some(volume) = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()) {
            owners.entry(volume).or_default().push(claim.name_any());
        }
    }
    assert_eq!(owners.len(), MANY, "every volume has a claim");
    for volume in storage.volumes().list(&ListParams::default()).await.unwrap().items {
        let name = volume.name_any();
        assert_eq!(owners[&name], [claimant(&volume).unwrap()], "{name} has one claim, and both say so");
        assert_eq!(volume.status.unwrap().phase.as_deref(), Some("Bound"));
    }
    let waiting = claims.iter().filter(|claim| claim.status.as_ref().unwrap().phase.as_deref() == Some("Pending"));
    assert_eq!(waiting.count(), claims.len() - MANY);
}

#[tokio::test]
async fn nodes_have_volumes_of_their_own() {
    let cluster = TestCluster::builder().nodes(2).without_scheduler().virtual_time().start().await;
    let storage = Storage { cluster };
    storage.claim("c", "1Gi", json!({})).await;
    storage.claim("shared", "1Gi", json!({ "accessModes": ["ReadWriteMany"] })).await;
    storage.told("c", "WaitForFirstConsumer", "waiting for first consumer to be created before binding").await;
    let claim = storage.claim_is("c", "Pending").await;
    assert_eq!(claim.spec.as_ref().unwrap().storage_class_name.as_deref(), Some("local-path"));
    let pods: Api<Pod> = Api::namespaced(storage.cluster.client(), "default");
    let pod = json!({ "metadata": { "name": "p" }, "spec": {
        "containers": [{ "name": "main", "image": "img" }],
        "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }],
    } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    storage.told("c", "WaitForPodScheduled", "waiting for pod p to be scheduled").await;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(storage.cluster.client());
    let node = nodes.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    // What the scheduler does.
    storage.annotate("c", SELECTED_NODE, &node).await;
    storage.annotate("shared", SELECTED_NODE, &node).await;
    let claim = storage.claim_is("c", "Bound").await;
    let name = format!("pvc-{}", claim.metadata.uid.unwrap());
    assert_eq!(claim.spec.unwrap().volume_name.as_deref(), Some(name.as_str()));
    storage.told("c", "ProvisioningSucceeded", &format!("Successfully provisioned volume {name}")).await;
    let volume = storage.volume_is(&name, "Bound").await;
    let spec = volume.spec.unwrap();
    let path = spec.host_path.unwrap();
    assert_eq!(
        (path.path, path.type_.as_deref()),
        (format!("/var/lib/rkube/volumes/{name}_default_c"), Some("DirectoryOrCreate"))
    );
    let terms = spec.node_affinity.unwrap().required.unwrap().node_selector_terms;
    assert_eq!(terms[0].match_expressions.as_ref().unwrap()[0].values.as_ref().unwrap(), &[node]);
    let why = "failed to provision volume with StorageClass \"local-path\": only the access modes ReadWriteOnce and \
               ReadWriteOncePod are supported";
    storage.told("shared", "ProvisioningFailed", why).await;
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    storage.delete_claim("c").await;
    storage.volume_goes(&name).await;
    // A node that is gone is not waited for.
    storage.claim("d", "1Gi", json!({})).await;
    storage.annotate("d", SELECTED_NODE, "gone").await;
    storage.told("d", "ProvisioningFailed", "failed to get target node: node \"gone\" not found").await;
    storage
        .cluster
        .eventually("it is chosen anew", async || {
            let claim = storage.claims().get("d").await.map_err(|error| error.to_string())?;
            let chosen = claim.annotations().contains_key(SELECTED_NODE);
            if chosen { Err(format!("{claim:?}")) } else { Ok(()) }
        })
        .await;
}

#[tokio::test]
async fn without_nodes_there_is_no_default_class() {
    let storage = Storage::start().await;
    let classes: Api<StorageClass> = Api::all(storage.cluster.client());
    assert!(classes.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_set_has_volumes_for_its_claims_and_they_go_with_it() {
    let storage = Storage { cluster: TestCluster::builder().nodes(3).virtual_time().start().await };
    let sets: Api<StatefulSet> = Api::namespaced(storage.cluster.client(), "default");
    let labels = json!({ "app": "s" });
    let set = json!({ "metadata": { "name": "s" }, "spec": {
        "replicas": 3, "serviceName": "s", "podManagementPolicy": "Parallel", "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "img" }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
        } }],
        "persistentVolumeClaimRetentionPolicy": { "whenScaled": "Delete", "whenDeleted": "Delete" },
    } });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(storage.cluster.client(), "default");
    for number in 0..3 {
        let (pod, claim) = (format!("s-{number}"), format!("data-s-{number}"));
        storage
            .cluster
            .eventually("the pod has a node, and its claim knows it", async || {
                let pod = pods.get(&pod).await.map_err(|error| error.to_string())?;
                let claimed = storage.claims().get(&claim).await.map_err(|error| error.to_string())?;
                if claimed.annotations().contains_key(SELECTED_NODE) {
                    return Ok(());
                }
                let node = pod.spec.unwrap().node_name.ok_or("it has none")?;
                storage.annotate(&claim, SELECTED_NODE, &node).await;
                Ok::<(), String>(())
            })
            .await;
        let volume = storage.claim_is(&claim, "Bound").await.spec.unwrap().volume_name.unwrap();
        storage.volume_is(&volume, "Bound").await;
    }
    storage
        .cluster
        .eventually("all are ready", async || {
            let status = sets.get("s").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            if status.ready_replicas == Some(3) { Ok(()) } else { Err(format!("{status:?}")) }
        })
        .await;
    sets.delete("s", &DeleteParams::default()).await.unwrap();
    storage
        .cluster
        .eventually("nothing is left", async || {
            let all = ListParams::default();
            let claims = storage.claims().list(&all).await.map_err(|error| error.to_string())?.items.len();
            let volumes = storage.volumes().list(&all).await.map_err(|error| error.to_string())?.items.len();
            if (claims, volumes) == (0, 0) { Ok(()) } else { Err(format!("{claims} claims, {volumes} volumes")) }
        })
        .await;
}

#[tokio::test]
async fn a_set_whose_claim_cannot_be_bound_waits_for_a_volume() {
    let storage = Storage { cluster: TestCluster::builder().nodes(1).virtual_time().start().await };
    let sets: Api<StatefulSet> = Api::namespaced(storage.cluster.client(), "default");
    let labels = json!({ "app": "s" });
    let set = json!({ "metadata": { "name": "s" }, "spec": {
        "replicas": 2, "serviceName": "s", "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "main", "image": "img" }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1Gi" } },
        } }],
    } });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    storage.told("data-s-0", "ProvisioningFailed", "storageclass.storage.k8s.io \"none\" not found").await;
    let unbound = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
    storage.told("s-0", "FailedScheduling", unbound).await;
    let claims = async || {
        let claims = storage.claims().list(&ListParams::default()).await.unwrap().items;
        claims.iter().map(|claim| claim.name_any()).collect::<Vec<_>>()
    };
    storage.cluster.advance(Duration::from_secs(600)).await;
    assert_eq!(claims().await, ["data-s-0"], "the next waits for the first");
    storage.volume("v", "1Gi", json!({ "storageClassName": "none" })).await;
    storage.claim_is("data-s-0", "Bound").await;
    storage.told("data-s-1", "ProvisioningFailed", "storageclass.storage.k8s.io \"none\" not found").await;
    let status = sets.get("s").await.unwrap().status.unwrap_or_default();
    assert_eq!((status.replicas, status.ready_replicas), (2, Some(1)));
}
