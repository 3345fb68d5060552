//! Changing the resources of a running pod.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::super::pod_spec::{self, PodOptions, annotations, checks, go_form};
use super::{carry, carry_metadata, count_generation, qos, validate_annotations_and_spec};

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Takes from the client's pod the resources and resize policies, where its containers are the old ones.
pub(super) fn prepare(pod: &mut Value, old: &Value) {
    let (spec, old_spec) = (pod.get("spec"), old.get("spec"));
    let same_count = |list: &str| spec.list(list).len() == old_spec.list(list).len();
    if same_count("containers") && same_count("initContainers") {
        let mut merged = old_spec.clone();
        carry(&mut merged, spec, "resources");
        for list in ["containers", "initContainers"] {
            merge_containers(&mut merged, spec, list);
        }
        pod.set("spec", merged);
        carry(pod, old, "status");
        carry_metadata(pod, old);
    }
    pod_spec::drop_disabled(pod.object_mut("spec"), old.get("spec"));
    count_generation(pod, old);
}

fn merge_containers(merged: &mut Value, new: &Value, list: &str) {
    let containers = new.list(list);
    let named = |(old, new): (&Value, &Value)| old.str("name") == new.str("name");
    if !merged.list(list).iter().zip(containers).all(named) {
        merged.set(list, containers.to_vec());
        return;
    }
    for (container, new) in merged.list_mut(list).iter_mut().zip(containers) {
        carry(container, new, "resources");
        carry(container, new, "resizePolicy");
    }
}

pub(super) fn validate(pod: &Value, old: &Value, options: &PodOptions, errors: &mut Errors) {
    let (spec, old_spec, path) = (pod.get("spec"), old.get("spec"), Path::new("spec"));
    if old.get("metadata").map("annotations").contains(annotations::MIRROR) {
        *errors = Errors::new();
        return errors.forbidden(Path::ROOT.key(""), "static pods cannot be resized");
    }
    if old_spec.get("os").str("name") == "windows" {
        *errors = Errors::new();
        return errors.forbidden(Path::ROOT.key(""), "windows pods cannot be resized");
    }
    validate_annotations_and_spec(pod, options, errors);
    if qos::class(old) != qos::compute(spec) {
        let class = pod.get("status").str("qosClass");
        errors.invalid(path, class, "Pod QOS Class may not change as a result of resizing");
    }
    if !is_supported(old) {
        errors.forbidden(path, "Pod running on node without support for resize");
    }
    let mut allowed = spec.clone();
    if has_pod_resources(old_spec) || has_pod_resources(spec) {
        validate_pod_resources(path, spec, old_spec, &mut allowed, errors);
    }
    if !old.get("status").list("nodeAllocatableResourceClaimStatuses").is_empty() {
        errors.forbidden(path, "pods with node allocatable resource claims cannot be resized");
    }
    if !validate_order(path, spec, old_spec, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let path = path.child(list);
        for (index, (new, old)) in spec.list(list).iter().zip(old_spec.list(list)).enumerate() {
            validate_removal(path.index(index).child("resources"), new, old, errors);
        }
    }
    validate_containers(path, &mut allowed, old_spec, errors);
    if errors.is_empty() && !go_form::same_spec(&allowed, old_spec) {
        errors.forbidden(path, "only cpu and memory resources are mutable");
    }
}

/// A node that can resize says what its containers have.
fn is_supported(old: &Value) -> bool {
    let running = old.get("status").list("containerStatuses").iter().find(|one| one.get("state").has("running"));
    running.is_none_or(|status| status.has("resources"))
}

fn has_pod_resources(spec: &Value) -> bool {
    let resources = spec.get("resources");
    !resources.map("requests").is_empty() || !resources.map("limits").is_empty()
}

fn validate_pod_resources(path: Path<'_>, spec: &Value, old: &Value, allowed: &mut Value, errors: &mut Errors) {
    let resources_path = path.child("resources");
    if old.has("resources") && !spec.has("resources") {
        return errors.forbidden(resources_path, "pod-level resources cannot be removed");
    }
    let (new_resources, old_resources) = (spec.get("resources"), old.get("resources"));
    for field in ["requests", "limits"] {
        if is_removed(new_resources.get(field), old_resources.get(field)) {
            let words = format!("pod-level resource {field} cannot be removed");
            errors.forbidden(resources_path.child(field), words);
        }
    }
    set_back(allowed.object_mut("resources"), old_resources);
    let left = allowed.get("resources");
    let empty = ["requests", "limits", "claims"].into_iter().all(|field| left.get(field).is_empty());
    if !old.has("resources") && empty {
        allowed.remove("resources");
    }
    let (left, before) = (allowed.get("resources"), old.get("resources"));
    if left.is_null() != before.is_null() || !go_form::same("ResourceRequirements", left, before) {
        errors.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Containers keep their names and places. Says whether they do.
fn validate_order(path: Path<'_>, spec: &Value, old: &Value, errors: &mut Errors) -> bool {
    let before = errors.len();
    for list in ["containers", "initContainers"] {
        let path = path.child(list);
        let (new, old) = (spec.list(list), old.list(list));
        if new.len() != old.len() {
            errors.forbidden(path, format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if new.str("name") != old.str("name") {
                let words = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(path.index(index).child("name"), words);
            }
        }
    }
    errors.len() == before
}

fn validate_removal(path: Path<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    for field in ["requests", "limits"] {
        if is_removed(new.get("resources").get(field), old.get("resources").get(field)) {
            errors.forbidden(path.child(field), format!("resource {field} cannot be removed"));
        }
    }
}

fn is_removed(new: &Value, old: &Value) -> bool {
    old.as_map().keys().any(|name| !new.as_map().contains(name))
}

/// Sets cpu and memory of containers back to what they were; what differs then may not.
fn validate_containers(path: Path<'_>, allowed: &mut Value, old: &Value, errors: &mut Errors) {
    for (container, old) in allowed.list_mut("containers").iter_mut().zip(old.list("containers")) {
        set_back_container(container, old);
        if !go_form::same("Container", container, old) {
            errors.forbidden(path, "only cpu and memory resources are mutable");
        }
    }
    let path = path.child("initContainers");
    let pairs = allowed.list_mut("initContainers").iter_mut().zip(old.list("initContainers"));
    for (index, (container, old)) in pairs.enumerate() {
        let path = path.index(index);
        let changed = !go_form::same("Container", container, old);
        set_back_container(container, old);
        if !go_form::same("Container", container, old) {
            errors.forbidden(path, "only cpu and memory resources for init or sidecar containers are mutable");
        }
        if changed && !checks::is_sidecar(container) {
            let policies = container.list("resizePolicy").iter();
            for _ in policies.filter(|policy| policy.str("restartPolicy") == "RestartContainer") {
                let words = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.forbidden(path, words);
            }
        }
    }
}

/// Claims are not kept: a container that has some cannot be resized.
fn set_back_container(container: &mut Value, old: &Value) {
    let resources = container.object_mut("resources");
    resources.remove("claims");
    set_back(resources, old.get("resources"));
}

fn set_back(resources: &mut Value, old: &Value) {
    for field in ["limits", "requests"] {
        for name in COMPUTE {
            match old.get(field).get(name) {
                Value::Null => {
                    if let Some(list) = resources.find_mut(field) {
                        list.remove(name);
                    }
                }
                amount => resources.object_mut(field).set(name, amount.clone()),
            }
        }
    }
}
