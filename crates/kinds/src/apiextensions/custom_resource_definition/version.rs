//! What a version says beside its schema: that it is deprecated, its columns and its subresources.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path, is_printable};

use super::internal::Version;
use super::options::DefinitionOptions;
use super::{schema, selectable};

const WARNING_MAX_BYTES: usize = 256;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// `has_status`: the version has a `status` subresource, perhaps as all versions have.
pub fn validate(
    path: Path<'_>,
    version: &Version<'_>,
    has_status: bool,
    options: &DefinitionOptions<'_>,
    errors: &mut Errors,
) {
    let (value, parts) = (version.value, &version.parts);
    validate_warning(path.child("deprecationWarning"), value, errors);
    let is_unchanged = options.unchanged_schemas.contains(value.str("name"));
    schema::validate(path.child("schema"), parts.schema, has_status, is_unchanged, options, errors);
    validate_subresources(path.child("subresources"), parts.subresources, errors);
    validate_columns(path.child("additionalPrinterColumns"), parts.columns, errors);
    selectable::validate_version(path, version, options, errors);
}

fn validate_warning(path: Path<'_>, version: &Value, errors: &mut Errors) {
    if !version.has("deprecationWarning") {
        return;
    }
    let warning = version.str("deprecationWarning");
    if !version.bool("deprecated") {
        return errors.invalid(path, warning, "can only be set for deprecated versions");
    }
    if warning.len() > WARNING_MAX_BYTES {
        errors.invalid(path, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(path, warning, "must not be an empty string");
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, letter)| !is_printable(*letter)) {
        let detail =
            format!("must only contain printable UTF-8 characters; non-printable character found at index {index}");
        errors.invalid(path, warning, detail);
    }
}

pub fn validate_columns(path: Path<'_>, columns: &Value, errors: &mut Errors) {
    for (index, column) in columns.items().iter().enumerate() {
        validate_column(path.index(index), column, errors);
    }
}

fn validate_column(path: Path<'_>, column: &Value, errors: &mut Errors) {
    if column.str("name").is_empty() {
        errors.required(path.child("name"), "");
    }
    let kind = column.str("type");
    let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
    if kind.is_empty() {
        errors.required(path.child("type"), detail);
    } else if !COLUMN_TYPES.contains(&kind) {
        errors.invalid(path.child("type"), kind, detail);
    }
    let format = column.str("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.invalid(path.child("format"), format, format!("must be one of {}", COLUMN_FORMATS.join(",")));
    }
    if column.str("jsonPath").is_empty() {
        errors.required(path.child("JSONPath"), "");
    } else {
        validate_json_path(path.child("JSONPath"), column.str("jsonPath"), errors);
    }
}

/// Says whether the path is right.
fn validate_json_path(path: Path<'_>, json_path: &str, errors: &mut Errors) -> bool {
    let is_right = json_path.starts_with('.');
    if !is_right {
        errors.invalid(path, json_path, "must be a simple json path starting with .");
    }
    is_right
}

pub fn validate_subresources(path: Path<'_>, subresources: &Value, errors: &mut Errors) {
    let scale = subresources.get("scale");
    if scale.is_null() {
        return;
    }
    let path = path.child("scale");
    let spec_replicas = path.child("specReplicasPath");
    validate_scale_path(spec_replicas, scale.str("specReplicasPath"), &[".spec."], "under .spec", errors);
    let status_replicas = path.child("statusReplicasPath");
    validate_scale_path(status_replicas, scale.str("statusReplicasPath"), &[".status."], "under .status", errors);
    let selector = scale.str("labelSelectorPath");
    if !selector.is_empty() {
        let places = &[".spec.", ".status."];
        let path = path.child("labelSelectorPath");
        validate_scale_path(path, selector, places, "under either .spec or .status", errors);
    }
}

fn validate_scale_path(path: Path<'_>, json_path: &str, places: &[&str], wanted: &str, errors: &mut Errors) {
    if json_path.is_empty() {
        return errors.required(path, "");
    }
    let is_in_place = places.iter().any(|place| json_path.starts_with(place));
    if validate_json_path(path, json_path, errors) && !is_in_place {
        errors.invalid(path, json_path, format!("should be a json path {wanted}"));
    }
}
