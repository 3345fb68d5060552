//! The canonical form of structs: fields in the schema's order, zero values where Go writes them and nowhere else.

use super::META;
use super::special::schema_shape;
use crate::schema::{Field, Shape, Type};
use crate::short_text::same;
use crate::value::{Map, Text, Value, key};

/// Brings a value of this type, edited since it was decoded, back into canonical form. What is there already stays
/// where it is; fields that the type does not have are dropped.
pub fn complete(value: &mut Value, kind: &'static Type) {
    if !matches!(value, Value::Object(_)) {
        *value = zero_struct(kind);
        return;
    }
    let map = value.make_map();
    let Err(done) = complete_in_step(map, kind) else { return };
    let mut meta = [None, None];
    let mut filled: Vec<(u16, Value)> = Vec::with_capacity(map.len());
    for (index, (key, mut field)) in std::mem::take(map).into_entries().into_iter().enumerate() {
        if let Some(position) = kind.position(&key) {
            if index >= done {
                complete_shape(&mut field, &kind.json_field(position).shape);
            }
            filled.push((position as u16, field));
        } else if let Some(index) = META.iter().position(|name| kind.type_meta && same(name, &key)) {
            meta[index] = Some(field);
        }
    }
    *map = assemble(kind, meta, filled, Empties::Drop);
}

/// [`complete`] for what is stored. Upstream's storage cannot tell an empty list from none, so that a list which Go
/// writes even where it is empty comes back as null.
pub fn settle(value: &mut Value, kind: &'static Type) {
    complete(value, kind);
    empties_to_null(value, kind);
}

fn empties_to_null(value: &mut Value, kind: &'static Type) {
    let Value::Object(map) = value else { return };
    for (key, value) in map.iter_mut() {
        let Some(field) = kind.field(key) else { continue };
        match (&field.shape, &mut *value) {
            (Shape::Struct(kind), value) => empties_to_null(value, kind.get()),
            (Shape::List(_) | Shape::Map(_) | Shape::WrappedStrings, found) if is_empty_collection(found) => {
                *value = Value::Null;
            }
            (Shape::List(Shape::Struct(kind)), Value::Array(items)) => {
                items.iter_mut().for_each(|item| empties_to_null(item, kind.get()));
            }
            (Shape::Map(Shape::Struct(kind)), Value::Object(items)) => {
                items.iter_mut().for_each(|(_, item)| empties_to_null(item, kind.get()));
            }
            _ => {}
        }
    }
}

/// Completes entry by entry as long as the entries are exactly those that [`assemble`] would give. Where one is not,
/// says how many entries are done.
fn complete_in_step(map: &mut Map, kind: &'static Type) -> Result<(), usize> {
    let mut entries = map.iter_mut().peekable();
    let mut done = 0;
    if kind.type_meta {
        for name in META {
            if let Some((_, value)) = entries.next_if(|(key, _)| same(key, name)) {
                if value.is_empty() {
                    return Err(done);
                }
                done += 1;
            }
        }
    }
    // Types have many more fields than objects: only those are looked at that are there, or have to be.
    let mut next = 0;
    let mut written = written_unset(kind);
    for (key, value) in entries {
        let position = position_from(kind, next, key).ok_or(done)?;
        match written {
            [first, ..] if usize::from(*first) < position => return Err(done),
            [first, rest @ ..] if usize::from(*first) == position => written = rest,
            _ => {}
        }
        let field = kind.json_field(position);
        let misplaced = value.is_null() && !field.pointer && !is_null_when_zero(&field.shape);
        if misplaced || is_omitted(value, field) {
            return Err(done);
        }
        if matches!(value, Value::Object(_) | Value::Array(_)) {
            complete_shape(value, &field.shape);
        }
        next = position + 1;
        done += 1;
    }
    if written.is_empty() { Ok(()) } else { Err(done) }
}

/// Where the field of this name stands, if that is at `start` or behind. The next one is mostly one of the next few.
fn position_from(kind: &'static Type, start: usize, name: &str) -> Option<usize> {
    let near = start..kind.json_len().min(start + 3);
    let found = near.into_iter().find(|position| same(kind.json_field(*position).name, name));
    found.or_else(|| kind.position(name).filter(|position| *position >= start))
}

fn complete_shape(value: &mut Value, shape: &Shape) {
    match (shape, &mut *value) {
        (_, Value::Null) => {}
        (Shape::Struct(kind), value) => complete(value, kind.get()),
        (Shape::List(item), Value::Array(items)) => items.iter_mut().for_each(|value| complete_item(value, item)),
        (Shape::WrappedStrings, Value::Array(items)) => {
            items.iter_mut().for_each(|value| complete_item(value, &Shape::String));
        }
        (Shape::Map(item), Value::Object(map)) => {
            map.iter_mut().for_each(|(_, value)| complete_item(value, item));
            if !map.keys().zip(map.keys().skip(1)).all(|(left, right)| left < right) {
                *map = Map::sorted(std::mem::take(map).into_entries());
            }
        }
        (Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings, Value::Object(_)) => {
            if let Some(schema) = schema_shape() {
                complete_shape(value, schema);
            }
        }
        (Shape::SchemaOrArray, Value::Array(items)) => {
            if let Some(schema) = schema_shape() {
                items.iter_mut().for_each(|value| complete_item(value, schema));
            }
        }
        _ => {}
    }
}

fn complete_item(value: &mut Value, shape: &Shape) {
    if value.is_null() {
        *value = zero_item(shape);
    } else {
        complete_shape(value, shape);
    }
}

/// What stands for null as an item of a list or an entry of a map. No bytes are empty bytes there: the stored form
/// cannot tell the two apart.
pub(super) fn zero_item(shape: &Shape) -> Value {
    match shape {
        Shape::Bytes => Value::String(Text::default()),
        shape => zero(shape),
    }
}

/// Puts fields, given with their positions, in order and fills in what Go writes for those that are not set.
pub(super) fn assemble(
    kind: &'static Type,
    meta: [Option<Value>; 2],
    mut filled: Vec<(u16, Value)>,
    empties: Empties,
) -> Map {
    assemble_last(kind, meta, &mut filled, 0, empties)
}

/// The same for the fields from `start` on, which are taken away.
pub(super) fn assemble_last(
    kind: &'static Type,
    meta: [Option<Value>; 2],
    filled: &mut Vec<(u16, Value)>,
    start: usize,
    empties: Empties,
) -> Map {
    let is_left_out = |(position, value): &mut (u16, Value)| {
        value.is_null()
            || is_omitted(value, kind.json_field((*position).into()))
                && !(empties == Empties::Keep && is_empty_collection(value))
    };
    if filled[start..].iter_mut().any(is_left_out) {
        filled.extract_if(start.., is_left_out).for_each(drop);
    }
    for position in written_unset(kind) {
        if filled[start..].iter().all(|(found, _)| found != position) {
            filled.push((*position, unset(kind.json_field((*position).into()))));
        }
    }
    let own = &mut filled[start..];
    if !own.is_sorted_by_key(|(position, _)| *position) {
        own.sort_by_key(|(position, _)| *position);
    }
    let mut entries: Vec<(Text, Value)> = Vec::with_capacity(own.len() + meta.iter().flatten().count());
    if kind.type_meta {
        let meta = META.into_iter().zip(meta).filter_map(|(name, value)| Some((key(name), value?)));
        entries.extend(meta.filter(|(_, value)| !value.is_empty()));
    }
    let name = |position: u16| kind.json_field(position.into()).key.clone();
    entries.extend(filled.drain(start..).map(|(position, value)| (name(position), value)));
    Map::in_order(entries)
}

/// Positions of the fields that Go writes even where they are not set.
pub(super) fn written_unset(kind: &'static Type) -> &'static [u16] {
    kind.written_unset.get_or_init(|| {
        let fields = kind.json_fields().enumerate();
        fields.filter(|(_, field)| !is_omitted(&Value::Null, field)).map(|(position, _)| position as u16).collect()
    })
}

/// What Go writes for a field that is not set and not left out.
fn unset(field: &Field) -> Value {
    if field.pointer { Value::Null } else { zero(&field.shape) }
}

/// What becomes of lists and maps that are there and empty. Go drops them when it writes; until then rules can tell
/// them from absent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empties {
    Keep,
    Drop,
}

/// Whether lists or maps are there and empty. Structs may be: they stay as they are.
pub(super) fn has_empties(kind: &'static Type, filled: &[(u16, Value)]) -> bool {
    let is_struct = |position: u16| matches!(kind.json_field(position.into()).shape, Shape::Struct(_));
    filled.iter().any(|(position, value)| is_empty_collection(value) && !is_struct(*position))
}

pub(super) fn is_empty_collection(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_)) && value.is_empty()
}

/// Whether Go leaves the field out when it holds this value (null: its zero value).
pub(super) fn is_omitted(value: &Value, field: &Field) -> bool {
    if field.pointer {
        return value.is_null() && (field.omit_empty || field.omit_zero);
    }
    if is_struct(&field.shape) {
        return field.omit_zero && value.is_null();
    }
    (field.omit_empty || field.omit_zero) && value.is_empty()
}

/// Whether the shape is a struct in Go, which `omitempty` never leaves out.
fn is_struct(shape: &Shape) -> bool {
    match shape {
        Shape::String | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Double | Shape::Bytes => false,
        Shape::WrappedStrings | Shape::List(_) | Shape::Map(_) => false,
        Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity | Shape::IntOrString => true,
        Shape::FieldsV1 | Shape::RawExtension | Shape::Json => true,
        Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings | Shape::Struct(_) => true,
    }
}

/// What Go writes for the zero value of the shape.
pub(super) fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::String(Text::default()),
        Shape::Bool | Shape::SchemaOrBool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::Int(0),
        Shape::Double => Value::Float(0.0),
        Shape::Duration => Value::String(Text::new_static("0s")),
        Shape::Quantity => Value::String(Text::new_static("0")),
        Shape::Struct(kind) => zero_struct(kind.get()),
        Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::FieldsV1 | Shape::RawExtension | Shape::Json => {
            Value::Null
        }
        Shape::SchemaOrArray | Shape::SchemaOrStrings => Value::Null,
        Shape::WrappedStrings | Shape::List(_) | Shape::Map(_) => Value::Null,
    }
}

/// Whether [`zero`] is null.
pub(super) fn is_null_when_zero(shape: &Shape) -> bool {
    !matches!(shape, Shape::Struct(_)) && zero(shape).is_null()
}

/// What Go writes for the struct when nothing in it is set.
pub(crate) fn zero_struct(kind: &'static Type) -> Value {
    let fields = written_unset(kind).iter().map(|position| kind.json_field((*position).into()));
    Value::Object(Map::in_order(fields.map(|field| (field.key.clone(), unset(field))).collect()))
}
