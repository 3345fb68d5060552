//! Adding containers to a running pod, to look inside.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path, quote};

use super::super::pod_spec::{self, PodOptions, annotations, go_form};
use super::{carry, carry_metadata, count_generation, update, validate_annotations_and_spec};

pub(super) fn prepare(pod: &mut Value, old: &Value) {
    let added = pod.get("spec").get("ephemeralContainers").clone();
    carry(pod, old, "spec");
    carry(pod, old, "status");
    carry_metadata(pod, old);
    let spec = pod.object_mut("spec");
    if added.is_null() {
        spec.remove("ephemeralContainers");
    } else {
        spec.set("ephemeralContainers", added);
    }
    pod_spec::drop_disabled(spec, old.get("spec"));
    count_generation(pod, old);
}

pub(super) fn validate(pod: &Value, old: &Value, options: &PodOptions, errors: &mut Errors) {
    if old.get("metadata").map("annotations").contains(annotations::MIRROR) {
        *errors = Errors::new();
        return errors.forbidden(Path::ROOT.key(""), "static pods do not support ephemeral containers");
    }
    validate_annotations_and_spec(pod, options, errors);
    update::validate_annotation_updates(pod, old, options, errors);
    let spec = Path::new("spec");
    let path = spec.child("ephemeralContainers");
    let containers = pod.get("spec").list("ephemeralContainers");
    for old in old.get("spec").list("ephemeralContainers") {
        let name = old.str("name");
        let shown = quote(name);
        match containers.iter().rfind(|container| container.str("name") == name) {
            None => errors.forbidden(path, format!("existing ephemeral containers {shown} may not be removed\n")),
            Some(new) if !go_form::same("EphemeralContainer", old, new) => {
                let difference = update::difference("EphemeralContainer", old, new);
                let words = format!("existing ephemeral containers {shown} may not be changed\n{difference}");
                errors.forbidden(path, words);
            }
            Some(_) => {}
        }
    }
}
