//! Which volume a claim gets, and what becomes of one whose claim is gone, as pure functions.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::nodes::Node;
use crate::volumes::{
    BETA_STORAGE_PROVISIONER, Claim, EXTERNAL_FINALIZER, PROVISIONED_BY, STORAGE_PROVISIONER, Source, StorageClass,
    Volume, VolumePhase,
};

pub const PROVISIONER: &str = "rkube.io/local-path";
const HOST_NAME: &str = "kubernetes.io/hostname";

#[derive(Debug, PartialEq)]
pub enum ClaimPlan {
    Nothing,
    /// It cannot have one, and why.
    Refuse(String),
    /// The node that was chosen is gone: the scheduler has to choose again.
    Reschedule(String),
    Make(Box<Value>),
}

/// Whether a claim waits for a volume of ours.
pub fn is_ours(claim: &Claim) -> bool {
    let named = claim.annotations.get(STORAGE_PROVISIONER).or_else(|| claim.annotations.get(BETA_STORAGE_PROVISIONER));
    named == Some(PROVISIONER) && claim.is_unbound() && !claim.deleting
}

pub fn is_made_here(volume: &Volume) -> bool {
    volume.annotations.get(PROVISIONED_BY) == Some(PROVISIONER)
}

/// The same at every try.
pub fn volume_name(claim: &Claim) -> String {
    format!("pvc-{}", claim.item.uid)
}

/// The volume of a claim that is [ours](is_ours).
pub fn claim(
    claim: &Claim,
    class: Option<&StorageClass>,
    node: impl Fn(&str) -> Option<Arc<Node>>,
    directory: &str,
) -> serde_json::Result<ClaimPlan> {
    let Some(class) = class.filter(|class| class.provisioner == PROVISIONER) else { return Ok(ClaimPlan::Nothing) };
    let refused = |why: &str| {
        Ok(ClaimPlan::Refuse(format!("failed to provision volume with StorageClass {:?}: {why}", class.name)))
    };
    if claim.selector.is_some() {
        return refused("claim.Spec.Selector is not supported");
    }
    if claim.block {
        return refused("only volumes with a file system are supported");
    }
    if !claim.modes.of_one() {
        return refused("only the access modes ReadWriteOnce and ReadWriteOncePod are supported");
    }
    let Some(name) = claim.selected_node() else {
        // Its class does not wait for a pod, so that nobody knows where it is needed.
        return if class.waits_for_consumer {
            Ok(ClaimPlan::Nothing)
        } else {
            refused("no node was specified: its class needs volumeBindingMode WaitForFirstConsumer")
        };
    };
    let Some(node) = node(name).filter(|node| !node.deleting) else {
        return Ok(ClaimPlan::Reschedule(format!("failed to get target node: node {name:?} not found")));
    };
    let object: Value = claim.item.parse()?;
    Ok(ClaimPlan::Make(Box::new(volume_for(claim, &object["spec"], class, &node, directory))))
}

fn volume_for(claim: &Claim, spec: &Value, class: &StorageClass, node: &Node, directory: &str) -> Value {
    let (name, namespace, of) = (volume_name(claim), &claim.item.namespace, &claim.item.name);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": { PROVISIONED_BY: PROVISIONER },
            "finalizers": [EXTERNAL_FINALIZER],
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": { "storage": spec["resources"]["requests"]["storage"] },
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace.as_str(),
                "name": of.as_str(),
                "uid": claim.item.uid.as_str(),
                "resourceVersion": claim.item.revision.to_string(),
            },
            "hostPath": { "path": path(directory, &name, namespace, of), "type": "DirectoryOrCreate" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [{
                "key": HOST_NAME, "operator": "In", "values": [host_name(node)],
            }] }] } },
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_str(),
            "storageClassName": class.name.as_str(),
            "volumeMode": "Filesystem",
        },
    })
}

pub fn host_name(node: &Node) -> String {
    node.labels.get(HOST_NAME).unwrap_or(&node.name).to_owned()
}

/// The host name that a volume is bound to.
pub fn node_of(volume: &Value) -> Option<&str> {
    volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"][0].as_str()
}

/// One below the directory, whatever the names: neither has slashes.
fn path(directory: &str, volume: &str, namespace: &str, claim: &str) -> String {
    format!("{directory}/{volume}_{namespace}_{claim}")
}

/// A volume may say of what claim it is in any words: with slashes they would lead elsewhere.
fn is_directly_in(directory: &str, path: &str) -> bool {
    path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/')).is_some_and(|name| !name.contains('/'))
}

#[derive(Debug, PartialEq, Eq)]
pub enum VolumePlan {
    Nothing,
    /// Remove the directory, then let the volume go.
    Remove,
    /// Somebody deletes the volume, and wants to keep the directory.
    LetGo,
    Refuse(String),
}

/// For a volume that was [made here](is_made_here).
pub fn volume(volume: &Volume, directory: &str) -> VolumePlan {
    let is_released = volume.phase == VolumePhase::Released;
    let is_to_go = volume.deleting && volume.external_finalizer && volume.phase != VolumePhase::Bound;
    if volume.reclaim_policy != "Delete" {
        return if is_to_go { VolumePlan::LetGo } else { VolumePlan::Nothing };
    }
    if !is_to_go && (!is_released || volume.deleting) {
        return VolumePlan::Nothing;
    }
    // Anybody may write an annotation: only what is named as we name it is removed.
    let of = volume.claimant.as_ref();
    let expected = of.map(|of| path(directory, &volume.item.name, &of.namespace, &of.name));
    match (&volume.source, expected) {
        (Source::HostPath { path }, Some(expected)) if *path == expected && is_directly_in(directory, path) => {
            VolumePlan::Remove
        }
        _ if volume.deleting => VolumePlan::LetGo,
        _ => VolumePlan::Refuse("it is not a directory that the provisioner made".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use rkube_operator::Item;

    use super::*;

    const DIRECTORY: &str = "/data/volumes";

    fn item(namespace: &str, name: &str, object: &Value) -> Item {
        let json = object.to_string().into();
        Item { namespace: namespace.into(), name: name.into(), uid: "1-2".into(), revision: 7, json }
    }

    fn claim_of(spec: Value, node: Option<&str>) -> Claim {
        let mut object = json!({ "metadata": { "annotations": { STORAGE_PROVISIONER: PROVISIONER } }, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "c", "resources": { "requests": { "storage": "1Gi" } },
        } });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        if let Some(node) = node {
            object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = node.into();
        }
        Claim::read(&item("ns", "data", &object)).unwrap()
    }

    fn plan(spec: Value, node: Option<&str>, waits_for_consumer: bool) -> ClaimPlan {
        let class = StorageClass {
            name: "c".into(),
            provisioner: PROVISIONER.into(),
            reclaim_policy: "Delete".into(),
            waits_for_consumer,
            ..StorageClass::default()
        };
        let find = |name: &str| (name == "n").then(|| Arc::new(Node { name: "n".into(), ..Node::default() }));
        claim(&claim_of(spec, node), Some(&class), find, DIRECTORY).unwrap()
    }

    #[test]
    fn a_claim_gets_a_directory_of_its_node() {
        let ClaimPlan::Make(volume) = plan(json!({}), Some("n"), true) else { panic!() };
        assert_eq!(volume["metadata"]["name"], "pvc-1-2");
        assert_eq!(volume["spec"]["hostPath"]["path"], "/data/volumes/pvc-1-2_ns_data");
        assert_eq!(volume["spec"]["claimRef"]["uid"], "1-2");
        assert_eq!(volume["spec"]["capacity"]["storage"], "1Gi");
        assert_eq!(node_of(&volume), Some("n"));
        assert_eq!(plan(json!({}), None, true), ClaimPlan::Nothing);
        for (spec, node, waits) in [
            (json!({ "accessModes": ["ReadWriteMany"] }), Some("n"), true),
            (json!({ "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] }), Some("n"), true),
            (json!({ "volumeMode": "Block" }), Some("n"), true),
            (json!({ "selector": {} }), Some("n"), true),
            (json!({}), None, false),
        ] {
            assert!(matches!(plan(spec.clone(), node, waits), ClaimPlan::Refuse(_)), "{spec}");
        }
        assert!(matches!(plan(json!({}), Some("gone"), true), ClaimPlan::Reschedule(_)));
        assert!(is_ours(&claim_of(json!({}), None)) && !is_ours(&claim_of(json!({ "volumeName": "v" }), None)));
    }

    #[test]
    fn only_directories_that_were_made_here_are_removed() {
        let ours = "/data/volumes/pvc-1_ns_data";
        let found_of = |claim: &str, path: &str, policy: &str, phase: &str, deleting: bool| {
            let mut object = json!({ "metadata": { "finalizers": [EXTERNAL_FINALIZER] }, "status": { "phase": phase }, "spec": {
                "hostPath": { "path": path }, "persistentVolumeReclaimPolicy": policy,
                "claimRef": { "namespace": "ns", "name": claim, "uid": "u" },
            } });
            if deleting {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            volume(&Volume::read(&item("", "pvc-1", &object)).unwrap(), DIRECTORY)
        };
        let found =
            |path: &str, policy: &str, phase: &str, deleting: bool| found_of("data", path, policy, phase, deleting);
        let remove = VolumePlan::Remove;
        assert_eq!(found(ours, "Delete", "Released", false), remove);
        assert_eq!(found(ours, "Delete", "Released", true), remove);
        assert_eq!(found(ours, "Delete", "Bound", false), VolumePlan::Nothing);
        assert_eq!(found(ours, "Delete", "Bound", true), VolumePlan::Nothing);
        assert_eq!(found(ours, "Retain", "Released", false), VolumePlan::Nothing);
        assert_eq!(found(ours, "Retain", "Released", true), VolumePlan::LetGo);
        assert_eq!(found("/etc", "Delete", "Released", true), VolumePlan::LetGo);
        for path in ["/", "/etc", "/data/volumes", "/data/volumes/other", "/data/volumes/../pvc-1_ns_data"] {
            assert!(matches!(found(path, "Delete", "Released", false), VolumePlan::Refuse(_)), "{path}");
        }
        // Nobody checks of which claim a volume says that it is.
        for claim in ["x/../../../etc", "x/..", "x/.", "x/y", "/"] {
            let path = format!("{DIRECTORY}/pvc-1_ns_{claim}");
            assert!(matches!(found_of(claim, &path, "Delete", "Released", false), VolumePlan::Refuse(_)), "{claim}");
            assert_eq!(found_of(claim, &path, "Delete", "Released", true), VolumePlan::LetGo, "{claim}");
        }
    }
}
