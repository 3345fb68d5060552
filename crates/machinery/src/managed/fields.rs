//! Field sets and values held against a schema: what a value sets, taking fields out, sets as a schema sees them.

use super::compare::item_element;
use super::element::PathElement;
use super::set::FieldSet;
use super::view::{Child, Form, List, SchemaView};
use crate::value::{Map, Text, Value};

/// Every field and item that the value mentions.
pub(super) fn field_set<S: SchemaView>(value: &Value, schema: S) -> FieldSet {
    below(value, schema).1
}

/// Whether the value is a leaf of its own, and what it mentions below.
fn below<S: SchemaView>(value: &Value, schema: S) -> (bool, FieldSet) {
    match (schema.form(value), value) {
        (Form::Scalar(_), _) | (Form::List(List::Atomic), _) | (Form::Map { atomic: true }, _) => {
            (true, FieldSet::new())
        }
        (Form::Map { .. }, Value::Object(map)) => (false, map_fields(map, schema)),
        (Form::List(kind), Value::Array(items)) => (false, list_fields(kind, items, schema)),
        _ => (false, FieldSet::new()),
    }
}

fn map_fields<S: SchemaView>(map: &Map, schema: S) -> FieldSet {
    let mut set = FieldSet::new();
    for (name, value) in map.iter() {
        let (child, declared) = match schema.child(name) {
            Child::Declared(child) => (child, true),
            Child::Entry(child) => (child, false),
            Child::Unknown => continue,
        };
        let (leaf, fields) = below(value, child);
        let empty = match value {
            Value::Null => true,
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        set.push(PathElement::Field(name.clone()), leaf || empty || !declared, fields);
    }
    set.settle();
    set
}

/// An item without the keys that would tell it from others. Pruning can leave such items for a moment.
const NAMELESS: PathElement = PathElement::Index(-1);

fn list_fields<S: SchemaView>(kind: List, items: &[Value], schema: S) -> FieldSet {
    let mut found: Vec<(PathElement, &Value, bool)> = Vec::with_capacity(items.len());
    for item in items {
        // What has lost its keys is still something, or the list would count as gone.
        let element = item_element(kind, schema, item).unwrap_or(NAMELESS);
        found.push((element, item, false));
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found.dedup_by(|later, earlier| {
        let repeated = later.0 == earlier.0;
        earlier.2 |= repeated;
        repeated
    });
    let mut set = FieldSet::new();
    for (element, item, repeated) in found {
        let fields = if repeated { FieldSet::new() } else { below(item, schema.item()).1 };
        set.push(element, true, fields);
    }
    set
}

/// The set with the struct fields above its paths, which otherwise are nobody's. Without a schema nothing is named.
pub(super) fn with_named_fields<S: SchemaView>(set: &FieldSet, schema: Option<S>) -> FieldSet {
    let form = schema.map(|schema| (schema, schema.form(&Value::Null)));
    let mut named = FieldSet::new();
    for node in &set.nodes {
        let mut member = node.member;
        let child = match (&node.element, form) {
            (PathElement::Field(name), Some((schema, Form::Map { .. }))) => match schema.child(name) {
                Child::Declared(child) => {
                    member = true;
                    Some(child)
                }
                Child::Entry(child) => Some(child),
                Child::Unknown => None,
            },
            (PathElement::Key(_), Some((schema, Form::List(_)))) => Some(schema.item()),
            _ => None,
        };
        let below = if node.below.is_empty() { FieldSet::new() } else { with_named_fields(&node.below, child) };
        named.push(node.element.clone(), member || node.member, below);
    }
    named
}

/// Turns paths below what the schema now takes as a whole into that whole; says whether there were any.
pub(super) fn collapse_atomic<S: SchemaView>(set: &mut FieldSet, schema: S) -> bool {
    let form = schema.form(&Value::Null);
    let mut changed = false;
    for node in &mut set.nodes {
        if node.below.is_empty() {
            continue;
        }
        let child = match (&node.element, form) {
            (PathElement::Field(name), Form::Map { .. }) => match schema.child(name) {
                Child::Declared(child) | Child::Entry(child) => child,
                Child::Unknown => continue,
            },
            (_, Form::List(_)) => schema.item(),
            _ => continue,
        };
        match child.form(&Value::Null) {
            Form::Map { .. } if child.is_deduced() => {}
            Form::Map { atomic: true } | Form::List(List::Atomic) => {
                node.member = true;
                node.below = FieldSet::new();
                changed = true;
            }
            Form::Scalar(_) => {}
            _ => changed |= collapse_atomic(&mut node.below, child),
        }
    }
    changed
}

/// The value without these fields and items. What nothing is left of is null.
pub(super) fn without<S: SchemaView>(value: &Value, set: &FieldSet, schema: S) -> Value {
    match (schema.form(value), value) {
        (Form::Scalar(_), _) => value.clone(),
        (Form::Map { atomic: false }, Value::Object(map)) => {
            let mut entries = Vec::with_capacity(map.len());
            for (name, value) in map.iter() {
                let node = set.get(&PathElement::Field(name.clone()));
                let value = match (node, schema.child(name)) {
                    (Some(node), _) if node.member => continue,
                    (Some(node), Child::Declared(child) | Child::Entry(child)) => without(value, &node.below, child),
                    _ => value.clone(),
                };
                entries.push((name.clone(), value));
            }
            if entries.is_empty() { Value::Null } else { Value::Object(Map::in_order(entries)) }
        }
        (Form::List(kind @ (List::Set | List::Keyed)), Value::Array(items)) => {
            let mut kept = Vec::with_capacity(items.len());
            for item in items {
                let element = item_element(kind, schema, item).ok();
                match element.and_then(|element| set.get(&element)) {
                    Some(node) if node.member => {}
                    Some(node) => kept.push(without(item, &node.below, schema.item())),
                    None => kept.push(item.clone()),
                }
            }
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}

/// The value as objects are held: struct fields in the schema's order, map entries sorted, no field that is null.
pub(super) fn tidy<S: SchemaView>(value: Value, schema: S) -> Value {
    match value {
        Value::Object(map) if matches!(schema.form(&Value::object()), Form::Map { .. }) => {
            let mut placed = Vec::with_capacity(map.len());
            for (name, value) in map.into_entries() {
                let value = match schema.child(&name) {
                    Child::Declared(child) if value.is_null() && child.drops_null() => continue,
                    Child::Declared(child) | Child::Entry(child) => tidy(value, child),
                    Child::Unknown => value,
                };
                placed.push((schema.place(&name).unwrap_or(usize::MAX), name, value));
            }
            let in_order = |left: &(usize, Text, Value), right: &(usize, Text, Value)| {
                left.0.cmp(&right.0).then_with(|| left.1.cmp(&right.1))
            };
            placed.sort_by(in_order);
            Value::Object(Map::in_order(placed.into_iter().map(|(_, name, value)| (name, value)).collect()))
        }
        Value::Array(items) if matches!(schema.form(&Value::Array(Vec::new())), Form::List(_)) => {
            Value::Array(items.into_iter().map(|item| tidy(item, schema.item())).collect())
        }
        other => other,
    }
}
