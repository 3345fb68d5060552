//! Whether lists that say so (`x-kubernetes-list-type`) repeat nothing: whole items of sets, keys of maps.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::ListType;
use rkube_machinery::schema::structural::{Structural, sort};
use rkube_machinery::{Map, Value};

use super::repeats::{Identity, repeats};

/// All repeated items in the object.
pub fn validate_lists(schema: &Structural, object: &Value, errors: &mut Errors) {
    if let Value::Object(map) = object {
        of_map(schema, map, &Path::ROOT, errors);
    }
}

fn of_value(schema: &Structural, value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::Array(items) => of_list(schema, items, path, errors),
        Value::Object(map) => of_map(schema, map, path, errors),
        _ => {}
    }
}

fn of_map(schema: &Structural, map: &Map, path: &Path<'_>, errors: &mut Errors) {
    if let Some(values) = schema.map_values() {
        map.iter().for_each(|(name, value)| of_value(values, value, &path.key(name), errors));
    }
    for (name, value) in map.iter().filter(|(_, value)| matches!(value, Value::Array(_) | Value::Object(_))) {
        if let Some(property) = schema.property(name) {
            of_value(property, value, &path.child(name), errors);
        }
    }
}

fn of_list(schema: &Structural, items: &[Value], path: &Path<'_>, errors: &mut Errors) {
    match schema.extensions.list_type {
        Some(ListType::Set) => {
            for index in repeats(items.iter().map(Identity::Value), items.len()) {
                errors.duplicate(path.index(index), &items[index]);
            }
        }
        Some(ListType::Map) => of_keyed_list(schema, items, path, errors),
        _ => {}
    }
    if let Some(schema) = &schema.items {
        items.iter().enumerate().for_each(|(index, item)| of_value(schema, item, &path.index(index), errors));
    }
}

fn of_keyed_list(schema: &Structural, items: &[Value], path: &Path<'_>, errors: &mut Errors) {
    let is_struct = |item: &Value| matches!(item, Value::Null | Value::Object(_));
    if let Some(index) = items.iter().position(|item| !is_struct(item)) {
        let words = "must be an object for an array of list-type map";
        errors.invalid(path.index(index), &items[index], words);
        return;
    }
    let keys = &schema.extensions.list_map_keys;
    let key_of = |item: &Value| {
        let fields = keys.iter().filter_map(|key| Some((key.clone(), item.as_map().get(key)?.clone())));
        let mut key = Value::Object(Map::sorted(fields.collect()));
        sort(&mut key);
        key
    };
    let repeated = match &keys[..] {
        _ if items.len() <= 1 => return,
        [key] => {
            let identity = |item: &'_ Value| item.as_map().contains(key);
            let keys = items.iter().map(|item| match identity(item) {
                true => Identity::Value(item.get(key)),
                false => Identity::Absent,
            });
            repeats(keys, items.len())
        }
        _ => {
            let keys: Vec<Value> = items.iter().map(key_of).collect();
            repeats(keys.iter().map(Identity::Value), items.len())
        }
    };
    for index in repeated {
        errors.duplicate(path.index(index), &key_of(&items[index]));
    }
}
