//! How pods are spread over zones, nodes and the like.

use std::collections::BTreeMap;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::checks::{Seen, one_of, one_of_if_set, positive};
use super::options::PodOptions;
use crate::meta;

const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";
const NO_SELECTOR: &str = "must not be specified when labelSelector is not set";
const POLICIES: &[&str] = &["Honor", "Ignore"];

pub(super) fn validate_spread(path: Path<'_>, constraints: &[Value], options: &PodOptions, errors: &mut Errors) {
    let come_again = come_again(constraints);
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        positive(path.child("maxSkew"), constraint.int("maxSkew"), errors);
        let (key, action) = (constraint.str("topologyKey"), constraint.str("whenUnsatisfiable"));
        if key.is_empty() {
            errors.required(path.child("topologyKey"), "can not be empty");
        }
        one_of(path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"], errors);
        if come_again[index] {
            errors.duplicate(path.child("{topologyKey, whenUnsatisfiable}"), format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = constraint.get("minDomains").as_int() {
            let path = path.child("minDomains");
            positive(path, domains, errors);
            if action != "DoNotSchedule" {
                let words = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(path, domains, words);
            }
        }
        one_of_if_set(constraint, path, "nodeAffinityPolicy", POLICIES, errors);
        one_of_if_set(constraint, path, "nodeTaintsPolicy", POLICIES, errors);
        if options.legacy_match_label_keys {
            validate_legacy_match_label_keys(path.child("matchLabelKeys"), constraint, errors);
        } else {
            validate_match_label_keys(path, constraint, errors);
        }
        if !options.any_spread_selector && constraint.has("labelSelector") {
            let selector = constraint.get("labelSelector");
            meta::validate_label_selector(path.child("labelSelector"), selector, false, errors);
        }
    }
}

/// Which constraints have one like them behind them.
fn come_again(constraints: &[Value]) -> Vec<bool> {
    let mut seen = Seen::new();
    let pairs = constraints.iter().map(|one| (one.str("topologyKey"), one.str("whenUnsatisfiable")));
    let mut again: Vec<bool> = pairs.rev().map(|pair| !seen.add(pair)).collect();
    again.reverse();
    again
}

/// Labels of the pod itself that become part of the selector.
pub(super) fn validate_match_label_keys(path: Path<'_>, term: &Value, errors: &mut Errors) {
    let selector = term.get("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.list(field);
        if keys.is_empty() {
            continue;
        }
        let path = path.child(field);
        if selector.is_null() {
            errors.forbidden(path, NO_SELECTOR);
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            meta::validate_label_name(path.index(index), key.as_str(), errors);
        }
    }
    let keys = term.list("matchLabelKeys");
    // The keys themselves are merged into the selector when a pod is made: one expression with each key is right.
    let expressions = selector.list("matchExpressions");
    let positions: BTreeMap<&str, usize> = keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
    let mut seen = Seen::new();
    for expression in expressions {
        let key = expression.get("key");
        let earlier = !seen.add(key.as_str());
        let Some(index) = positions.get(key.as_str()).copied().filter(|_| !key.is_null()) else { continue };
        if earlier || selector.map("matchLabels").contains(key.as_str()) {
            errors.invalid(path.index(index), key, IN_BOTH);
        }
    }
    let mismatched = Seen::of(term.list("mismatchLabelKeys").iter().map(Value::as_str));
    for (index, key) in keys.iter().enumerate() {
        if mismatched.has(key.as_str()) {
            let words = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.invalid(path.child("matchLabelKeys").index(index), key, words);
        }
    }
}

/// As it was before the keys were merged into the selector.
fn validate_legacy_match_label_keys(path: Path<'_>, constraint: &Value, errors: &mut Errors) {
    let keys = constraint.list("matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    let selector = constraint.get("labelSelector");
    if selector.is_null() {
        errors.forbidden(path, NO_SELECTOR);
    }
    let expressions = selector.list("matchExpressions").iter().filter(|one| one.has("key"));
    let expressions = Seen::of(expressions.map(|one| one.str("key")));
    for (index, key) in keys.iter().enumerate() {
        meta::validate_label_name(path.index(index), key.as_str(), errors);
        if selector.map("matchLabels").contains(key.as_str()) || expressions.has(key.as_str()) {
            errors.invalid(path.index(index), key, IN_BOTH);
        }
    }
}

pub(super) fn has_bad_match_label_keys(spec: &Value) -> bool {
    let mut errors = Errors::new();
    for constraint in spec.list("topologySpreadConstraints") {
        validate_match_label_keys(Path::ROOT, constraint, &mut errors);
    }
    !errors.is_empty()
}
