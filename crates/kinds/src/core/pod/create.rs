//! Making a pod.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Map, Value, object};

use super::super::pod_spec::{self, PodOptions, annotations, security, warnings};
use super::{qos, validate_annotations_and_spec};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// A new pod waits; what it says of its own status does not count.
pub(super) fn prepare(pod: &mut Value) {
    pod_spec::sync_service_account(pod.object_mut("spec"));
    let class = qos::class(pod).to_owned();
    pod.set("status", object! { "phase": "Pending", "qosClass": class });
    pod.object_mut("metadata").set("generation", 1);
    pod_spec::drop_disabled(pod.object_mut("spec"), &Value::Null);
    if !pod.get("spec").list("schedulingGates").is_empty() {
        note_gates(pod);
    }
    let labels = pod.get("metadata").map("labels").clone();
    merge_label_keys(pod.object_mut("spec"), &labels);
    apply_app_armor(pod);
}

/// A pod behind gates says why it does not get a node. The moment is that of its creation.
fn note_gates(pod: &mut Value) {
    let mut condition = object! { "type": "PodScheduled", "status": "False" };
    let created = pod.get("metadata").get("creationTimestamp").clone();
    condition.set("lastProbeTime", Value::Null);
    condition.set("lastTransitionTime", created);
    condition.set("reason", "SchedulingGated");
    condition.set("message", "Scheduling is blocked due to non-empty scheduling gates");
    pod.object_mut("status").array_mut("conditions").push(condition);
}

/// Keys of labels that selectors are to take from the pod itself become expressions.
fn merge_label_keys(spec: &mut Value, labels: &Map) {
    if let Some(affinity) = spec.find_mut("affinity") {
        for field in ["podAffinity", "podAntiAffinity"] {
            let Some(pods) = affinity.find_mut(field) else { continue };
            for weighted in pods.list_mut(PREFERRED) {
                if let Some(term) = weighted.find_mut("podAffinityTerm") {
                    merge_keys(term, labels);
                }
            }
            for term in pods.list_mut(REQUIRED) {
                merge_keys(term, labels);
            }
        }
    }
    for constraint in spec.list_mut("topologySpreadConstraints") {
        merge_keys(constraint, labels);
    }
}

fn merge_keys(term: &mut Value, labels: &Map) {
    if !term.has("labelSelector") {
        return;
    }
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys: Vec<String> = term.list(field).iter().map(|key| key.as_str().to_owned()).collect();
        for key in keys {
            let Some(value) = labels.get(&key) else { continue };
            let expression = object! { "key": key, "operator": operator, "values": vec![value.clone()] };
            term.object_mut("labelSelector").array_mut("matchExpressions").push(expression);
        }
    }
}

/// Profiles in annotations of old become fields.
fn apply_app_armor(pod: &mut Value) {
    for (list, index, profile) in app_armor_fields(pod).into_iter().filter_map(|found| found.field) {
        if let Some(container) = pod.object_mut("spec").list_mut(list).get_mut(index) {
            container.object_mut("securityContext").set("appArmorProfile", profile);
        }
    }
}

/// The annotation of a container that has no field: its key, and the field that says the same where one does.
struct AppArmor {
    key: String,
    field: Option<(&'static str, usize, Value)>,
    warn: bool,
}

fn app_armor_fields(pod: &Value) -> Vec<AppArmor> {
    let (annotations, spec) = (pod.get("metadata").map("annotations"), pod.get("spec"));
    let mut found = Vec::new();
    if annotations.is_empty() || spec.get("os").str("name") == "windows" {
        return found;
    }
    let of_pod = spec.get("securityContext").get("appArmorProfile");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in spec.list(list).iter().enumerate() {
            let key = format!("{}{}", annotations::APP_ARMOR_PREFIX, container.str("name"));
            let own = container.get("securityContext").has("appArmorProfile");
            let Some(annotation) = annotations.get(&key).filter(|_| !own) else { continue };
            let profile = annotations::app_armor_field(annotation.as_str()).filter(is_good_profile);
            let same = profile.as_ref() == Some(of_pod);
            let warn = profile.is_none() || !same;
            let field = profile.filter(|_| !same).map(|profile| (list, index, profile));
            found.push(AppArmor { key, field, warn });
        }
    }
    found
}

fn is_good_profile(profile: &Value) -> bool {
    let mut errors = Errors::new();
    security::validate_app_armor_profile(Path::ROOT, profile, &mut errors);
    errors.is_empty()
}

/// Warnings of AppArmor annotations. They are asked for when the fields are set already: those that the annotation
/// brought about count as well.
pub(super) fn app_armor_warnings(pod: &Value) -> Vec<String> {
    let (annotations, spec) = (pod.get("metadata").map("annotations"), pod.get("spec"));
    if annotations.is_empty() || spec.get("os").str("name") == "windows" {
        return Vec::new();
    }
    let metadata = Path::new("metadata");
    let path = metadata.child("annotations");
    let mut keys: Vec<String> =
        app_armor_fields(pod).into_iter().filter(|found| found.warn).map(|found| found.key).collect();
    pod_spec::checks::visit_containers(spec, Path::ROOT, |container, _| {
        let key = format!("{}{}", annotations::APP_ARMOR_PREFIX, container.str("name"));
        let own = container.get("securityContext").get("appArmorProfile");
        let from = annotations.get(&key).and_then(|annotation| annotations::app_armor_field(annotation.as_str()));
        if !own.is_null() && from.as_ref() == Some(own) {
            keys.push(key);
        }
    });
    keys.iter().map(|key| warnings::app_armor_warning(path, key)).collect()
}

pub(super) fn validate(pod: &Value, errors: &mut Errors) {
    let options = PodOptions::for_create().of_pod();
    validate_annotations_and_spec(pod, &options, errors);
    let (spec, path) = (pod.get("spec"), Path::new("spec"));
    if !spec.list("ephemeralContainers").is_empty() {
        errors.forbidden(path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !spec.str("nodeName").is_empty() && !spec.list("schedulingGates").is_empty() {
        errors.forbidden(path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    annotations::validate_profiles_match(path, pod.get("metadata"), spec, errors);
}
