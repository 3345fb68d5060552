//! Fields by which objects can be selected.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::{JsonType, Structural};

use super::SPEC;
use super::internal::{Parts, Version};
use super::options::DefinitionOptions;
use crate::custom::rules::resolve_field_path;

pub const FIELDS_MAX: usize = 8;

/// The fields that all versions share. Upstream wants a schema that all versions share then.
pub fn validate_shared(shared: &Parts<'_>, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    let path = SPEC.child("selectableFields");
    if shared.selectable_fields.items().is_empty() {
        return;
    }
    if shared.schema.is_null() {
        return errors.invalid(path, "", "may only be set when validations.schema is included");
    }
    validate_with_schema(SPEC, path, shared, "", options, errors);
}

/// The fields of one version; `path` is that of the version.
pub fn validate_version(path: Path<'_>, version: &Version<'_>, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    let parts = &version.parts;
    if parts.selectable_fields.items().is_empty() {
        return;
    }
    let fields_path = path.child("selectableFields");
    if !parts.schema.has("openAPIV3Schema") {
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        return errors.invalid(fields_path, "", detail);
    }
    validate_with_schema(path, fields_path, parts, version.value.str("name"), options, errors);
}

fn validate_with_schema(
    path: Path<'_>,
    fields_path: Path<'_>,
    parts: &Parts<'_>,
    version: &str,
    options: &DefinitionOptions<'_>,
    errors: &mut Errors,
) {
    match Structural::read(parts.schema.get("openAPIV3Schema")) {
        Err(error) => errors.invalid(path.child("schema.openAPIV3Schema"), "", error.to_string()),
        Ok(schema) => validate(fields_path, parts.selectable_fields, &schema, version, options, errors),
    }
}

fn validate(
    path: Path<'_>,
    fields: &Value,
    schema: &Structural,
    version: &str,
    options: &DefinitionOptions<'_>,
    errors: &mut Errors,
) {
    let mut distinct: Vec<String> = Vec::new();
    for (index, field) in fields.items().iter().enumerate() {
        let path = path.index(index);
        let path = path.child("jsonPath");
        let json_path = field.str("jsonPath");
        if json_path.is_empty() {
            errors.required(path, "");
            continue;
        }
        let (text, schema) = match resolve_field_path(json_path, schema, false) {
            Ok(found) => found,
            Err(error) => {
                errors.invalid(path, json_path, format!("is an invalid path: {error}"));
                continue;
            }
        };
        if text.split(['.', '[']).next() == Some("metadata") {
            errors.invalid(path, json_path, "must not point to fields in metadata");
        }
        if !matches!(schema.json_type, JsonType::String | JsonType::Boolean | JsonType::Integer) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.invalid(path, json_path, detail);
        }
        if distinct.contains(&text) {
            errors.duplicate(path, json_path);
        } else {
            distinct.push(text);
        }
    }
    if distinct.len() > FIELDS_MAX && !options.allow_many_selectable.contains(version) {
        errors.too_many(path, distinct.len(), FIELDS_MAX);
    }
}
