//! How lists and maps are merged: `x-kubernetes-list-type`, its keys, and `x-kubernetes-map-type`.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::internal::shown_items;
use super::options::DefinitionOptions;

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";

pub fn validate(path: Path<'_>, schema: &Value, options: &DefinitionOptions<'_>, errors: &mut Errors) {
    validate_type(path, schema, MAP_TYPE, "object", errors);
    let map_type = schema.get(MAP_TYPE);
    if !map_type.is_null() && !matches!(map_type.as_str(), "atomic" | "granular") {
        errors.not_supported(path.child(MAP_TYPE), map_type, &["atomic", "granular"]);
    }
    let is_right = validate_type(path, schema, LIST_TYPE, "array", errors);
    if is_right && options.require_atomic_sets {
        validate_set(path, schema, errors);
    }
    let list_type = schema.get(LIST_TYPE);
    if !list_type.is_null() && !matches!(list_type.as_str(), "atomic" | "set" | "map") {
        errors.not_supported(path.child(LIST_TYPE), list_type, &["atomic", "set", "map"]);
    }
    if !schema.list(LIST_MAP_KEYS).is_empty() && list_type.as_str() != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            Value::Null => errors.required(path.child(LIST_TYPE), detail),
            other => errors.invalid(path.child(LIST_TYPE), other, detail),
        }
    }
    if list_type.as_str() == "map" {
        validate_map(path, schema, errors);
    }
    if options.require_set_and_map_items {
        validate_set_and_map_items(path, schema, errors);
    }
}

/// Where the extension is there, the type must be this one. Says whether nothing is wrong.
fn validate_type(path: Path<'_>, schema: &Value, extension: &str, wanted: &str, errors: &mut Errors) -> bool {
    let json_type = schema.str("type");
    if !schema.has(extension) || json_type == wanted {
        return true;
    }
    let detail = format!("must be {wanted} if {extension} is specified");
    if json_type.is_empty() {
        errors.required(path.child("type"), detail);
    } else {
        errors.invalid(path.child("type"), json_type, detail);
    }
    false
}

/// The extension by which the items of a set could be merged, although they are one thing each.
fn parts_of_items(schema: &Value) -> Option<&'static str> {
    if schema.str(LIST_TYPE) != "set" {
        return None;
    }
    let items = schema.get("items");
    match items.str("type") {
        // Lists are atomic where nothing is said, maps are not.
        "array" => (items.has(LIST_TYPE) && items.str(LIST_TYPE) != "atomic").then_some(LIST_TYPE),
        "object" => (items.str(MAP_TYPE) != "atomic").then_some(MAP_TYPE),
        _ => None,
    }
}

/// Whether the schema is that of a set whose items are not atomic.
pub fn has_items_of_parts(schema: &Value) -> bool {
    parts_of_items(schema).is_some()
}

fn validate_set(path: Path<'_>, schema: &Value, errors: &mut Errors) {
    if let Some(extension) = parts_of_items(schema) {
        // Upstream shows the list type in both cases.
        let shown = schema.get("items").get(LIST_TYPE);
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.invalid(path.child("items").child(extension), shown, detail);
    }
}

fn validate_map(path: Path<'_>, schema: &Value, errors: &mut Errors) {
    let (items_path, items) = (path.child("items"), schema.get("items"));
    let keys = schema.get(LIST_MAP_KEYS);
    if keys.items().is_empty() {
        errors.required(path.child(LIST_MAP_KEYS), "must not be empty if x-kubernetes-list-type is map");
    }
    match items {
        Value::Null => {
            return errors.required(items_path, "must have a schema if x-kubernetes-list-type is map");
        }
        Value::Object(_) => {}
        other => {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.invalid(items_path, shown_items(other), detail);
        }
    }
    let items_type = items.str("type");
    if items_type != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(items_path.child("type"), items_type, detail);
    }
    for (index, key) in keys.items().iter().enumerate() {
        let keys_path = path.child(LIST_MAP_KEYS);
        match items.map("properties").get(key.as_str()) {
            None => errors.invalid(keys_path, keys, "entries must all be names of item properties"),
            Some(property) if matches!(property.str("type"), "array" | "object") => {
                let properties = items_path.child("properties");
                let property = properties.key(key.as_str());
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(property.child("type"), items_type, detail);
            }
            Some(_) => {}
        }
        if keys.items()[..index].contains(key) {
            errors.invalid(keys_path, keys, "must not contain duplicate entries");
        }
    }
}

/// The items of sets and maps are not null, and the keys of maps are there.
pub fn validate_set_and_map_items(path: Path<'_>, schema: &Value, errors: &mut Errors) {
    let (items, list_type) = (schema.get("items"), schema.str(LIST_TYPE));
    if !matches!(items, Value::Object(_)) || !matches!(list_type, "set" | "map") {
        return;
    }
    let path = path.child("items");
    if items.bool("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(path.child("nullable"), detail);
    }
    if list_type != "map" {
        return;
    }
    for key in schema.list(LIST_MAP_KEYS) {
        let Some(property) = items.map("properties").get(key.as_str()) else { continue };
        let path = path.child("properties");
        let path = path.key(key.as_str());
        if !items.list("required").contains(key) && !property.has("default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.required(path.child("default"), detail);
        }
        if property.bool("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(path.child("nullable"), detail);
        }
    }
}
