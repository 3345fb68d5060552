//! Merging lists, and the directives that are about lists: `$setElementOrder` and `$deleteFromPrimitiveList`.

use super::super::{PatchError, go_text};
use super::index::{Among, Index, without_repetition};
use super::lookup::{Place, Strategy};
use super::order::{arrange, partition};
use super::{
    DELETE, DIRECTIVE, REPLACE, find_item, merge_maps, no_merge_key, not_a_map, remove_directives, same,
    unknown_directive,
};
use crate::value::{Map, Text, Value};

pub(super) const SET_ORDER: &str = "$setElementOrder";
pub(super) const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// The list that a directive (`$setElementOrder/containers`) is about; none where it names no list.
pub(super) fn directive_target<'a>(key: &'a str, directive: &str) -> Option<&'a str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

/// Two lists merged.
pub(super) struct Merged {
    pub items: Vec<Value>,
    /// The order that a `$setElementOrder` directive goes by for items that it does not name. Kubernetes takes that
    /// order from the place where the list was before, in which the merge has closed the gaps of deleted items and
    /// put new ones at the end, as far as there was room.
    order: Vec<Value>,
}

/// Merges two lists as the field's strategy has it. A deletion list works whatever the strategy.
pub(super) fn merge_lists(
    original: Vec<Value>,
    patch: Vec<Value>,
    item: Place,
    strategy: Strategy,
    deletes: bool,
) -> Result<Merged, PatchError> {
    if !strategy.merge && !deletes {
        return Ok(Merged { items: patch, order: original });
    }
    if original.is_empty() && patch.is_empty() {
        return Ok(Merged { items: original, order: Vec::new() });
    }
    if items_are_maps(&original, &patch)? {
        if strategy.key.is_empty() {
            let kind = item.kind_name();
            return Err(PatchError::Unexplained(format!("cannot merge lists without merge key for {kind}")));
        }
        return merge_maps_by_key(original, patch, item, strategy.key);
    }
    if deletes {
        let deleted = Among::new(&patch);
        let items = original.iter().filter(|value| !deleted.contains(value)).cloned().collect();
        return Ok(Merged { items, order: original });
    }
    let both = original.iter().chain(&patch).cloned().collect();
    let both = without_repetition(both);
    // Without a change Kubernetes removes repetitions from the original itself, and then goes by its order.
    let order = if patch.is_empty() { both.clone() } else { original };
    let items = arrange(both, &patch, &order, strategy.key, true)?;
    Ok(Merged { items, order })
}

/// Does what the `$setElementOrder` directives say and takes them, and the lists they are about, out of the patch.
pub(super) fn set_orders(original: &mut Map, patch: &mut Map, place: Place) -> Result<(), PatchError> {
    let directives: Vec<Text> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let order = list_of(&patch.remove(&directive).unwrap_or_default())?;
        let Some(name) = directive_target(&directive, SET_ORDER) else {
            return Err(PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned()));
        };
        let before = original.get(name).map(list_of).transpose()?;
        let change = patch.get(name).map(list_of).transpose()?;
        let (item, strategy) = place.items(name)?;
        check_order(change.as_deref().unwrap_or_default(), &order, strategy.key)?;
        let merged = match (before.clone(), change.clone()) {
            (None, None) => continue,
            (Some(items), None) => Merged { order: items.clone(), items },
            (None, Some(change)) => {
                Merged { items: change.into_iter().filter_map(remove_directives).collect(), order: Vec::new() }
            }
            (Some(before), Some(change)) => merge_lists(before, change, item, strategy, false)?,
        };
        let parts = partition(merged.items, &order, strategy.key)?;
        let maps = items_are_maps(before.as_deref().unwrap_or_default(), change.as_deref().unwrap_or_default())?;
        let arranged = parts.arrange(&order, &merged.order, strategy.key, !maps)?;
        original.insert(name, arranged);
        patch.remove(name);
    }
    Ok(())
}

fn list_of(value: &Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items.clone()),
        other => Err(PatchError::Unexplained(format!(
            "expected a {}, but received a {}",
            go_text::LIST_TYPE,
            go_text::type_name(other)
        ))),
    }
}

/// The patch's items must stand in the order that the directive gives.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let deleted = |item: &&Value| item.str(DIRECTIVE) == DELETE;
    if !key.is_empty()
        && let Some(wrong) = patch.iter().find(|item| !matches!(item, Value::Object(_)))
    {
        return Err(not_a_map(wrong));
    }
    let mut items = patch.iter().filter(|item| key.is_empty() || !deleted(item)).peekable();
    let mut wanted = order.iter();
    // Items with a directive are passed over as long as the order goes on.
    while wanted.len() > 0
        && let Some(item) = items.peek()
    {
        let directs = matches!(item, Value::Object(map) if map.contains(DIRECTIVE));
        if directs || same_item(item, wanted.next().unwrap_or(&Value::Null), key)? {
            items.next();
        }
    }
    if items.peek().is_none() {
        return Ok(());
    }
    Err(PatchError::Unexplained(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        go_text::list(patch),
        go_text::list(order)
    )))
}

fn same_item(left: &Value, right: &Value, key: &str) -> Result<bool, PatchError> {
    if key.is_empty() {
        return same(left, right);
    }
    let key_of = |item: &'_ Value| match item {
        Value::Object(map) => map.get(key).cloned().ok_or_else(|| no_merge_key(item, key)),
        other => Err(not_a_map(other)),
    };
    same(&key_of(left)?, &key_of(right)?)
}

/// Whether the items are objects; they must all be of one type.
fn items_are_maps(original: &[Value], patch: &[Value]) -> Result<bool, PatchError> {
    let mut items = original.iter().chain(patch);
    let first = match items.next() {
        None => return Err(PatchError::Unexplained("no elements in any of the given slices".to_owned())),
        Some(Value::Null) => return Err(PatchError::Crash),
        Some(Value::Array(_)) => return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned())),
        Some(first) => first,
    };
    if items.any(|item| std::mem::discriminant(item) != std::mem::discriminant(first)) {
        return Err(PatchError::Unexplained(format!(
            "list element types are not identical: [{} {}]",
            go_text::list(original),
            go_text::list(patch)
        )));
    }
    Ok(matches!(first, Value::Object(_)))
}

/// What identifies an item.
pub(super) fn key_of<'v>(item: &'v Value, key: &str) -> Option<&'v Value> {
    item.as_map().get(key)
}

fn merge_maps_by_key(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    item: Place,
    key: &str,
) -> Result<Merged, PatchError> {
    let room = original.len();
    let mut changes = Vec::with_capacity(patch.len());
    let mut replaces = false;
    let mut deleted = Vec::new();
    for change in patch {
        match change.as_map().get(DIRECTIVE) {
            None => changes.push(change),
            Some(Value::String(directive)) if directive == DELETE => {
                let wanted = change.as_map().get(key).ok_or_else(|| no_merge_key(&change, key))?;
                // Only values of lists and objects, which cannot be compared, have to be looked for at once.
                if matches!(wanted, Value::Array(_) | Value::Object(_)) {
                    find_item(&original, key, wanted)?;
                }
                deleted.push(wanted.clone());
            }
            Some(Value::String(directive)) if directive == REPLACE => replaces = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(PatchError::Unexplained("merging lists cannot yet be specified in the patch".to_owned()));
            }
            Some(other) => return Err(unknown_directive(other, &change)),
        }
    }
    if !deleted.is_empty() {
        let deleted = Among::new(&deleted);
        original.retain(|item| item.as_map().get(key).is_none_or(|value| !deleted.contains(value)));
    }
    if replaces {
        let server_order = changes.clone();
        let items = arrange(changes, &[], &server_order, key, false)?;
        return Ok(Merged { items, order: original });
    }
    let server_order = original.clone();
    let patch_order = changes.clone();
    let mut index = Index::new(original.iter().map(|item| key_of(item, key)), original.len() + changes.len());
    for change in changes {
        let wanted = change.as_map().get(key).ok_or_else(|| no_merge_key(&change, key))?;
        match index.find(&original, |item| key_of(item, key), wanted)? {
            Some(position) => {
                let (Value::Object(current), Value::Object(change)) = (std::mem::take(&mut original[position]), change)
                else {
                    return Err(PatchError::Crash);
                };
                original[position] = Value::Object(merge_maps(current, change, item)?);
            }
            None => {
                index.push(Some(wanted));
                original.push(change);
            }
        }
    }
    let order = original.iter().take(room).cloned().collect();
    let items = arrange(original, &patch_order, &server_order, key, false)?;
    Ok(Merged { items, order })
}
