//! Pods of a node: mirror pods made and deleted, status, eviction.

// tidy: types Pod Node Eviction

use rkube_access::authorize::node::references::{self, Kind, MIRROR};
use rkube_machinery::field::quote;
use rkube_machinery::{GroupResource, Status, Value};

use super::{NodeRestriction, Write};
use crate::Operation;

/// Volumes that need nothing of the API, or nothing that a mirror pod could get at by them.
const HARMLESS: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
/// And those that do, with what they refer to.
const REFERRING: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

impl NodeRestriction {
    pub(super) fn pod(&self, write: &Write<'_, '_>) -> Result<(), Status> {
        let (node, operation) = (quote(write.node), write.attributes.operation);
        match (write.attributes.subresource, operation) {
            ("", Operation::Create) => self.mirror_pod(write),
            ("", Operation::Delete) => {
                if write.old().get("spec").str("nodeName") == write.node {
                    return Ok(());
                }
                write.refuse(format!("node {node} can only delete pods with spec.nodeName set to itself"))
            }
            ("", _) => write.refuse(format!(
                "unexpected operation {}, node {node} can only create and delete mirror pods",
                quote(operation.name())
            )),
            ("status", Operation::Update) => status(write),
            ("status", _) => write.unexpected_operation(),
            ("eviction", Operation::Create) => self.eviction(write),
            ("eviction", _) => write.refuse(format!("unexpected operation {}", operation.name())),
            (other, _) => {
                let other = quote(other);
                write.refuse(format!("unexpected pod subresource {other}, only 'status' and 'eviction' are allowed"))
            }
        }
    }

    fn mirror_pod(&self, write: &Write<'_, '_>) -> Result<(), Status> {
        let (pod, node) = (write.object, quote(write.node));
        if !references::is_mirror(pod) {
            return write.refuse(format!(
                "pod does not have {} annotation, node {node} can only create mirror pods",
                quote(MIRROR)
            ));
        }
        if pod.get("spec").str("nodeName") != write.node {
            return write.refuse(format!("node {node} can only create pods with spec.nodeName set to itself"));
        }
        self.check_owner(write)?;
        match referred(pod) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => write.refuse(format!("node {node} can not create pods that reference {what}")),
            Err(why) => write.refuse(format!("error checking mirror pod for API references: {why}")),
        }
    }

    /// The node owns its mirror pods, so that they go with it.
    fn check_owner(&self, write: &Write<'_, '_>) -> Result<(), Status> {
        let node = quote(write.node);
        let owner = match write.object.get("metadata").list("ownerReferences") {
            [owner] => owner,
            [] => {
                return write.refuse(format!("node {node} can only create pods with an owner reference set to itself"));
            }
            _ => {
                let why = format!("node {node} can only create pods with a single owner reference set to itself");
                return write.refuse(why);
            }
        };
        if (owner.str("apiVersion"), owner.str("kind"), owner.str("name")) != ("v1", "Node", write.node) {
            return write.refuse(format!("node {node} can only create pods with an owner reference set to itself"));
        }
        if !owner.bool("controller") {
            let why = format!("node {node} can only create pods with a controller owner reference set to itself");
            return write.refuse(why);
        }
        if owner.bool("blockOwnerDeletion") {
            return write.refuse(format!("node {node} must not set blockOwnerDeletion on an owner reference"));
        }
        let found = self.nodes.find("", write.node);
        let found = found.ok_or_else(|| Status::not_found(&GroupResource::new("", "node"), write.node))?;
        let given = owner.str("uid");
        if found.uid != given {
            return write.refuse(format!("node {} UID mismatch: expected {given} got {}", write.node, found.uid));
        }
        Ok(())
    }

    fn eviction(&self, write: &Write<'_, '_>) -> Result<(), Status> {
        let name = match write.attributes.name {
            "" => write.object.get("metadata").str("name"),
            name => name,
        };
        if name.is_empty() {
            return write.refuse("could not determine pod from request data");
        }
        let pod = self.find_pod(write.attributes.namespace, name)?;
        if pod.get("spec").str("nodeName") == write.node {
            return Ok(());
        }
        write.refuse(format!("node {} can only evict pods with spec.nodeName set to itself", write.node))
    }

    pub(super) fn find_pod(&self, namespace: &str, name: &str) -> Result<Value, Status> {
        let found = self.pods.find(namespace, name).map(|pod| pod.value(0));
        found.ok_or_else(|| Status::not_found(&GroupResource::new("", "pod"), name))
    }
}

fn status(write: &Write<'_, '_>) -> Result<(), Status> {
    let (old, new, node) = (write.old(), write.object, quote(write.node));
    if old.get("spec").str("nodeName") != write.node {
        let why = format!("node {node} can only update pod status for pods with spec.nodeName set to itself");
        return write.refuse(why);
    }
    if old.get("metadata").map("labels") != new.get("metadata").map("labels") {
        return write.refuse(format!("node {node} cannot update labels through pod status"));
    }
    let (old, new) = (old.get("status"), new.get("status"));
    if old.list("resourceClaimStatuses") != new.list("resourceClaimStatuses") {
        return write.refuse(format!("node {node} cannot update resource claim statues"));
    }
    if old.get("extendedResourceClaimStatus") != new.get("extendedResourceClaimStatus") {
        return write.refuse(format!("node {node} cannot update extended resource claim status"));
    }
    Ok(())
}

/// The first kind of objects that the pod refers to; an error where that cannot be told.
fn referred(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = pod.get("spec");
    if !spec.str("serviceAccountName").is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    let references = references::of_any_pod(pod);
    let refers = |kind: Kind| references.iter().any(|reference| reference.0 == kind);
    if refers(Kind::Secret) {
        return Ok(Some("secrets"));
    }
    if refers(Kind::ConfigMap) {
        return Ok(Some("configmaps"));
    }
    if !spec.list("resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.list("volumes") {
        if HARMLESS.iter().any(|kind| volume.has(kind)) {
            continue;
        }
        if let Some((_, what)) = REFERRING.iter().find(|(kind, _)| volume.has(kind)) {
            return Ok(Some(what));
        }
        if !volume.has("projected") {
            return Err(format!("unknown volume type for volume  {}", quote(volume.str("name"))));
        }
        for source in volume.get("projected").list("sources") {
            if let Some((_, what)) = PROJECTED.iter().find(|(kind, _)| source.has(kind)) {
                return Ok(Some(what));
            }
            if !source.has("downwardAPI") {
                return Err(format!("unknown source for projected volume {}", quote(volume.str("name"))));
            }
        }
    }
    Ok(None)
}
