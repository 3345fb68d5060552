//! The selector of a workload: there, right, not empty, and the same for ever.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::json;
use rkube_machinery::selector::labels::Selector;

use crate::core::pod_spec::go_form::same_plain;
use crate::meta;

/// Checks a selector that must be there. `owner` is what an empty one is invalid for, `unreadable` what is said of a
/// wrong one. The result is the selector, where it can be read.
pub(crate) fn validate(
    path: Path<'_>,
    selector: &Value,
    owner: &str,
    unreadable: &str,
    errors: &mut Errors,
) -> Option<Selector> {
    if selector.is_null() {
        errors.required(path, "");
    } else {
        meta::validate_label_selector(path, selector, false, errors);
        validate_not_empty(path, selector, owner, errors);
    }
    let read = Selector::from_label_selector(selector);
    if read.is_err() {
        errors.invalid(path, shown(selector), unreadable);
    }
    read.ok()
}

pub(crate) fn validate_not_empty(path: Path<'_>, selector: &Value, owner: &str, errors: &mut Errors) {
    if selector.map("matchLabels").is_empty() && selector.list("matchExpressions").is_empty() {
        errors.invalid(path, shown(selector), format!("empty selector is invalid for {owner}"));
    }
}

pub(crate) fn validate_same(path: Path<'_>, selector: &Value, old: &Value, errors: &mut Errors) {
    if !same_plain(selector, old) {
        errors.invalid(path, shown(selector), "field is immutable");
    }
}

/// As Go shows it: without what is empty.
fn shown(selector: &Value) -> BadValue {
    let mut selector = selector.clone();
    for field in ["matchLabels", "matchExpressions"] {
        if selector.get(field).is_empty() {
            selector.remove(field);
        }
    }
    for expression in selector.list_mut("matchExpressions") {
        if expression.list("values").is_empty() {
            expression.remove("values");
        }
    }
    BadValue::Text(json::to_string(&selector))
}
