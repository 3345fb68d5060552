//! The schema of a definition as it is published: structural schemas only, in the words of either OpenAPI version.
//!
//! What holds: a schema that is published is no deeper than `DEPTH_MAX` of structural schemas, so walks over it may
//! recurse.

use std::collections::HashSet;

use rkube_machinery::field::Path;
use rkube_machinery::schema::structural::{JsonType, Structural, check};
use rkube_machinery::{Map, Text, Value, object};

use super::{CONVENTIONS, metadata};
use crate::definitions::Dialect;

/// The schema of a version; none where it is not structural.
pub(super) fn published(document: &Value, dialect: Dialect) -> Option<Map> {
    if document.is_null() || Structural::read(document).is_err() || has_unknown_type(document) {
        return None;
    }
    // Whether patterns compile is not asked again: nobody who reads the schema is led astray by one that does not.
    let is_structural = check(document, Path::ROOT, &|_| None).0.is_empty();
    is_structural.then(|| position(document, dialect))
}

/// Whether a `type` somewhere in the schema is none that exists.
fn has_unknown_type(schema: &Value) -> bool {
    let Value::Object(_) = schema else { return false };
    JsonType::parse(schema.str("type")).is_none()
        || ["items", "additionalProperties", "not"].iter().any(|key| has_unknown_type(schema.get(key)))
        || ["allOf", "anyOf", "oneOf"].iter().any(|key| schema.list(key).iter().any(has_unknown_type))
        || schema.map("properties").iter().any(|(_, property)| has_unknown_type(property))
}

/// A schema outside of `allOf`, `anyOf`, `oneOf` and `not`.
fn position(schema: &Value, dialect: Dialect) -> Map {
    let v2 = dialect == Dialect::V2;
    let keeps_unknown = schema.bool("x-kubernetes-preserve-unknown-fields");
    let nullable = schema.bool("nullable");
    // kubectl takes what is listed in swagger for all that there is, and knows no null.
    let hides_contents = v2 && (keeps_unknown || nullable);
    let below = |schema: &Value| position(schema, dialect);
    let convert = |key: &str, value: &Value| match key {
        "type" if v2 && has_no_type_in_v2(schema, hides_contents) => None,
        "type" | "title" | "description" => non_blank(value),
        "nullable" => (nullable && !v2).then(|| value.clone()),
        "default" => (!v2 && !value.is_null()).then(|| value.clone()),
        "externalDocs" => Some(value.clone()),
        "example" => non_blank(value),
        "items" | "properties" if hides_contents => None,
        "items" => sub_schema(value, below),
        "properties" => properties(value, below),
        "additionalProperties" if value.as_bool().is_some() => Some(value.clone()),
        "additionalProperties" => sub_schema(value, below),
        "allOf" | "anyOf" | "oneOf" | "not" if v2 => None,
        "required" if v2 => required_in_v2(schema, hides_contents),
        "x-kubernetes-list-map-keys" | "x-kubernetes-list-type" | "x-kubernetes-map-type" => non_blank(value),
        "x-kubernetes-preserve-unknown-fields" | "x-kubernetes-embedded-resource" | "x-kubernetes-int-or-string" => {
            flag(value)
        }
        _ => validation(key, value),
    };
    let mut out = converted(schema, convert);
    if !v2 && schema.bool("x-kubernetes-int-or-string") {
        write_out_int_or_string(&mut out);
    }
    if schema.bool("x-kubernetes-embedded-resource") && !(v2 && keeps_unknown) {
        embed_resource(&mut out, dialect);
    }
    out
}

/// A schema below a logical junctor: what it says of values, and `type` where that says integer or string.
fn nested(schema: &Value) -> Map {
    converted(schema, |key, value| match key {
        "type" => non_blank(value),
        "items" => sub_schema(value, nested),
        "properties" => properties(value, nested),
        _ => validation(key, value),
    })
}

fn converted(schema: &Value, convert: impl Fn(&str, &Value) -> Option<Value>) -> Map {
    let entries = schema.as_map().iter().filter_map(|(key, value)| Some((key.clone(), convert(key, value)?)));
    Map::sorted(entries.collect())
}

/// What values must be like. Anything else is not published.
fn validation(key: &str, value: &Value) -> Option<Value> {
    match key {
        "format" | "pattern" | "enum" | "required" | "x-kubernetes-validations" => non_blank(value),
        "exclusiveMaximum" | "exclusiveMinimum" | "uniqueItems" => flag(value),
        "maximum" | "minimum" | "multipleOf" | "maxLength" | "minLength" | "maxItems" | "minItems"
        | "maxProperties" | "minProperties" => Some(value.clone()).filter(|value| !value.is_null()),
        "allOf" | "anyOf" | "oneOf" => {
            let clauses = value.items().iter().map(|clause| Value::Object(nested(clause)));
            non_blank(&Value::Array(clauses.collect()))
        }
        "not" => sub_schema(value, nested),
        _ => None,
    }
}

/// The value unless Go's JSON leaves it out as empty.
fn non_blank(value: &Value) -> Option<Value> {
    let is_blank = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    (!is_blank).then(|| value.clone())
}

fn flag(value: &Value) -> Option<Value> {
    (*value == Value::Bool(true)).then_some(Value::Bool(true))
}

fn sub_schema(value: &Value, below: impl Fn(&Value) -> Map) -> Option<Value> {
    matches!(value, Value::Object(_)).then(|| Value::Object(below(value)))
}

fn properties(value: &Value, below: impl Fn(&Value) -> Map) -> Option<Value> {
    let entries: Vec<(Text, Value)> =
        value.as_map().iter().map(|(name, property)| (name.clone(), Value::Object(below(property)))).collect();
    (!entries.is_empty()).then(|| Value::Object(Map::sorted(entries)))
}

/// Swagger says nothing of a value that may be null or have any fields; kubectl fails at lists without items.
fn has_no_type_in_v2(schema: &Value, hides_contents: bool) -> bool {
    let has_items = !hides_contents && matches!(schema.get("items"), Value::Object(_));
    match schema.str("type") {
        _ if schema.bool("nullable") => true,
        "array" => !has_items,
        "object" => schema.bool("x-kubernetes-preserve-unknown-fields"),
        _ => false,
    }
}

/// The required fields but for those that may be null.
fn required_in_v2(schema: &Value, hides_contents: bool) -> Option<Value> {
    if schema.get("additionalProperties").bool("nullable") {
        return None;
    }
    let shown = if hides_contents { &Map::new() } else { schema.map("properties") };
    let nullable = shown.iter().filter(|(_, property)| property.bool("nullable"));
    let nullable: HashSet<&str> = nullable.map(|(name, _)| name.as_str()).collect();
    let required = schema.list("required").iter().filter(|name| !nullable.contains(name.as_str()));
    non_blank(&Value::Array(required.cloned().collect()))
}

/// Says in plain OpenAPI what `x-kubernetes-int-or-string` means, where the schema does not say so itself.
fn write_out_int_or_string(schema: &mut Map) {
    let either = || Value::Array(vec![object! { "type": "integer" }, object! { "type": "string" }]);
    let all_of = schema.get("allOf").map(Value::items).unwrap_or_default();
    let any_of = schema.get("anyOf");
    let is_said = any_of == Some(&either()) || all_of.first().is_some_and(|first| *first.get("anyOf") == either());
    if is_said {
        return;
    }
    if any_of.is_none() {
        schema.insert("anyOf", either());
        return;
    }
    let all_of: Vec<Value> = std::iter::once(object! { "anyOf": either() }).chain(all_of.iter().cloned()).collect();
    schema.insert("allOf", all_of);
}

/// An object within an object has type and metadata of its own.
fn embed_resource(schema: &mut Map, dialect: Dialect) {
    let properties = schema.entry("properties").make_map();
    let api_version = "apiVersion defines the versioned schema of this representation of an object.";
    let kind = "kind is a string value representing the type of this object. In CamelCase.";
    for (name, text, chapter) in [("apiVersion", api_version, "resources"), ("kind", kind, "types-kinds")] {
        let text = format!("{text} More info: {CONVENTIONS}#{chapter}");
        properties.insert(name, object! { "description": text, "type": "string" });
    }
    properties.insert("metadata", metadata(dialect));
    let mut required = schema.get("required").map(Value::items).unwrap_or_default().to_vec();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|known| known.as_str() == name) {
            required.push(Value::from(name));
        }
    }
    schema.insert("required", required);
}
