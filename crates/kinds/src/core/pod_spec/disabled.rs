//! Fields of features that are off: dropped, unless the old object has them already.

use rkube_machinery::Value;

use super::checks;

/// Drops from a pod spec what belongs to features that are off. `old` is the old spec on update, else null.
pub fn drop_disabled(spec: &mut Value, old: &Value) {
    for kind in ["clusterTrustBundle", "podCertificate"] {
        if !has_projection(old, kind) && has_projection(spec, kind) {
            drop_projection(spec, kind);
        }
    }
    if !old.has("schedulingGroup") {
        spec.remove("schedulingGroup");
    }
    if !has_stop_signal(old) && has_stop_signal(spec) {
        drop_stop_signals(spec);
    }
}

fn has_projection(spec: &Value, kind: &str) -> bool {
    let sources = spec.list("volumes").iter().flat_map(|volume| volume.get("projected").list("sources"));
    sources.into_iter().any(|source| source.has(kind))
}

fn drop_projection(spec: &mut Value, kind: &str) {
    for volume in spec.list_mut("volumes") {
        if let Some(projected) = volume.find_mut("projected") {
            for source in projected.list_mut("sources") {
                source.remove(kind);
            }
        }
    }
}

fn has_stop_signal(spec: &Value) -> bool {
    checks::any_container(spec, |container| container.get("lifecycle").has("stopSignal"))
}

fn drop_stop_signals(spec: &mut Value) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.list_mut(list) {
            let Some(lifecycle) = container.find_mut("lifecycle") else { continue };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.as_map().is_empty() {
                container.remove("lifecycle");
            }
        }
    }
}

/// Drops from a pod's status what belongs to features that are off.
pub(crate) fn drop_disabled_status(status: &mut Value, old: &Value) {
    if old.list("nodeAllocatableResourceClaimStatuses").is_empty() {
        status.remove("nodeAllocatableResourceClaimStatuses");
    }
    if !has_volume_status(old) && has_volume_status(status) {
        for list in STATUS_LISTS {
            for container in status.list_mut(list) {
                for mount in container.list_mut("volumeMounts") {
                    mount.remove("volumeStatus");
                }
            }
        }
    }
}

pub(crate) const STATUS_LISTS: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

fn has_volume_status(status: &Value) -> bool {
    let containers = STATUS_LISTS.into_iter().flat_map(|list| status.list(list));
    containers.flat_map(|container| container.list("volumeMounts")).any(|mount| mount.has("volumeStatus"))
}
