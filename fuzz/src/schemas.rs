//! Schemas of custom resources with objects of theirs: read, checked, pruned, defaulted, validated and owned.

use std::sync::Arc;

use rkube_kinds::custom::{Validator, check_structural, validate_embedded, validate_lists};
use rkube_machinery::decode::{complete, decode};
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::managed::{Reset, WriteContext, check, track_update};
use rkube_machinery::schema::structural::{Invalid, Structural, StructuralView, sort};
use rkube_machinery::{Map, Text, TypeRef, Value, json};

use super::documents::Choices;

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
const DEPTH_MAX: usize = 4;
const NAMES: &[&str] = &["a", "b", "spec", "metadata", "kind", "name", "é"];

/// A schema, and two objects of it: one that is created and one that it is changed to.
pub fn custom_resources(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let Some(kind) = TypeRef::find(SCHEMA).map(TypeRef::get) else { return };
    let sent = if choices.below(4) == 0 { choices.fitting(kind, 0) } else { structural(&mut choices, 0) };
    let Ok(decoded) = decode(sent, kind) else { return };
    let mut document = decoded.value;
    complete(&mut document, kind);
    let Ok(mut schema) = Structural::read(&document) else { return };
    if !check_structural(&document, Path::new("schema")).is_empty() {
        return;
    }
    schema.prune_defaults();
    let mut unfolded = schema.clone();
    unfolded.unfold();
    let schema = Arc::new(schema);
    let validator = Validator::new(schema.clone());
    let Some(old) = object(&mut choices, &schema) else { return };
    let Some(new) = object(&mut choices, &schema) else { return };
    let mut errors = Errors::new();
    validator.validate(&old, None, &mut errors);
    validate_embedded(&schema, &old, &mut errors);
    validate_lists(&schema, &old, &mut errors);
    let mut of_change = Errors::new();
    validator.validate(&new, Some(&old), &mut of_change);
    validator.validate_status(&new, Some(&old), &mut of_change);
    let mut of_new = Errors::new();
    validator.validate(&new, None, &mut of_new);
    assert!(!of_new.is_empty() || of_change.is_empty(), "a right object is wrong as a change");
    own(old, new, &schema);
}

/// An object as it is stored: in the form of its schema, with defaults that stay.
fn object(choices: &mut Choices<'_>, schema: &Structural) -> Option<Value> {
    let mut object = following(choices, schema, 0);
    object.make_map();
    sort(&mut object);
    let invalid = if choices.below(2) == 0 { Invalid::Refuse } else { Invalid::Drop };
    schema.coerce(&mut object, invalid).ok()?;
    schema.set_defaults(&mut object);
    let once = json::to_string(&object);
    assert!(schema.prune(&mut object, true).is_empty(), "what is left is not known");
    schema.set_defaults(&mut object);
    assert_eq!(json::to_string(&object), once, "defaults do not stay");
    sort(&mut object);
    Some(object)
}

fn own(mut old: Value, mut new: Value, schema: &Structural) {
    let view = StructuralView::of(Some(schema));
    let context =
        WriteContext { manager: "a", api_version: "e.x/v1", kind: "K", subresource: "", time: "2020-01-01T00:00:00Z" };
    track_update(&Value::Null, &mut old, view, &context, Reset::Nothing, None);
    track_update(&old, &mut new, view, &context, Reset::Nothing, None);
    assert!(check(&old).is_err() || check(&new).is_ok());
}

/// A schema that is structural more often than not.
fn structural(choices: &mut Choices<'_>, depth: usize) -> Value {
    let mut schema = Value::object();
    let shape = match depth {
        0 => 0,
        DEPTH_MAX.. => 3 + choices.below(5),
        _ => choices.below(8),
    };
    match shape {
        0 => {
            let entry = |choices: &mut Choices<'_>| (name(choices), structural(choices, depth + 1));
            let entries = (0..choices.below(5)).map(|_| entry(choices)).collect();
            schema.set("type", "object");
            schema.set("properties", Value::Object(Map::sorted(entries)));
        }
        1 => {
            schema.set("type", "array");
            schema.set("items", structural(choices, depth + 1));
            if choices.below(2) == 1 {
                schema.set("x-kubernetes-list-type", choices.one_of(&["set", "map", "atomic"]));
                schema.set("x-kubernetes-list-map-keys", Value::from(vec![Value::from(choices.one_of(NAMES))]));
            }
        }
        2 => {
            schema.set("type", "object");
            schema.set("additionalProperties", structural(choices, depth + 1));
        }
        3 => schema.set("x-kubernetes-int-or-string", true),
        4 => schema.set("x-kubernetes-preserve-unknown-fields", true),
        _ => schema.set("type", choices.one_of(&["string", "integer", "number", "boolean"])),
    }
    if depth > 0 && choices.below(6) == 5 {
        schema.set("default", following_any(choices));
    }
    if depth > 0 && shape == 0 && choices.below(8) == 7 {
        schema.set("x-kubernetes-embedded-resource", true);
        schema.set("x-kubernetes-preserve-unknown-fields", true);
    }
    if choices.below(4) == 3 {
        schema.set("nullable", true);
    }
    limits(choices, &mut schema);
    for junctor in ["allOf", "anyOf", "oneOf"] {
        if choices.below(12) == 11 {
            let clause = |choices: &mut Choices<'_>| {
                let mut clause = Value::object();
                limits(choices, &mut clause);
                clause
            };
            let clauses: Vec<Value> = (0..=choices.below(3)).map(|_| clause(choices)).collect();
            schema.set(junctor, clauses);
        }
    }
    schema
}

fn limits(choices: &mut Choices<'_>, schema: &mut Value) {
    for field in ["maxLength", "minItems", "maxItems", "maxProperties", "minimum", "maximum", "multipleOf"] {
        if choices.below(12) == 11 {
            schema.set(field, choices.below(5) as i64);
        }
    }
    if choices.below(8) == 7 {
        schema.set("format", choices.one_of(&["date-time", "uri", "email", "hostname", "int32", "duration", "mac"]));
    }
    if choices.below(8) == 7 {
        schema.set("pattern", choices.text());
    }
    if choices.below(8) == 7 {
        schema.set("enum", vec![following_any(choices), following_any(choices)]);
    }
    if choices.below(8) == 7 {
        schema.set("required", vec![Value::from(choices.one_of(NAMES))]);
    }
}

fn following_any(choices: &mut Choices<'_>) -> Value {
    choices.any(DEPTH_MAX)
}

/// A value that follows the schema more often than not.
fn following(choices: &mut Choices<'_>, schema: &Structural, depth: usize) -> Value {
    if depth > DEPTH_MAX || choices.below(10) == 9 {
        return choices.any(depth);
    }
    let below = |choices: &mut Choices<'_>, schema: &Structural| following(choices, schema, depth + 1);
    if let Some(items) = &schema.items {
        return (0..choices.below(4)).map(|_| below(choices, items)).collect::<Vec<_>>().into();
    }
    let mut entries: Vec<(Text, Value)> = Vec::new();
    for (name, property) in &schema.properties {
        if choices.below(4) > 0 {
            entries.push((name.clone(), below(choices, property)));
        }
    }
    if let Some(values) = schema.map_values() {
        entries.extend((0..choices.below(3)).map(|_| (name(choices), below(choices, values))));
    }
    if entries.is_empty() { choices.any(depth) } else { Value::Object(Map::sorted(entries)) }
}

fn name(choices: &mut Choices<'_>) -> Text {
    Text::new(choices.one_of(NAMES))
}
