//! Checks that several kinds of this group share.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::core::pod_spec::checks::qualified_name;

const PARAMETERS_MAX: usize = 512;
const PARAMETERS_MAX_BYTES: usize = 256 * 1024;

/// The name of what makes volumes. Case does not matter; errors show it in lower case.
pub(super) fn provisioner(path: Path<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
    } else if name.bytes().any(|byte| byte.is_ascii_uppercase()) || !name.is_ascii() {
        qualified_name(path, &name.to_lowercase(), errors);
    } else {
        qualified_name(path, name, errors);
    }
}

pub(super) fn parameters(path: Path<'_>, object: &Value, may_be_empty: bool, errors: &mut Errors) {
    let parameters = object.map("parameters");
    if parameters.len() > PARAMETERS_MAX {
        return errors.too_long(path, PARAMETERS_MAX);
    }
    let mut size = 0;
    for (key, value) in parameters.iter() {
        if key.is_empty() {
            errors.invalid(path, "", "field can not be empty.");
        }
        size += key.len() + value.as_str().len();
    }
    if size > PARAMETERS_MAX_BYTES {
        errors.too_long(path, PARAMETERS_MAX_BYTES);
    }
    if !may_be_empty && parameters.is_empty() {
        errors.required(path, "must contain at least one key/value pair");
    }
}
