//! What a change of a claim may not do: nearly everything. A bound claim may grow and get other attributes.

use crate::strategy::NameRule;
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::{CLASS_ANNOTATION, METADATA, SPEC, data_source};
use crate::core::pod_spec::claim_template::{Leniency, validate_claim_spec_leniently};
use crate::core::pod_spec::{amounts, diff, go_form};
use crate::meta;

const TYPE: &str = "PersistentVolumeClaimSpec";

pub(super) fn validate(claim: &Value, old: &Value, errors: &mut Errors) {
    meta::validate_update_again(claim, old, errors);
    meta::validate_again(claim, true, NameRule::Subdomain, errors);
    let leniency = leniency(old.get("spec"));
    validate_claim_spec_leniently(SPEC, claim.get("spec"), leniency, errors);
    validate_spec_stays(claim, old, errors);
    validate_size(claim, old, errors);
    let (spec, before) = (claim.get("spec"), old.get("spec"));
    meta::validate_immutable(Path::new("volumeMode"), spec.get("volumeMode"), before.get("volumeMode"), errors);
    validate_attributes_class(claim, old, errors);
}

/// What an old claim has already.
fn leniency(old: &Value) -> Leniency {
    let mut wrong = Errors::new();
    meta::validate_label_selector(Path::ROOT, old.get("selector"), false, &mut wrong);
    Leniency {
        any_label_value: !wrong.is_empty(),
        any_source_group: old.get("dataSource").has("apiGroup") || old.get("dataSourceRef").has("apiGroup"),
    }
}

/// Compares the specs with all that may change made the same.
fn validate_spec_stays(claim: &Value, old: &Value, errors: &mut Errors) {
    let (spec, before) = (claim.get("spec"), old.get("spec"));
    let annotation = |object: &Value| object.get("metadata").map("annotations").get(CLASS_ANNOTATION).cloned();
    let (class_now, class_before) = (annotation(claim), annotation(old));
    let class = spec.get("storageClassName");
    let gets_class = !class.is_null() && !before.has("storageClassName");
    let fits = |annotation: &Option<Value>| annotation.as_ref().is_none_or(|there| there == class);
    let from_annotation = gets_class && class_before.is_some() && fits(&class_before) && fits(&class_now);
    if !from_annotation {
        let (now, then) = (class_now.unwrap_or_default(), class_before.clone().unwrap_or_default());
        if now.as_str() != then.as_str() {
            let path = METADATA.child("annotations");
            errors.invalid(path.child(CLASS_ANNOTATION), now.as_str(), "field is immutable");
        }
    }
    if spec == before {
        return;
    }
    let (mut new, mut old_spec) = (spec.clone(), before.clone());
    data_source::normalize(&mut old_spec);
    if before.str("volumeName").is_empty() {
        old_spec.set("volumeName", spec.str("volumeName"));
    }
    if gets_class && fits(&class_before) {
        new.remove("storageClassName");
    }
    if claim.get("status").str("phase") == "Bound" {
        if let Some(requests) = new.find_mut("resources").and_then(|resources| resources.find_mut("requests")) {
            let size = before.at(&["resources", "requests", "storage"]);
            requests.set("storage", if size.is_null() { "0".into() } else { size.clone() }); // tidy: key
        }
        new.set("volumeAttributesClassName", before.get("volumeAttributesClassName").clone());
    }
    if go_form::same(TYPE, &new, &old_spec) {
        return;
    }
    let diff = diff::unified(&go_form::go_json_indented(TYPE, &old_spec), &go_form::go_json_indented(TYPE, &new));
    let words = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                 claims";
    errors.forbidden(SPEC, format!("{words}\n{diff}"));
}

/// A claim that could not grow may shrink again, down to what it has.
fn validate_size(claim: &Value, old: &Value, errors: &mut Errors) {
    const SIZE: [&str; 4] = ["spec", "resources", "requests", "storage"];
    let size = amounts::of(claim.at(&SIZE));
    let has = amounts::of(old.at(&["status", "capacity", "storage"]));
    if size < amounts::of(old.at(&SIZE)) && size <= has {
        let path = SPEC.child("resources");
        let path = path.child("requests");
        errors.forbidden(path.child("storage"), "field can not be less than status.capacity");
    }
}

/// Attributes that are applied cannot be taken away.
fn validate_attributes_class(claim: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "volumeAttributesClassName";
    let class = claim.get("spec").get(FIELD);
    if class == old.get("spec").get(FIELD) || !old.get("status").has("currentVolumeAttributesClassName") {
        return;
    }
    let what = match class {
        Value::Null => "nil",
        class if class.as_str().is_empty() => "empty string",
        _ => return,
    };
    let words = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.forbidden(SPEC.child(FIELD), words);
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn claim(phase: &str, size: &str, class: Option<&str>) -> Value {
        let mut spec = object! {
            "accessModes": vec!["ReadWriteOnce".into()],
            "resources": object! { "requests": object! { "storage": size } },
            "volumeMode": "Filesystem",
        };
        if let Some(class) = class {
            spec.set("storageClassName", class);
        }
        let status = object! { "phase": phase, "capacity": object! { "storage": "1Gi" } };
        let metadata = object! { "name": "c", "namespace": "n", "resourceVersion": "1" };
        object! { "metadata": metadata, "spec": spec, "status": status }
    }

    #[test]
    fn only_bound_claims_grow() {
        let table = [
            (claim("Bound", "1Gi", Some("a")), claim("Bound", "2Gi", Some("a")), 0),
            (claim("Pending", "1Gi", Some("a")), claim("Pending", "2Gi", Some("a")), 1),
            (claim("Bound", "3Gi", Some("a")), claim("Bound", "2Gi", Some("a")), 0),
            (claim("Bound", "3Gi", Some("a")), claim("Bound", "1Gi", Some("a")), 1),
            (claim("Bound", "1Gi", None), claim("Bound", "1Gi", Some("a")), 0),
            (claim("Bound", "1Gi", Some("a")), claim("Bound", "1Gi", Some("b")), 1),
            (claim("Bound", "1Gi", Some("a")), claim("Bound", "1Gi", None), 1),
        ];
        for (index, (old, new, wrong)) in table.iter().enumerate() {
            let mut errors = Errors::new();
            validate(new, old, &mut errors);
            assert_eq!(errors.len(), *wrong, "{index}: {:?}", errors.summary());
        }
    }
}
