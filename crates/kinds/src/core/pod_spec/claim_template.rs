//! Claims that a volume brings along.

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::{Value, names};

use super::amounts;
use super::checks::{self, NOT_POSITIVE, each, one_of, one_of_if_set, require};
use super::resources;
use crate::meta;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The template of a claim: labels, annotations and a spec.
pub fn validate_claim_template(path: Path<'_>, template: &Value, errors: &mut Errors) {
    validate_template_meta(path.child("metadata"), template.get("metadata"), errors);
    validate_claim_spec(path.child("spec"), template.get("spec"), errors);
}

pub(crate) fn validate_template_meta(path: Path<'_>, metadata: &Value, errors: &mut Errors) {
    meta::validate_annotations(path.child("annotations"), metadata.map("annotations"), errors);
    meta::validate_labels(path.child("labels"), metadata.map("labels"), errors);
    // As the API has them, and as the error names them.
    let refused = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    for (field, shown) in refused {
        if !metadata.get(field).is_empty() {
            errors.forbidden(path.child(shown), "cannot be set");
        }
    }
}

/// What a claim may keep that was stored under older rules.
#[derive(Clone, Copy, Default)]
pub(crate) struct Leniency {
    /// In the selector, values that no label can have.
    pub(crate) any_label_value: bool,
    /// Any group of data sources.
    pub(crate) any_source_group: bool,
}

/// What a claim asks for.
pub fn validate_claim_spec(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    validate_claim_spec_leniently(path, spec, Leniency::default(), errors);
}

pub(crate) fn validate_claim_spec_leniently(path: Path<'_>, spec: &Value, leniency: Leniency, errors: &mut Errors) {
    if spec.list("accessModes").is_empty() {
        errors.required(path.child("accessModes"), "at least 1 access mode is required");
    }
    if spec.has("selector") {
        meta::validate_label_selector(path.child("selector"), spec.get("selector"), leniency.any_label_value, errors);
    }
    validate_access_modes(path.child("accessModes"), spec.list("accessModes"), errors);
    let resources = path.child("resources");
    let storage = spec.get("resources").map("requests").get("storage");
    match storage {
        None => errors.required(resources.key("storage"), ""),
        Some(amount) if !amounts::is_positive(amount) => {
            errors.invalid(resources.key("storage"), amount, NOT_POSITIVE);
        }
        Some(amount) => resources::validate_amount(resources.key("storage"), "storage", amount, errors),
    }
    let class = spec.str("storageClassName");
    if !class.is_empty() {
        checks::dns_subdomain(path.child("storageClassName"), class, errors);
    }
    one_of_if_set(spec, path, "volumeMode", &["Block", "Filesystem"], errors);
    validate_data_sources(path, spec, leniency.any_source_group, errors);
    let class = spec.str("volumeAttributesClassName");
    if !class.is_empty() {
        checks::dns_subdomain(path.child("volumeAttributesClassName"), class, errors);
    }
}

pub(crate) fn validate_access_modes(path: Path<'_>, modes: &[Value], errors: &mut Errors) {
    let (mut one_pod, mut others) = (false, false);
    for mode in modes.iter().map(Value::as_str) {
        one_of(path, mode, ACCESS_MODES, errors);
        if mode == "ReadWriteOncePod" {
            one_pod = true;
        } else if ACCESS_MODES.contains(&mode) {
            others = true;
        }
    }
    if one_pod && others {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_data_sources(path: Path<'_>, spec: &Value, any_group: bool, errors: &mut Errors) {
    let (source, reference) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    if !source.is_null() {
        validate_data_source(path.child("dataSource"), source, any_group, errors);
    }
    if !reference.is_null() {
        validate_data_source(path.child("dataSourceRef"), reference, any_group, errors);
        let namespace = reference.str("namespace");
        if !namespace.is_empty() {
            let path = path.child("dataSourceRef");
            each(path.child("namespace"), namespace, names::dns1123_label(namespace), errors);
        }
    }
    if source.is_null() || reference.is_null() {
        return;
    }
    // The bad value is a path in Go, which shows nothing of itself.
    let shown = || BadValue::Text("{}".to_owned());
    let same = ["apiGroup", "kind", "name"].into_iter().all(|field| source.get(field) == reference.get(field));
    if !reference.str("namespace").is_empty() {
        errors.invalid(path, shown(), "may not be specified when dataSourceRef.namespace is specified");
    } else if !same {
        errors.invalid(path, shown(), "must match dataSourceRef");
    }
}

fn validate_data_source(path: Path<'_>, source: &Value, any_group: bool, errors: &mut Errors) {
    require(source, path, "name", errors);
    require(source, path, "kind", errors);
    let (group, kind) = (source.str("apiGroup"), source.str("kind"));
    if !group.is_empty() {
        if !any_group {
            checks::dns_subdomain(path.child("apiGroup"), group, errors);
        }
    } else if kind != "PersistentVolumeClaim" {
        let words = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, kind, words);
    }
}
