//! What a pod or a volume refers to, and what the node that has it may therefore read.

use rkube_machinery::{Text, Value};

/// What pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    ConfigMap,
    Secret,
    Claim,
    ServiceAccount,
    ResourceClaim,
}

/// An object in the namespace of the pod.
pub type Reference = (Kind, Text);

/// That a pod stands for one of a node's own, which API objects cannot be part of.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Where volumes name secrets: the kind of volume, the way to the name.
const VOLUME_SECRETS: [(&str, &[&str]); 10] = [
    ("azureFile", &["secretName"]),
    ("cephfs", &["secretRef", "name"]),
    ("cinder", &["secretRef", "name"]),
    ("flexVolume", &["secretRef", "name"]),
    ("rbd", &["secretRef", "name"]),
    ("secret", &["secretName"]),
    ("scaleIO", &["secretRef", "name"]),
    ("iscsi", &["secretRef", "name"]),
    ("storageos", &["secretRef", "name"]),
    ("csi", &["nodePublishSecretRef", "name"]),
];

/// Whether a pod stands for one of its node's own.
pub fn is_mirror(pod: &Value) -> bool {
    pod.get("metadata").get("annotations").has(MIRROR)
}

/// All that a pod refers to, each once. A mirror pod refers to nothing, whatever it says: nodes make them.
pub fn of_pod(pod: &Value) -> Vec<Reference> {
    if is_mirror(pod) { Vec::new() } else { of_any_pod(pod) }
}

/// All that a pod refers to, each once.
pub fn of_any_pod(pod: &Value) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut add = |kind: Kind, name: &str| {
        let reference = (kind, Text::new(name));
        if !name.is_empty() && !found.contains(&reference) {
            found.push(reference);
        }
    };
    let (spec, status) = (pod.get("spec"), pod.get("status"));
    add(Kind::ServiceAccount, spec.str("serviceAccountName"));
    for secret in spec.list("imagePullSecrets") {
        add(Kind::Secret, secret.str("name"));
    }
    for container in ["initContainers", "containers", "ephemeralContainers"].iter().flat_map(|list| spec.list(list)) {
        for source in container.list("envFrom") {
            add(Kind::Secret, source.get("secretRef").str("name"));
            add(Kind::ConfigMap, source.get("configMapRef").str("name"));
        }
        for source in container.list("env").iter().map(|variable| variable.get("valueFrom")) {
            add(Kind::Secret, source.get("secretKeyRef").str("name"));
            add(Kind::ConfigMap, source.get("configMapKeyRef").str("name"));
        }
    }
    let name = pod.get("metadata").str("name");
    for volume in spec.list("volumes") {
        add(Kind::ConfigMap, volume.get("configMap").str("name"));
        for (kind, path) in VOLUME_SECRETS {
            add(Kind::Secret, volume.get(kind).at(path).as_str());
        }
        for source in volume.get("projected").list("sources") {
            add(Kind::Secret, source.get("secret").str("name"));
            add(Kind::ConfigMap, source.get("configMap").str("name"));
        }
        add(Kind::Claim, volume.get("persistentVolumeClaim").str("claimName"));
        if volume.has("ephemeral") {
            add(Kind::Claim, &format!("{name}-{}", volume.str("name")));
        }
    }
    for claim in spec.list("resourceClaims") {
        add(Kind::ResourceClaim, claim.str("resourceClaimName"));
    }
    // Claims that were made of templates.
    for made in status.list("resourceClaimStatuses") {
        add(Kind::ResourceClaim, made.str("resourceClaimName"));
    }
    add(Kind::ResourceClaim, status.get("extendedResourceClaimStatus").str("resourceClaimName"));
    found
}

/// Whether a node needs this secret to mount the volume.
pub fn volume_has_secret(volume: &Value, namespace: &str, name: &str) -> bool {
    let spec = volume.get("spec");
    let claim_namespace = spec.get("claimRef").str("namespace");
    // Where no namespace is said it is that of the claim, for kinds that had no word for it once.
    let is_it = |secret_namespace: &str, secret: &str, or_of_claim: bool| {
        let found = if secret_namespace.is_empty() && or_of_claim { claim_namespace } else { secret_namespace };
        !secret.is_empty() && secret == name && found == namespace
    };
    let azure = spec.get("azureFile");
    if is_it(azure.str("secretNamespace"), azure.str("secretName"), true) {
        return true;
    }
    let of = |kind: &str, field: &str, or_of_claim: bool| {
        let secret = spec.get(kind).get(field);
        is_it(secret.str("namespace"), secret.str("name"), or_of_claim)
    };
    ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"].iter().any(|kind| of(kind, "secretRef", true))
        || ["cinder", "storageos"].iter().any(|kind| of(kind, "secretRef", false))
        || ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"]
            .iter()
            .any(|field| of("csi", field, false))
}
