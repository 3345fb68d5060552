//! An object's old form beside its new one: which old value a new one was, and whether it is the same.

use std::collections::HashMap;

use rkube_machinery::schema::ListType;
use rkube_machinery::schema::structural::{JsonType, Structural};
use rkube_machinery::{Value, json};

/// Whether the value is what it was. Items of lists of structs are found by their keys, wherever they stand; a map with
/// entries that the schema says nothing of is never the same.
pub(super) fn is_same(schema: &Structural, old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            before.len() == after.len()
                && after.iter().all(|(name, value)| {
                    let schema = schema.property(name).or_else(|| schema.map_values());
                    schema.zip(before.get(name)).is_some_and(|(schema, old)| is_same(schema, old, value))
                })
        }
        (Value::Array(before), Value::Array(after)) => {
            let Some(items) = items_by_key(schema).filter(|_| !after.is_empty()) else { return before == after };
            let old_items = OldItems::of(schema, Some(old));
            before.len() == after.len()
                && after.iter().all(|item| old_items.find(item).is_some_and(|old| is_same(items, old, item)))
        }
        _ => old == new,
    }
}

/// The schema of a list's items where they are told apart by keys.
fn items_by_key(schema: &Structural) -> Option<&Structural> {
    schema.items.as_deref().filter(|_| schema.extensions.list_type == Some(ListType::Map))
}

/// The items of an old list of structs, by their keys.
pub(super) struct OldItems<'a> {
    schema: &'a Structural,
    by_key: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn of(schema: &'a Structural, old: Option<&'a Value>) -> Self {
        let mut by_key = HashMap::new();
        if schema.json_type == JsonType::Array && items_by_key(schema).is_some() {
            for item in old.map_or(&[][..], Value::items) {
                if let Some(key) = key_of(schema, item) {
                    by_key.entry(key).or_insert(item);
                }
            }
        }
        OldItems { schema, by_key }
    }

    /// The old form of this item.
    pub(super) fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.by_key.is_empty() {
            return None;
        }
        self.by_key.get(&key_of(self.schema, item)?).copied()
    }
}

/// The item's keys as one text; none where one is not there, or no scalar.
fn key_of(schema: &Structural, item: &Value) -> Option<String> {
    let keys = &schema.extensions.list_map_keys;
    let mut text = String::new();
    for key in keys {
        let value = item.as_map().get(key)?;
        match value {
            Value::Bool(_) | Value::Int(_) | Value::String(_) => text.push('\0'),
            Value::Float(_) => text.push('\u{1}'),
            _ => return None,
        }
        text.push_str(&json::to_string(value));
    }
    (!keys.is_empty()).then_some(text)
}
