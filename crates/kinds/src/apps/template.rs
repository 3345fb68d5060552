//! What all workloads do with their template of pods: defaults, checks, warnings, and the generation that counts
//! changes.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::selector::labels::Selector;
use rkube_machinery::{Value, names};

use crate::core::pod_spec::{self, PodOptions, go_form};

pub(crate) const SPEC: Path<'static> = Path::new("spec");
pub(crate) const STATUS: Path<'static> = Path::new("status");

/// Fills in the template of the object's spec, which is made where it is not there.
pub(crate) fn default_template(spec: &mut Value) {
    pod_spec::default_pod_template(spec.object_mut("template"));
}

/// What a new workload begins with: no status, the first generation, no fields of features that are off.
pub(crate) fn prepare_create(object: &mut Value) {
    object.set("status", Value::object());
    object.object_mut("metadata").set("generation", 1);
    drop_disabled(object, &Value::Null);
}

/// Drops from `spec.template` what belongs to features that are off. `old` is the old object, null where there is none.
pub(crate) fn drop_disabled(object: &mut Value, old: &Value) {
    let template = object.find_mut("spec").and_then(|spec| spec.find_mut("template"));
    if let Some(spec) = template.and_then(|template| template.find_mut("spec")) {
        pod_spec::drop_disabled(spec, old.at(&["spec", "template", "spec"]));
    }
}

/// A generation later than the old object's.
pub(crate) fn count_generation(object: &mut Value, old: &Value) {
    object.object_mut("metadata").set("generation", old.get("metadata").int("generation").wrapping_add(1));
}

/// Whether two templates mean the same.
pub(crate) fn same(template: &Value, old: &Value) -> bool {
    template == old
        || (go_form::same_plain(template.get("metadata"), old.get("metadata"))
            && go_form::same_spec(template.get("spec"), old.get("spec")))
}

/// Whether two specs of workloads mean the same.
pub(crate) fn same_specs(spec: &Value, old: &Value) -> bool {
    let covers = |one: &Value, other: &Value| one.as_map().keys().all(|key| same_field(key, one, other));
    spec == old || (covers(spec, old) && covers(old, spec))
}

fn same_field(field: &str, one: &Value, other: &Value) -> bool {
    let (one, other) = (one.get(field), other.get(field));
    match field {
        "template" => same(one, other),
        "volumeClaimTemplates" => same_claims(one.items(), other.items()),
        _ => go_form::same_plain(one, other),
    }
}

/// Whether two lists of claims mean the same.
pub(crate) fn same_claims(claims: &[Value], old: &[Value]) -> bool {
    let same = |(claim, old): (&Value, &Value)| {
        go_form::same_plain(claim.get("metadata"), old.get("metadata"))
            && go_form::same("PersistentVolumeClaimSpec", claim.get("spec"), old.get("spec"))
            && go_form::same_plain(claim.get("status"), old.get("status"))
    };
    claims.len() == old.len() && claims.iter().zip(old).all(same)
}

/// The exceptions for a template that replaces another; none for a new one.
pub(crate) fn options(old: Option<&Value>) -> PodOptions {
    old.map_or_else(PodOptions::for_create, |old| PodOptions::for_update(old.at(&["spec", "template"])))
}

/// Checks a template whose pods run for ever, and that the selector finds them. `owner` is the kind as errors name it.
pub(crate) fn validate(
    path: Path<'_>,
    template: &Value,
    selector: &Selector,
    options: &PodOptions,
    owner: &str,
    errors: &mut Errors,
) {
    validate_labels(path, template, selector, errors);
    pod_spec::validate_pod_template(path, template, options, errors);
    validate_lifetime(path, template, owner, errors);
}

/// The selector must find the pods of the template.
pub(crate) fn validate_labels(path: Path<'_>, template: &Value, selector: &Selector, errors: &mut Errors) {
    let labels = template.at(&["metadata", "labels"]);
    if !selector.is_everything() && !selector.matches(labels.as_map()) {
        let path = path.child("metadata");
        errors.invalid(path.child("labels"), labels, "`selector` does not match template `labels`");
    }
}

/// Pods of a workload are restarted always and end never.
pub(crate) fn validate_lifetime(path: Path<'_>, template: &Value, owner: &str, errors: &mut Errors) {
    let path = path.child("spec");
    let spec = template.get("spec");
    let policy = spec.str("restartPolicy");
    if policy != "Always" {
        errors.not_supported(path.child("restartPolicy"), policy, &["Always"]);
    }
    if spec.has("activeDeadlineSeconds") {
        let words = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.forbidden(path.child("activeDeadlineSeconds"), words);
    }
}

/// The warnings of `spec.template`.
pub(crate) fn warnings(object: &Value) -> Vec<String> {
    let template = object.at(&["spec", "template"]);
    if template.is_null() { Vec::new() } else { pod_spec::template_warnings(SPEC.child("template"), template) }
}

/// The warnings of `spec.template` where the write is a new generation.
pub(crate) fn warnings_of_change(object: &Value, old: &Value) -> Vec<String> {
    let generation = |object: &Value| object.get("metadata").int("generation");
    if generation(object) == generation(old) { Vec::new() } else { warnings(object) }
}

/// Pods are named after the object, and a host's name is a DNS label.
pub(crate) fn name_warning(object: &Value) -> Option<String> {
    let messages = names::dns1123_label(object.get("metadata").str("name"));
    (!messages.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: [{}]",
            messages.join(" ")
        )
    })
}
