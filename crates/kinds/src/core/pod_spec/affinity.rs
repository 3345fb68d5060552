//! Which nodes a pod wants, and which pods beside it.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::checks::{self, dns_subdomain, each};
use super::options::PodOptions;
use super::topology;
use crate::meta;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const BAD_OPERATOR: &str = "not a valid selector operator";

pub(super) fn validate_affinity(path: Path<'_>, affinity: &Value, options: &PodOptions, errors: &mut Errors) {
    if affinity.has("nodeAffinity") {
        validate_node_affinity(path.child("nodeAffinity"), affinity.get("nodeAffinity"), options, errors);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(field);
        let path = path.child(field);
        let lenient = options.any_label_value_in_selectors;
        for (index, term) in pods.list(REQUIRED).iter().enumerate() {
            validate_pod_term(path.child(REQUIRED).index(index), term, lenient, errors);
        }
        for (index, weighted) in pods.list(PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED);
            let path = path.index(index);
            validate_weight(path, weighted, errors);
            validate_pod_term(path.child("podAffinityTerm"), weighted.get("podAffinityTerm"), lenient, errors);
        }
    }
}

fn validate_weight(path: Path<'_>, term: &Value, errors: &mut Errors) {
    let weight = term.int("weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_node_affinity(path: Path<'_>, affinity: &Value, options: &PodOptions, errors: &mut Errors) {
    if affinity.has(REQUIRED) {
        let lenient = options.any_label_value_in_node_affinity;
        validate_node_selector(path.child(REQUIRED), affinity.get(REQUIRED), lenient, errors);
    }
    let path = path.child(PREFERRED);
    for (index, term) in affinity.list(PREFERRED).iter().enumerate() {
        let path = path.index(index);
        validate_weight(path, term, errors);
        validate_node_term(path.child("preference"), term.get("preference"), true, errors);
    }
}

/// Alternatives for a node. `lenient` lets values pass that no label can have.
pub fn validate_node_selector(path: Path<'_>, selector: &Value, lenient: bool, errors: &mut Errors) {
    let path = path.child("nodeSelectorTerms");
    let terms = selector.list("nodeSelectorTerms");
    if terms.is_empty() {
        return errors.required(path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        validate_node_term(path.index(index), term, lenient, errors);
    }
}

fn validate_node_term(path: Path<'_>, term: &Value, lenient: bool, errors: &mut Errors) {
    let expressions = path.child("matchExpressions");
    for (index, requirement) in term.list("matchExpressions").iter().enumerate() {
        validate_node_requirement(expressions.index(index), requirement, lenient, errors);
    }
    let fields = path.child("matchFields");
    for (index, requirement) in term.list("matchFields").iter().enumerate() {
        validate_node_field(fields.index(index), requirement, errors);
    }
}

fn validate_node_requirement(path: Path<'_>, requirement: &Value, lenient: bool, errors: &mut Errors) {
    let values = requirement.list("values");
    let values_path = path.child("values");
    match requirement.str("operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(values_path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(values_path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(values_path, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(path.child("operator"), other, BAD_OPERATOR),
    }
    meta::validate_label_name(path.child("key"), requirement.str("key"), errors);
    if lenient {
        return;
    }
    for (index, value) in values.iter().map(Value::as_str).enumerate() {
        each(values_path.index(index), value, names::label_value(value), errors);
    }
}

/// A field of the node; only its name can be asked for.
fn validate_node_field(path: Path<'_>, requirement: &Value, errors: &mut Errors) {
    let values = requirement.list("values");
    match requirement.str("operator") {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(path.child("values"), words);
        }
        other => errors.invalid(path.child("operator"), other, BAD_OPERATOR),
    }
    let key = requirement.str("key");
    if key != "metadata.name" {
        return errors.invalid(path.child("key"), key, "not a valid field selector key");
    }
    let path = path.child("values");
    for (index, value) in values.iter().enumerate() {
        dns_subdomain(path.index(index), value.as_str(), errors);
    }
}

fn validate_pod_term(path: Path<'_>, term: &Value, lenient: bool, errors: &mut Errors) {
    validate_term_selectors(path, term, lenient, errors);
    for name in term.list("namespaces").iter().map(Value::as_str) {
        checks::dns_label(path.child("namespace"), name, errors);
    }
    topology::validate_match_label_keys(path, term, errors);
    let key = term.str("topologyKey");
    if key.is_empty() {
        errors.required(path.child("topologyKey"), "can not be empty");
    }
    meta::validate_label_name(path.child("topologyKey"), key, errors);
}

fn validate_term_selectors(path: Path<'_>, term: &Value, lenient: bool, errors: &mut Errors) {
    for field in ["labelSelector", "namespaceSelector"] {
        if term.has(field) {
            meta::validate_label_selector(path.child(field), term.get(field), lenient, errors);
        }
    }
}

/// Whether a selector of the pod's affinities is one that new pods could not have.
pub(super) fn has_bad_selector(spec: &Value) -> bool {
    let mut errors = Errors::new();
    for field in ["podAffinity", "podAntiAffinity"] {
        let pods = spec.get("affinity").get(field);
        for term in pods.list(REQUIRED) {
            validate_term_selectors(Path::ROOT, term, false, &mut errors);
        }
        for term in pods.list(PREFERRED) {
            validate_term_selectors(Path::ROOT, term.get("podAffinityTerm"), false, &mut errors);
        }
    }
    !errors.is_empty()
}
