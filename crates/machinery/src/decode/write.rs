//! The canonical form as JSON text, without making it first: what [`complete()`](super::complete()) would leave is
//! written from a value that was edited since it was decoded.

use std::ops::Range;

use smallvec::SmallVec;

use super::META;
use super::complete::{is_null_when_zero, is_omitted, written_unset, zero, zero_item, zero_struct};
use super::special::schema_shape;
use crate::json;
use crate::schema::{Shape, Type};
use crate::value::{Map, Text, Value};

/// Appends the struct.
pub fn write_struct(value: &Value, kind: &'static Type, out: &mut Vec<u8>) {
    let Value::Object(map) = value else { return json::write(&zero_struct(kind), out) };
    out.push(b'{');
    if kind.type_meta {
        for name in META {
            if let Some(value) = map.get(name).filter(|value| !value.is_empty()) {
                write_field(name, value, out);
            }
        }
    }
    write_fields(map, kind, 0..kind.json_len(), out);
    out.push(b'}');
}

/// Appends those fields of the struct that stand in this range of its fields; says how many there were. What is there of
/// the struct already may end with a comma or without one.
pub fn write_fields(map: &Map, kind: &'static Type, range: Range<usize>, out: &mut Vec<u8>) -> usize {
    let position = |key: &Text| kind.position(key).map(|position| position as u16);
    let mut fields: SmallVec<[(u16, &Value); 24]> =
        map.iter().filter_map(|(key, value)| Some((position(key)?, value))).collect();
    if !fields.is_sorted_by_key(|(position, _)| *position) {
        fields.sort_unstable_by_key(|(position, _)| *position);
    }
    Fields { kind, range, unset: written_unset(kind), count: 0 }.write(&fields, out)
}

/// The fields of a struct, as they are written in order.
struct Fields {
    kind: &'static Type,
    range: Range<usize>,
    /// Those that are written even where they are not set, and are still to come.
    unset: &'static [u16],
    count: usize,
}

impl Fields {
    fn write(mut self, fields: &[(u16, &Value)], out: &mut Vec<u8>) -> usize {
        for &(position, value) in fields {
            while let Some((first, rest)) = self.unset.split_first().filter(|(first, _)| **first <= position) {
                if *first < position {
                    self.field(*first, &Value::Null, out);
                }
                self.unset = rest;
            }
            self.field(position, value, out);
        }
        for position in self.unset {
            self.field(*position, &Value::Null, out);
        }
        self.count
    }

    fn field(&mut self, position: u16, value: &Value, out: &mut Vec<u8>) {
        let field = self.kind.json_field(position.into());
        if is_omitted(value, field) || !self.range.contains(&position.into()) {
            return;
        }
        separate(out);
        // The name stands between `"f:` and `":{}`.
        out.push(b'"');
        out.extend_from_slice(&field.owned.as_bytes()[3..field.owned.len() - 2]);
        match value.is_null() && !field.pointer && !is_null_when_zero(&field.shape) {
            true => json::write(&zero(&field.shape), out),
            false => write_shape(value, &field.shape, out),
        }
        self.count += 1;
    }
}

/// A comma, unless there is one or the struct begins here.
fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'{' | b',')) {
        out.push(b',');
    }
}

fn write_field(name: &str, value: &Value, out: &mut Vec<u8>) {
    separate(out);
    json::write_string(name, out);
    out.push(b':');
    json::write(value, out);
}

fn write_shape(value: &Value, shape: &Shape, out: &mut Vec<u8>) {
    match (shape, value) {
        (Shape::String, Value::String(text)) => json::write_string(text, out),
        (_, Value::Null) => out.extend_from_slice(b"null"),
        (Shape::Struct(kind), value) => write_struct(value, kind.get(), out),
        (Shape::List(item), Value::Array(items)) => write_list(items, item, out),
        (Shape::WrappedStrings, Value::Array(items)) => write_list(items, &Shape::String, out),
        (Shape::Map(item), Value::Object(map)) => write_map(map, item, out),
        (Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings, Value::Object(_)) => {
            match schema_shape() {
                Some(schema) => write_shape(value, schema, out),
                None => json::write(value, out),
            }
        }
        (Shape::SchemaOrArray, Value::Array(items)) => match schema_shape() {
            Some(schema) => write_list(items, schema, out),
            None => json::write(value, out),
        },
        _ => json::write(value, out),
    }
}

fn write_list(items: &[Value], shape: &Shape, out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_item(item, shape, out);
    }
    out.push(b']');
}

fn write_map(map: &Map, shape: &Shape, out: &mut Vec<u8>) {
    let write_entries = |entries: &mut dyn Iterator<Item = (&Text, &Value)>, out: &mut Vec<u8>| {
        out.push(b'{');
        for (index, (key, value)) in entries.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            json::write_string(key, out);
            out.push(b':');
            write_item(value, shape, out);
        }
        out.push(b'}');
    };
    if map.is_sorted() {
        return write_entries(&mut map.iter(), out);
    }
    let sorted = Map::sorted(map.clone().into_entries());
    write_entries(&mut sorted.iter(), out);
}

fn write_item(value: &Value, shape: &Shape, out: &mut Vec<u8>) {
    match value.is_null() {
        true => json::write(&zero_item(shape), out),
        false => write_shape(value, shape, out),
    }
}
