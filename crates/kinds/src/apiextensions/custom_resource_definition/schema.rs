//! The schema of a version, or of all versions: its root, whether it is structural, its defaults, and the walk over it.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::Structural;

use super::defaults;
use super::internal::shown_schema;
use super::options::DefinitionOptions;
use super::walk::Walk;
use crate::custom::check_structural;
use crate::custom::rules::Context as Site;

/// The fields of a schema in Go's order, each with Go's name.
const FIELDS: [(&str, &str); 44] = [
    ("id", "ID"),
    ("$schema", "Schema"),
    ("$ref", "Ref"),
    ("description", "Description"),
    ("type", "Type"),
    ("nullable", "Nullable"),
    ("format", "Format"),
    ("title", "Title"),
    ("default", "Default"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("enum", "Enum"),
    ("maxProperties", "MaxProperties"),
    ("minProperties", "MinProperties"),
    ("required", "Required"),
    ("items", "Items"),
    ("allOf", "AllOf"),
    ("oneOf", "OneOf"),
    ("anyOf", "AnyOf"),
    ("not", "Not"),
    ("properties", "Properties"),
    ("additionalProperties", "AdditionalProperties"),
    ("patternProperties", "PatternProperties"),
    ("dependencies", "Dependencies"),
    ("additionalItems", "AdditionalItems"),
    ("definitions", "Definitions"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource"),
    ("x-kubernetes-int-or-string", "XIntOrString"),
    ("x-kubernetes-list-map-keys", "XListMapKeys"),
    ("x-kubernetes-list-type", "XListType"),
    ("x-kubernetes-map-type", "XMapType"),
    ("x-kubernetes-validations", "XValidations"),
];

/// What the root of a schema may say where there is a `status` subresource: what is said of the status alone is taken
/// from `properties`, and everything else would be lost.
const FIELDS_AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// `path` is that of `validation`, which may be null, has the `openAPIV3Schema`. `is_unchanged`: the schema is the old
/// one, so that single rules may cost what they cost.
pub fn validate(
    path: Path<'_>,
    validation: &Value,
    has_status: bool,
    is_unchanged: bool,
    options: &DefinitionOptions<'_>,
    errors: &mut Errors,
) {
    let schema = validation.get("openAPIV3Schema");
    if schema.is_null() {
        return;
    }
    let path = path.child("openAPIV3Schema");
    let mut found = Errors::new();
    if has_status {
        validate_root(path, schema, &mut found);
    }
    if schema.bool("nullable") {
        found.forbidden(path.child("nullable"), "nullable cannot be true at the root");
    }
    let read = options.require_structural.then(|| Structural::read(schema));
    let structural = read.as_ref().and_then(|read| read.as_ref().ok());
    let is_right = structural.is_some_and(|read| validate_structural(path, schema, read, options, &mut found));
    let mut walk = Walk::new(options, is_unchanged);
    walk.root(path, schema, structural.filter(|_| is_right).map(Site::root));
    let (mut walked, costs) = walk.finish();
    found.0.append(&mut walked.0);
    // The walk says the same of most schemas, and more exactly.
    if let Some(Err(error)) = read
        && found.is_empty()
    {
        found.invalid(path, "", error.to_string());
    }
    costs.report(path, &mut found);
    errors.extend(found);
}

fn validate_root(path: Path<'_>, schema: &Value, errors: &mut Errors) {
    let mut given = FIELDS.into_iter().filter(|(field, _)| is_given(field, schema.get(field)));
    let wrong =
        given.find(
            |(_, name)| {
                if *name == "Type" { schema.str("type") != "object" } else { !FIELDS_AT_ROOT.contains(name) }
            },
        );
    match wrong {
        None => {}
        Some(("type", _)) => {
            let detail =
                "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.invalid(path.child("type"), schema.str("type"), detail);
        }
        Some(_) => {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                FIELDS_AT_ROOT.join(" ")
            );
            errors.invalid(path, shown_schema(schema), detail);
        }
    }
}

/// Whether the field is not what it is where nobody says anything. Pointers, lists and maps count when they are there.
fn is_given(field: &str, value: &Value) -> bool {
    let is_pointer = matches!(
        field,
        "$ref" | "x-kubernetes-preserve-unknown-fields" | "x-kubernetes-list-type" | "x-kubernetes-map-type"
    );
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag || is_pointer || matches!(field, "additionalProperties" | "additionalItems"),
        Value::String(text) => !text.is_empty() || is_pointer,
        _ => true,
    }
}

/// Says whether the schema is structural and its defaults are right, so that rules can be looked at.
fn validate_structural(
    path: Path<'_>,
    schema: &Value,
    structural: &Structural,
    options: &DefinitionOptions<'_>,
    errors: &mut Errors,
) -> bool {
    let mut found = check_structural(schema, path);
    if found.is_empty() {
        defaults::validate(path, schema, structural, options.require_pruned_defaults, &mut found);
    }
    let is_right = found.is_empty();
    errors.extend(found);
    is_right
}
