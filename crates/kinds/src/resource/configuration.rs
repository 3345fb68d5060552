//! What drivers are told about devices, in words of their own.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, json};

use crate::core::pod_spec::validate_driver_name;

pub(super) const CONFIGURATIONS_MAX: usize = 32;
const PARAMETERS_MAX_BYTES: usize = 10 * 1024;
const OMITTED: &str = "<value omitted>";

/// `stored` parameters may be of any size.
pub(super) fn validate(path: Path<'_>, configuration: &Value, stored: bool, errors: &mut Errors) {
    let path = path.child("opaque");
    let opaque = configuration.get("opaque");
    if opaque.is_null() {
        return errors.required(path, "");
    }
    validate_driver_name(path.child("driver"), opaque.str("driver"), errors);
    let max = if stored { usize::MAX } else { PARAMETERS_MAX_BYTES };
    validate_raw(path.child("parameters"), opaque.get("parameters"), max, errors);
}

/// An object of any form.
pub(super) fn validate_raw(path: Path<'_>, value: &Value, max_bytes: usize, errors: &mut Errors) {
    match value {
        Value::Null => errors.required(path, ""),
        value if max_bytes < usize::MAX && json::to_string(value).len() > max_bytes => {
            errors.too_long(path, max_bytes);
        }
        Value::Object(_) => {}
        _ => errors.invalid(path, OMITTED, "must be a valid JSON object"),
    }
}
