//! Who uses a claim, a volume or a class, as pure functions.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether the object is to go and waits for this finalizer.
pub fn is_held(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.deletion_timestamp.is_some()
        && metadata.finalizers.as_ref().is_some_and(|all| all.iter().any(|one| one == finalizer))
}

/// Whether a pod that was given a node mounts the claim. Pods without one are not started with a claim that is to go.
pub fn uses_claim(pods: &[Pod], claim: &PersistentVolumeClaim) -> bool {
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    pods.iter().any(|pod| {
        let Some(spec) = pod.spec.as_ref().filter(|spec| spec.node_name.is_some()) else { return false };
        spec.volumes.iter().flatten().any(|volume| {
            let named = volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == name);
            let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
            let own = volume.ephemeral.is_some() && format!("{pod_name}-{}", volume.name) == name;
            named || own && !is_shut_down(pod) && is_controlled_by(claim, pod)
        })
    })
}

/// Whether the node is done with the pod, or nobody waits for it.
fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

fn is_controlled_by(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.any(|owner| pod.metadata.uid.as_ref() == Some(&owner.uid))
}

pub fn is_bound(volume: &PersistentVolume) -> bool {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// The claims that a pod may use: those that it names, and those that are made for it.
pub fn claims_of_pod(pod: &Pod) -> Vec<String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().filter_map(|spec| spec.volumes.as_ref()).flatten();
    let claims = volumes.filter_map(|volume| match &volume.persistent_volume_claim {
        Some(source) => Some(source.claim_name.clone()),
        None => volume.ephemeral.as_ref().map(|_| format!("{pod_name}-{}", volume.name)),
    });
    claims.collect()
}

/// The class that a volume has.
pub fn classes_of_volume(volume: &PersistentVolume) -> Vec<&str> {
    volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).into_iter().collect()
}

/// The classes that a claim has, or is to get.
pub fn classes_of_claim(claim: &PersistentVolumeClaim) -> Vec<&str> {
    let wanted = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let status = claim.status.as_ref();
    let current = status.and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let target = status
        .and_then(|status| status.modify_volume_status.as_ref())
        .and_then(|modify| modify.target_volume_attributes_class_name.as_deref());
    [wanted, current, target].into_iter().flatten().collect()
}

/// Whether a volume or a claim has this class, or is to get it.
pub fn names_class(volumes: &[PersistentVolume], claims: &[PersistentVolumeClaim], class: &str) -> bool {
    volumes.iter().any(|volume| classes_of_volume(volume).contains(&class))
        || claims.iter().any(|claim| classes_of_claim(claim).contains(&class))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn pods(spec: Value) -> Vec<Pod> {
        vec![from_value(json!({ "metadata": { "name": "web", "uid": "u" }, "spec": spec })).unwrap()]
    }

    #[test]
    fn claims_are_used_by_pods_on_nodes() {
        let claim = json!({ "claimName": "data" });
        let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u", "controller": true }]);
        let data: PersistentVolumeClaim = from_value(json!({ "metadata": { "name": "data" } })).unwrap();
        let own: PersistentVolumeClaim =
            from_value(json!({ "metadata": { "name": "web-tmp", "ownerReferences": owner } })).unwrap();
        let spec = |node: Option<&str>| {
            json!({ "nodeName": node, "containers": [], "volumes": [
                { "name": "d", "persistentVolumeClaim": claim }, { "name": "tmp", "ephemeral": {} },
            ] })
        };
        for (node, claim, used) in [
            (Some("n"), &data, true),
            (None, &data, false),
            (Some("n"), &own, true),
            (Some("n"), &PersistentVolumeClaim::default(), false),
        ] {
            assert_eq!(uses_claim(&pods(spec(node)), claim), used, "{node:?} {claim:?}");
        }
    }

    #[test]
    fn a_pod_may_use_what_it_names_and_what_is_made_for_it() {
        let volumes = json!([
            { "name": "d", "persistentVolumeClaim": { "claimName": "data" } },
            { "name": "tmp", "ephemeral": {} }, { "name": "e", "emptyDir": {} },
        ]);
        let pods = pods(json!({ "containers": [], "volumes": volumes }));
        assert_eq!(claims_of_pod(&pods[0]), ["data", "web-tmp"]);
    }

    #[test]
    fn volumes_are_used_while_they_are_bound() {
        for (phase, bound) in [("Bound", true), ("Available", false), ("Released", false)] {
            let volume = from_value(json!({ "status": { "phase": phase } })).unwrap();
            assert_eq!(is_bound(&volume), bound);
        }
    }

    #[test]
    fn classes_are_used_by_those_who_name_them() {
        let volume = from_value(json!({ "spec": { "volumeAttributesClassName": "gold" } })).unwrap();
        let claim = |text: Value| vec![from_value::<PersistentVolumeClaim>(text).unwrap()];
        assert!(names_class(&[volume], &[], "gold"));
        assert!(names_class(&[], &claim(json!({ "spec": { "volumeAttributesClassName": "gold" } })), "gold"));
        assert!(names_class(&[], &claim(json!({ "status": { "currentVolumeAttributesClassName": "gold" } })), "gold"));
        assert!(!names_class(&[], &claim(json!({ "spec": { "volumeAttributesClassName": "tin" } })), "gold"));
    }

    #[test]
    fn only_what_is_to_go_is_held() {
        let metadata = |text: Value| from_value::<ObjectMeta>(text).unwrap();
        assert!(!is_held(&metadata(json!({ "finalizers": ["f"] })), "f"));
        let going = json!({ "finalizers": ["f"], "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert!(is_held(&metadata(going.clone()), "f"));
        assert!(!is_held(&metadata(going), "g"));
    }
}
