//! Conditions in the form that all newer kinds share.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use crate::core::pod_spec::checks::{Seen, each, one_of};
use crate::meta::validate_label_name;

const REASON_MAX_BYTES: usize = 1024;
const MESSAGE_MAX_BYTES: usize = 32 * 1024;

pub(super) fn validate(path: Path<'_>, conditions: &[Value], errors: &mut Errors) {
    let mut types = Seen::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        if !types.add(condition.str("type")) {
            errors.duplicate(path.child("type"), condition.str("type"));
        }
        validate_one(path, condition, errors);
    }
}

fn validate_one(path: Path<'_>, condition: &Value, errors: &mut Errors) {
    validate_label_name(path.child("type"), condition.str("type"), errors);
    one_of(path.child("status"), condition.str("status"), &["False", "True", "Unknown"], errors);
    let generation = condition.int("observedGeneration");
    if generation < 0 {
        errors.invalid(path.child("observedGeneration"), generation, "must be greater than or equal to zero");
    }
    if !condition.has("lastTransitionTime") {
        errors.required(path.child("lastTransitionTime"), "");
    }
    let reason = condition.str("reason");
    if reason.is_empty() {
        errors.required(path.child("reason"), "");
    } else {
        each(path.child("reason"), reason, names::condition_reason(reason), errors);
        if reason.len() > REASON_MAX_BYTES {
            errors.too_long(path.child("reason"), REASON_MAX_BYTES);
        }
    }
    if condition.str("message").len() > MESSAGE_MAX_BYTES {
        errors.too_long(path.child("message"), MESSAGE_MAX_BYTES);
    }
}
