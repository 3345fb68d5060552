//! Strategic merge patch: a merge patch that merges lists item by item where the schema says so.
//!
//! A patch may carry directives: `$patch` (`replace`, `delete`) on an object or a list's item, `$retainKeys` (the
//! object's only fields to stay), `$setElementOrder/<list>` and `$deleteFromPrimitiveList/<list>`. Directives in a
//! part of the patch that is taken over as a whole stay in it; decoding then complains about unknown fields, as
//! Kubernetes' does.

mod index;
mod lists;
mod lookup;
mod order;

use std::collections::HashSet;

use super::{PatchError, go_text, json_type};
use crate::schema::Type;
use crate::value::{Editor, Map, Text, Value};
use lists::{DELETE_FROM, SET_ORDER, directive_target, merge_lists, set_orders};
use lookup::Place;

const DIRECTIVE: &str = "$patch";
const DELETE: &str = "delete";
const REPLACE: &str = "replace";
const RETAIN_KEYS: &str = "$retainKeys";

/// The document, an object of this kind, with the patch applied.
pub fn apply(patch: &Value, document: &Value, kind: &'static Type) -> Result<Value, PatchError> {
    let changes = match patch {
        Value::Object(changes) => changes.clone(),
        // Decoding null leaves nothing to change.
        Value::Null => Map::new(),
        other => {
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {} into Go value of type {}",
                json_type(other),
                go_text::MAP_TYPE
            )));
        }
    };
    merge_maps(document.as_map().clone(), changes, Place::of(kind)).map(Value::Object)
}

/// Kinds without a schema have no strategic merge patch.
pub fn unsupported() -> PatchError {
    PatchError::BadRequest("strategic merge patch format is not supported".to_owned())
}

fn merge_maps(mut original: Map, mut patch: Map, place: Place) -> Result<Map, PatchError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == REPLACE => {
            patch.remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(Value::String(directive)) if directive == DELETE => return Ok(Map::new()),
        Some(other) => return Err(unknown_directive(other, &Value::Object(patch.clone()))),
    }
    if let Some(keys) = patch.remove(RETAIN_KEYS) {
        retain_keys(&mut original, &patch, &keys)?;
    }
    set_orders(&mut original, &mut patch, place)?;
    let mut original = original.edit(patch.len());
    for (key, change) in patch.into_entries() {
        merge_entry(&mut original, key, change, place)?;
    }
    Ok(original.finish())
}

fn merge_entry(original: &mut Editor, key: Text, change: Value, place: Place) -> Result<(), PatchError> {
    let deletes = key.starts_with(DELETE_FROM);
    let name = if deletes {
        let target = directive_target(&key, DELETE_FROM);
        target.ok_or_else(|| PatchError::BadRequest("invalid patch format of primitive list".to_owned()))?
    } else {
        key.as_str()
    };
    if change.is_null() {
        original.remove(name);
        return Ok(());
    }
    let merged = match (original.get_mut(name), change) {
        (Some(Value::Object(current)), Value::Object(change)) => {
            let (place, strategy) = place.field(name)?;
            if strategy.replace { change.into() } else { merge_maps(std::mem::take(current), change, place)?.into() }
        }
        (Some(Value::Array(current)), Value::Array(change)) => {
            let (item, strategy) = place.items(name)?;
            merge_lists(std::mem::take(current), change, item, strategy, deletes)?.items.into()
        }
        // A deletion list has nothing to delete from.
        (None, _) | (Some(_), Value::Array(_) | Value::Object(_)) if deletes => return Ok(()),
        (current, mut change) => {
            let same_scalar =
                current.is_some_and(|current| std::mem::discriminant(current) == std::mem::discriminant(&change));
            if deletes && !same_scalar {
                return Ok(());
            }
            discard_nulls(&mut change);
            match remove_directives(change) {
                Some(value) => value,
                None => {
                    original.remove(name);
                    return Ok(());
                }
            }
        }
    };
    original.insert(name, merged);
    Ok(())
}

/// Clears the fields that are not listed. The patch may set listed fields only.
fn retain_keys(original: &mut Map, patch: &Map, keys: &Value) -> Result<(), PatchError> {
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Value::Array(keys) = keys else { return Err(malformed()) };
    if keys.iter().any(|key| matches!(key, Value::Array(_) | Value::Object(_))) {
        return Err(PatchError::Crash);
    }
    let names: HashSet<&str> = keys.iter().map(Value::as_str).filter(|key| !key.is_empty()).collect();
    let has_empty = keys.iter().any(|key| matches!(key, Value::String(key) if key.is_empty()));
    let listed = |name: &str| if name.is_empty() { has_empty } else { names.contains(name) };
    for (name, change) in patch.iter() {
        if !change.is_null() && !name.starts_with(DELETE_FROM) && !name.starts_with(SET_ORDER) && !listed(name) {
            return Err(malformed());
        }
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// The value without objects that carry a `$patch`; none where it is one itself.
fn remove_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.into_entries().into_iter().filter_map(|(key, value)| Some((key, remove_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(remove_directives).collect())),
        scalar => Some(scalar),
    }
}

/// Removes fields that are null, at any depth.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => map.retain(|_, value| {
            discard_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// The position of the first item whose key has this value.
fn find_item(items: &[Value], key: &str, wanted: &Value) -> Result<Option<usize>, PatchError> {
    for (position, item) in items.iter().enumerate() {
        let Value::Object(map) = item else {
            return Err(PatchError::Unexplained(format!("value for key {position} is not a map")));
        };
        if let Some(value) = map.get(key)
            && same(value, wanted)?
        {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

/// Whether two scalars are the same. Go panics when it is to compare two maps or two lists.
fn same(left: &Value, right: &Value) -> Result<bool, PatchError> {
    match (left, right) {
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => Err(PatchError::Crash),
        _ => Ok(left == right),
    }
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    let item = go_text::plain(item);
    PatchError::Unexplained(format!("map: {item} does not contain declared merge key: {key}"))
}

fn not_a_map(item: &Value) -> PatchError {
    let received = go_text::type_name(item);
    PatchError::Unexplained(format!("expected a {}, but received a {received}", go_text::MAP_TYPE))
}

fn unknown_directive(directive: &Value, map: &Value) -> PatchError {
    let directive = go_text::as_string(directive);
    PatchError::Unexplained(format!("unknown patch type: {directive} in map: {}", go_text::plain(map)))
}

#[cfg(test)]
mod tests;
