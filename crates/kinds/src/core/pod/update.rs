//! Changing a pod: little of its spec may change.

use std::collections::{BTreeMap, BTreeSet};

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use super::super::pod_spec::{self, PodOptions, annotations, containers, diff, go_form};
use super::{carry, count_generation, validate_annotations_and_spec};
use crate::core::pod_spec::checks::Seen;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn prepare(pod: &mut Value, old: &Value) {
    carry(pod, old, "status");
    pod_spec::sync_service_account(pod.object_mut("spec"));
    pod_spec::drop_disabled(pod.object_mut("spec"), old.get("spec"));
    count_generation(pod, old);
}

pub(super) fn validate(pod: &Value, old: &Value, options: &PodOptions, errors: &mut Errors) {
    validate_annotations_and_spec(pod, options, errors);
    validate_annotation_updates(pod, old, options, errors);
    let (spec, old_spec, path) = (pod.get("spec"), old.get("spec"), Path::new("spec"));
    for list in ["containers", "initContainers"] {
        if !validate_containers(path.child(list), spec.list(list), old_spec.list(list), errors) {
            return;
        }
    }
    if !validate_deadline(path.child("activeDeadlineSeconds"), spec, old_spec, errors) {
        return;
    }
    validate_tolerations(path.child("tolerations"), spec, old_spec, options, errors);
    validate_gates(path.child("schedulingGates"), spec, old_spec, errors);
    if go_form::same_spec(spec, old_spec) {
        return;
    }
    let allowed = without_allowed_changes(path, spec, old_spec, errors);
    let (allowed, old_spec) = (go_form::internal_spec(&allowed), go_form::internal_spec(old_spec));
    if !go_form::same("PodSpec", &allowed, &old_spec) {
        let difference = difference("PodSpec", &old_spec, &allowed);
        errors.forbidden(path, format!("pod updates may not change fields other than {UPDATABLE}\n{difference}"));
    }
}

/// How two structs differ, line by line.
pub(super) fn difference(type_name: &str, old: &Value, new: &Value) -> String {
    diff::unified(&go_form::go_json_indented(type_name, old), &go_form::go_json_indented(type_name, new))
}

pub(super) fn validate_annotation_updates(pod: &Value, old: &Value, options: &PodOptions, errors: &mut Errors) {
    let metadata = Path::new("metadata");
    let path = metadata.child("annotations");
    let (now, before) = (pod.get("metadata").map("annotations"), old.get("metadata").map("annotations"));
    annotations::validate_annotation_updates(path, now, before, errors);
    annotations::validate_annotations(path, pod.get("metadata"), pod.get("spec"), options, errors);
}

/// Says whether to go on.
fn validate_containers(path: Path<'_>, new: &[Value], old: &[Value], errors: &mut Errors) -> bool {
    if new.len() != old.len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return false;
    }
    for (index, container) in new.iter().enumerate() {
        let path = path.index(index);
        if container.str("image").is_empty() {
            errors.required(path.child("image"), "");
        }
        containers::validate_image_padding(path, container, errors);
    }
    true
}

/// A deadline may be set and brought forward. Says whether to go on.
fn validate_deadline(path: Path<'_>, spec: &Value, old: &Value, errors: &mut Errors) -> bool {
    let before = old.get("activeDeadlineSeconds").as_int();
    let Some(seconds) = spec.get("activeDeadlineSeconds").as_int() else {
        if before.is_some() {
            errors.invalid(path, &Value::Null, "must not update from a positive integer to nil value");
        }
        return true;
    };
    if !(0..=i64::from(i32::MAX)).contains(&seconds) {
        errors.invalid(path, seconds, "must be between 0 and 2147483647, inclusive");
        return false;
    }
    if before.is_some_and(|before| before < seconds) {
        errors.invalid(path, seconds, "must be less than or equal to previous value");
        return false;
    }
    true
}

fn validate_tolerations(path: Path<'_>, spec: &Value, old: &Value, options: &PodOptions, errors: &mut Errors) {
    let tolerations = spec.list("tolerations");
    fn identity(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|field| toleration.str(field))
    }
    let new: BTreeSet<_> = tolerations.iter().map(identity).collect();
    if old.list("tolerations").iter().any(|old| !new.contains(&identity(old))) {
        return errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
    pod_spec::validate_tolerations(path, tolerations, options, errors);
}

fn validate_gates(path: Path<'_>, spec: &Value, old: &Value, errors: &mut Errors) {
    let gates = spec.list("schedulingGates");
    let old = Seen::of(old.list("schedulingGates").iter().map(|old| old.str("name")));
    let last: BTreeMap<&str, usize> = gates.iter().enumerate().map(|(index, gate)| (gate.str("name"), index)).collect();
    for (index, gate) in gates.iter().enumerate() {
        let name = gate.str("name");
        if last.get(name) == Some(&index) && !old.has(name) {
            let words = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(path.index(index).child("name"), words);
        }
    }
}

/// The new spec with all that may change set back to what it was; errors where such a change goes too far.
fn without_allowed_changes(path: Path<'_>, spec: &Value, old: &Value, errors: &mut Errors) -> Value {
    let mut allowed = spec.clone();
    for list in ["containers", "initContainers"] {
        for (container, old) in allowed.list_mut(list).iter_mut().zip(old.list(list)) {
            carry(container, old, "image");
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        carry(&mut allowed, old, field);
    }
    if old.int("terminationGracePeriodSeconds") < 0 && spec.int("terminationGracePeriodSeconds") == 1 {
        carry(&mut allowed, old, "terminationGracePeriodSeconds");
    }
    if !old.list("schedulingGates").is_empty() {
        narrow_gated(path, &mut allowed, old, errors);
    }
    allowed
}

/// A pod behind gates may narrow down the nodes it fits.
fn narrow_gated(path: Path<'_>, allowed: &mut Value, old: &Value, errors: &mut Errors) {
    let (selector, old_selector) = (allowed.map("nodeSelector"), old.map("nodeSelector"));
    if selector != old_selector {
        if old_selector.iter().any(|(key, value)| selector.get(key) != Some(value)) {
            let words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.invalid(path.child("nodeSelector"), allowed.get("nodeSelector"), words);
        }
        carry(allowed, old, "nodeSelector");
    }
    let node = allowed.get("affinity").get("nodeAffinity");
    let old_node = old.get("affinity").get("nodeAffinity");
    if node.is_null() == old_node.is_null() && go_form::same("NodeAffinity", node, old_node) {
        return;
    }
    let affinity_path = path.child("affinity");
    validate_node_affinity(affinity_path.child("nodeAffinity"), node, old_node, errors);
    let affinity = allowed.get("affinity");
    let others = affinity.has("podAffinity") || affinity.has("podAntiAffinity");
    if !affinity.is_null() && !old.has("affinity") && !others {
        allowed.remove("affinity");
    } else if !affinity.is_null() || !old_node.is_null() {
        carry(allowed.object_mut("affinity"), old.get("affinity"), "nodeAffinity");
    }
}

fn validate_node_affinity(path: Path<'_>, new: &Value, old: &Value, errors: &mut Errors) {
    if !old.has(REQUIRED) {
        return;
    }
    let path = path.child(REQUIRED);
    let path = path.child("nodeSelectorTerms");
    let terms = new.get(REQUIRED).list("nodeSelectorTerms");
    let old_terms = old.get(REQUIRED).list("nodeSelectorTerms");
    let shown = |term: &Value| go_form::go_json("NodeSelectorTerm", term);
    if !old_terms.is_empty() && old_terms.len() != terms.len() {
        let all = match new.get(REQUIRED).has("nodeSelectorTerms") {
            true => format!("[{}]", terms.iter().map(shown).collect::<Vec<_>>().join(",")),
            false => "null".to_owned(),
        };
        let words = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(path, BadValue::Text(all), words);
    }
    for (index, (term, old)) in terms.iter().zip(old_terms).enumerate() {
        if !only_adds(term, old) {
            let words = "only additions are allowed (no mutations or deletions)";
            errors.invalid(path.index(index), BadValue::Text(shown(term)), words);
        }
    }
}

/// Whether the term has all that the old one has; an empty term, which fits nothing, stays empty.
fn only_adds(term: &Value, old: &Value) -> bool {
    let fields = ["matchExpressions", "matchFields"];
    if fields.into_iter().all(|field| old.list(field).is_empty()) {
        return fields.into_iter().all(|field| term.list(field).is_empty());
    }
    fields.into_iter().all(|field| {
        let (new, old) = (term.list(field), old.list(field));
        new.len() >= old.len()
            && new.iter().zip(old).all(|(new, old)| go_form::same("NodeSelectorRequirement", new, old))
    })
}
