//! Volumes that drivers attach, volumes that live with their pods, and volumes that are to grow.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use rkube_operator::kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rkube_operator::kube::{Api, ResourceExt};
use rkube_testkit::TestCluster;
use serde_json::{Value, json};

use crate::claims::Storage;

const SECOND: Duration = Duration::from_secs(1);
const UNIQUE: &str = "kubernetes.io/csi/disks.example.com^handle";

async fn start() -> (Storage, Vec<String>) {
    let cluster = TestCluster::builder().nodes(2).without_scheduler().virtual_time().start().await;
    let nodes: Api<Node> = Api::all(cluster.client());
    let names = nodes.list(&ListParams::default()).await.unwrap().items.iter().map(Node::name_any).collect();
    (Storage { cluster }, names)
}

async fn pod(storage: &Storage, name: &str, node: &str, volume: Value) {
    let pods: Api<Pod> = Api::namespaced(storage.cluster.client(), "default");
    let mut pod = json!({ "metadata": { "name": name }, "spec": {
        "containers": [{ "name": "main", "image": "img" }], "volumes": [volume], "terminationGracePeriodSeconds": 1,
    } });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

/// Waits until attachments are on these nodes, and says them.
async fn attachments(storage: &Storage, expected: &[&str]) -> Vec<VolumeAttachment> {
    let api: Api<VolumeAttachment> = Api::all(storage.cluster.client());
    storage
        .cluster
        .eventually("attachments", async || {
            let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let nodes: Vec<&str> = all.iter().map(|one| one.spec.node_name.as_str()).collect();
            if nodes == expected { Ok(all) } else { Err(format!("{nodes:?}")) }
        })
        .await
}

/// Waits until a node says that this is attached to it.
async fn attached(storage: &Storage, node: &str, expected: &[&str]) {
    let nodes: Api<Node> = Api::all(storage.cluster.client());
    storage
        .cluster
        .eventually("a node knows what is attached", async || {
            let node = nodes.get(node).await.map_err(|error| error.to_string())?;
            let all = node.status.and_then(|status| status.volumes_attached).unwrap_or_default();
            let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
            if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .await;
}

async fn patch_status(storage: &Storage, attachment: &str, status: Value) {
    let api: Api<VolumeAttachment> = Api::all(storage.cluster.client());
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(attachment, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn a_volume_of_a_driver_follows_its_pod() {
    let (storage, nodes) = start().await;
    let csi = json!({ "csi": { "driver": "disks.example.com", "volumeHandle": "handle" }, "storageClassName": "fast" });
    storage.volume("v", "1Gi", csi).await;
    storage.claim("c", "1Gi", json!({ "storageClassName": "fast" })).await;
    storage.claim_is("c", "Bound").await;
    let volume = json!({ "name": "d", "persistentVolumeClaim": { "claimName": "c" } });
    pod(&storage, "p", &nodes[0], volume.clone()).await;
    let attachment = attachments(&storage, &[&nodes[0]]).await.remove(0);
    assert_eq!(attachment.spec.attacher, "disks.example.com");
    assert_eq!(attachment.spec.source.persistent_volume_name.as_deref(), Some("v"));
    // Events have their times in their names: those of the node are not to be of the same moment.
    storage.cluster.advance(SECOND).await;
    let failed = json!({ "attached": false, "attachError": { "message": "no room" } });
    patch_status(&storage, &attachment.name_any(), failed).await;
    storage.told("p", "FailedAttachVolume", "AttachVolume.Attach failed for volume \"v\" : no room").await;
    attached(&storage, &nodes[0], &[]).await;
    patch_status(&storage, &attachment.name_any(), json!({ "attached": true, "attachError": null })).await;
    attached(&storage, &nodes[0], &[UNIQUE]).await;
    storage.told("p", "SuccessfulAttachVolume", "AttachVolume.Attach succeeded for volume \"v\" ").await;
    storage.cluster.advance(SECOND).await;
    // One node at a time.
    pod(&storage, "q", &nodes[1], volume).await;
    let waits = "Waiting for detach for volume \"v\" Volume is already used by pod(s) p";
    storage.told("q", "FailedAttachVolume", waits).await;
    // It stays where it is mounted.
    let api: Api<Node> = Api::all(storage.cluster.client());
    let mounted = |names: Value| Patch::Merge(json!({ "status": { "volumesInUse": names } }));
    api.patch_status(&nodes[0], &PatchParams::default(), &mounted(json!([UNIQUE]))).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(storage.cluster.client(), "default");
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    storage.cluster.advance(Duration::from_secs(30)).await;
    attachments(&storage, &[&nodes[0]]).await;
    api.patch_status(&nodes[0], &PatchParams::default(), &mounted(Value::Null)).await.unwrap();
    attachments(&storage, &[&nodes[1]]).await;
    attached(&storage, &nodes[0], &[]).await;
}

#[tokio::test]
async fn attachments_of_others_are_left_alone() {
    let (storage, nodes) = start().await;
    let attachment = json!({ "metadata": { "name": "mine" }, "spec": {
        "attacher": "disks.example.com", "nodeName": nodes[0], "source": { "persistentVolumeName": "none" },
    } });
    let api: Api<VolumeAttachment> = Api::all(storage.cluster.client());
    api.create(&PostParams::default(), &serde_json::from_value(attachment).unwrap()).await.unwrap();
    patch_status(&storage, "mine", json!({ "attached": true })).await;
    storage.cluster.advance(Duration::from_secs(600)).await;
    attachments(&storage, &[&nodes[0]]).await;
    attached(&storage, &nodes[0], &[]).await;
}

#[tokio::test]
async fn pods_have_claims_that_live_with_them() {
    let (storage, nodes) = start().await;
    let taken = storage.claim("p-taken", "1Gi", json!({ "storageClassName": "" })).await;
    let template = json!({ "metadata": { "labels": { "of": "pod" } }, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } }, "storageClassName": "",
    } });
    let volume = |name: &str| json!({ "name": name, "ephemeral": { "volumeClaimTemplate": template } });
    pod(&storage, "p", &nodes[0], volume("scratch")).await;
    let made = storage.claim_is("p-scratch", "Pending").await;
    assert_eq!(made.labels()["of"], "pod");
    assert_eq!(made.owner_references()[0].name, "p");
    let pods: Api<Pod> = Api::namespaced(storage.cluster.client(), "default");
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    storage
        .cluster
        .eventually("it goes with its pod", async || {
            match storage.claims().get_opt("p-scratch").await.map_err(|error| error.to_string())? {
                None => Ok(()),
                Some(claim) => Err(format!("{claim:?}")),
            }
        })
        .await;
    pod(&storage, "p", &nodes[0], volume("taken")).await;
    let why = "ephemeral volume taken: PVC default/p-taken was not created for pod default/p (pod is not owner)";
    storage.told("p", "FailedBinding", why).await;
    assert_eq!(storage.claims().get("p-taken").await.unwrap().metadata.uid, taken.metadata.uid);
}

#[tokio::test]
async fn a_claim_that_wants_more_waits_for_a_resizer() {
    let (storage, _) = start().await;
    let class =
        json!({ "metadata": { "name": "grows" }, "provisioner": "example.com/x", "allowVolumeExpansion": true });
    let classes: Api<k8s_openapi::api::storage::v1::StorageClass> = Api::all(storage.cluster.client());
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    storage.volume("v", "1Gi", json!({ "storageClassName": "grows" })).await;
    storage.claim("c", "1Gi", json!({ "storageClassName": "grows" })).await;
    storage.claim_is("c", "Bound").await;
    let patch = Patch::Merge(json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } }));
    let grown: PersistentVolumeClaim = storage.claims().patch("c", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(grown.status.unwrap().capacity.unwrap()["storage"].0, "1Gi");
    storage.told("c", "ExternalExpanding", "waiting for an external controller to expand this PVC").await;
}
