//! `persistentVolumeClaim`: the persistent volume that a claim is bound to, of kind `local` or `hostPath`.

use std::path::PathBuf;

use rkube_machinery::Value;

use super::{Content, Failure, Gather, Gathered, host_path};

/// The group of a volume that has one, and only one.
const GROUP: &str = "pv.beta.kubernetes.io/gid";
const PROTECTION: &str = "kubernetes.io/pvc-protection";

pub async fn gather(gather: &Gather<'_>, volume: &Value) -> Result<Gathered, Failure> {
    let source = volume.get("persistentVolumeClaim");
    let namespace = gather.pod.get("metadata").str("namespace");
    let claim = source.str("claimName");
    let found = find(gather, namespace, claim).await;
    let persistent =
        found.map_err(|why| Failure::Process { why: format!("error processing PVC {namespace}/{claim}: {why}") })?;
    let (name, spec) = (persistent.get("metadata").str("name"), persistent.get("spec"));
    if spec.str("volumeMode") == "Block" {
        let why = format!("volume {} has volumeMode Block, which this node cannot use", volume.str("name"));
        return Err(Failure::Process { why });
    }
    let content = if spec.has("local") {
        Content::Local { path: PathBuf::from(spec.get("local").str("path")) }
    } else if spec.has("hostPath") {
        host_path::content(spec.get("hostPath"))
    } else {
        return Err(Failure::Process {
            why: format!("persistent volume {name:?} is of a kind that this node does not know"),
        });
    };
    let extra_group = persistent.get("metadata").map("annotations").str(GROUP).parse().ok();
    Ok(Gathered { name: name.into(), read_only: source.bool("readOnly"), extra_group, content })
}

/// The volume of a claim.
async fn find(gather: &Gather<'_>, namespace: &str, claim: &str) -> Result<std::sync::Arc<Value>, String> {
    let found = gather.objects.get(&format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")).await;
    let found = found.map_err(|missing| {
        format!("failed to fetch PVC from API server: {}", missing.say("persistentvolumeclaims", claim))
    })?;
    let name = bound_to(&found)?;
    let volume = gather.objects.get(&format!("/api/v1/persistentvolumes/{name}")).await;
    let volume = volume.map_err(|missing| {
        format!("failed to fetch PV {name} from API server: {}", missing.say("persistentvolumes", name))
    })?;
    let reference = volume.get("spec").get("claimRef");
    let uid = found.get("metadata").str("uid");
    if reference.is_null() {
        return Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    }
    if reference.str("uid") != uid {
        return Err(format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {} does not point to claim.UID {uid}",
            reference.str("uid")
        ));
    }
    Ok(volume)
}

fn bound_to(claim: &Value) -> Result<&str, String> {
    let metadata = claim.get("metadata");
    let is_protected = metadata.list("finalizers").iter().any(|finalizer| finalizer.as_str() == PROTECTION);
    if metadata.has("deletionTimestamp") && !is_protected {
        return Err("PVC is being deleted".to_owned());
    }
    if claim.get("status").str("phase") != "Bound" {
        return Err("PVC is not bound".to_owned());
    }
    match claim.get("spec").str("volumeName") {
        "" => Err("PVC has empty pvc.Spec.VolumeName".to_owned()),
        name => Ok(name),
    }
}
