//! From values to messages.

use super::layout::{Entry, Layout, schema_props};
use super::wire::{
    WireType, write_bytes, write_nested, write_number_field, write_string_field, write_tag, write_varint,
};
use super::{ENVELOPE_TAIL, envelope_head};
use crate::decode::base64;
use crate::json;
use crate::schema::{Field, Shape, Type};
use crate::time::{self, ZERO_SECONDS};
use crate::value::{Text, Value};

/// The object in its envelope. `value` is in canonical form; its own `apiVersion` and `kind` are not looked at.
pub fn encode(value: &Value, ty: &'static Type, api_version: &str, kind: &str) -> Vec<u8> {
    let mut raw = Vec::with_capacity(512);
    encode_message(value, ty, &mut raw);
    let mut out = Vec::with_capacity(raw.len() + api_version.len() + kind.len() + 32);
    envelope_head(api_version, kind, raw.len(), &mut out);
    out.extend_from_slice(&raw);
    out.extend_from_slice(ENVELOPE_TAIL);
    out
}

/// Appends the bare message of a value in canonical form.
pub fn encode_message(value: &Value, ty: &'static Type, out: &mut Vec<u8>) {
    if let Some(layout) = Layout::of(ty) {
        Encoder { slots: Vec::with_capacity(64) }.message(value, layout, out);
    }
}

/// Keeps the fields of the messages that are being written, each message's behind those of the one around it.
struct Encoder<'a> {
    slots: Vec<&'a Value>,
}

static ABSENT: Value = Value::Null;

impl<'a> Encoder<'a> {
    fn message(&mut self, value: &'a Value, layout: &'static Layout, out: &mut Vec<u8>) {
        let base = self.slots.len();
        self.slots.resize(base + layout.ty.json_len(), &ABSENT);
        if let Value::Object(map) = value {
            // Entries stand in the schema's order as a rule, so the next is looked for right after the last.
            let mut expected = 0;
            for (key, item) in map.iter() {
                while expected < layout.ty.json_len() && layout.ty.json_field(expected).name != key.as_str() {
                    expected += 1;
                }
                if expected < layout.ty.json_len() {
                    self.slots[base + expected] = item;
                    expected += 1;
                } else {
                    expected = 0;
                    if let Some(position) = layout.ty.position(key) {
                        self.slots[base + position] = item;
                        expected = position + 1;
                    }
                }
            }
        }
        self.fields(base, layout, out);
        self.slots.truncate(base);
    }

    /// Writes the fields of a message whose JSON fields lie in the slots from `base` on.
    fn fields(&mut self, base: usize, layout: &'static Layout, out: &mut Vec<u8>) {
        for entry in &layout.entries {
            let slot = base + entry.slot;
            if entry.field.inline {
                self.inline(slot, entry, out);
            } else {
                self.field(self.slots[slot], entry, out);
            }
        }
    }

    fn inline(&mut self, slot: usize, entry: &'static Entry, out: &mut Vec<u8>) {
        let child = entry.child();
        let filled = self.slots[slot..slot + child.ty.json_len()].iter().any(|value| !value.is_null());
        if filled || !entry.field.pointer {
            write_nested(entry.field.number, out, |out| self.fields(slot, child, out));
        }
    }

    fn field(&mut self, value: &'a Value, entry: &'static Entry, out: &mut Vec<u8>) {
        let field = entry.field;
        match field.shape {
            Shape::List(item) => {
                for value in value.items() {
                    self.single(field.number, item, value, entry, out);
                }
            }
            Shape::Map(item) => self.map(value, item, entry, out),
            _ if value.is_null() && is_nil_when_absent(field) => {}
            ref shape => self.single(field.number, shape, value, entry, out),
        }
    }

    fn map(&mut self, value: &'a Value, item: &'static Shape, entry: &'static Entry, out: &mut Vec<u8>) {
        let map = value.as_map();
        let mut write = |key: &Text, value: &'a Value| {
            write_nested(entry.field.number, out, |out| {
                write_string_field(1, key, out);
                let nil = value.is_null() && *item == Shape::Bytes;
                if !nil {
                    self.single(2, item, value, entry, out);
                }
            });
        };
        if map.keys().is_sorted() {
            map.iter().for_each(|(key, value)| write(key, value));
        } else {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|left, right| left.0.cmp(right.0));
            entries.into_iter().for_each(|(key, value)| write(key, value));
        }
    }

    /// One value that is neither a list nor a map. Null is the zero value.
    fn single(&mut self, number: u32, shape: &Shape, value: &'a Value, entry: &'static Entry, out: &mut Vec<u8>) {
        match shape {
            Shape::String => write_string_field(number, value.as_str(), out),
            Shape::Bool => write_number_field(number, i64::from(*value == Value::Bool(true)), out),
            Shape::Int32 | Shape::Int64 => write_number_field(number, value.as_int().unwrap_or(0), out),
            Shape::Double => {
                write_tag(number, WireType::Fixed64, out);
                out.extend_from_slice(&as_double(value).to_le_bytes());
            }
            Shape::Bytes => {
                write_tag(number, WireType::Bytes, out);
                write_bytes(&base64::decode(value.as_str().as_bytes()).unwrap_or_default(), out);
            }
            Shape::Time => write_nested(number, out, |out| timestamp(value, false, out)),
            Shape::MicroTime => write_nested(number, out, |out| timestamp(value, true, out)),
            Shape::Duration => write_nested(number, out, |out| {
                write_number_field(1, time::parse_duration(value.as_str()).unwrap_or(0), out);
            }),
            Shape::Quantity => write_nested(number, out, |out| quantity(value, out)),
            Shape::IntOrString => write_nested(number, out, |out| int_or_string(value, out)),
            Shape::FieldsV1 | Shape::RawExtension | Shape::Json => {
                write_nested(number, out, |out| raw_json(value, out));
            }
            Shape::WrappedStrings => write_nested(number, out, |out| strings(1, value, out)),
            Shape::SchemaOrBool => write_nested(number, out, |out| {
                let is_schema = matches!(value, Value::Object(_));
                write_number_field(1, i64::from(is_schema || *value == Value::Bool(true)), out);
                self.schema(2, value, out);
            }),
            Shape::SchemaOrArray => write_nested(number, out, |out| {
                self.schema(1, value, out);
                value.items().iter().for_each(|item| self.schema(2, item, out));
            }),
            Shape::SchemaOrStrings => write_nested(number, out, |out| {
                self.schema(1, value, out);
                strings(2, value, out);
            }),
            Shape::Struct(_) => write_nested(number, out, |out| self.message(value, entry.child(), out)),
            // Lists of lists and the like do not exist in protobuf.
            Shape::List(_) | Shape::Map(_) => {}
        }
    }

    fn schema(&mut self, number: u32, value: &'a Value, out: &mut Vec<u8>) {
        if let (Value::Object(_), Some(layout)) = (value, schema_props()) {
            write_nested(number, out, |out| self.message(value, layout, out));
        }
    }
}

/// Whether Go has nil here where JSON has nothing, so that nothing is written.
fn is_nil_when_absent(field: &Field) -> bool {
    field.pointer || matches!(field.shape, Shape::Bytes | Shape::WrappedStrings)
}

fn as_double(value: &Value) -> f64 {
    match value {
        Value::Float(number) => *number,
        Value::Int(number) => *number as f64,
        _ => 0.0,
    }
}

/// The zero time is an empty message.
fn timestamp(value: &Value, with_fraction: bool, out: &mut Vec<u8>) {
    match time::parse(value.as_str()) {
        Ok((seconds, nanoseconds)) if (seconds, nanoseconds) != (ZERO_SECONDS, 0) => {
            write_number_field(1, seconds, out);
            write_number_field(2, if with_fraction { i64::from(nanoseconds / 1_000 * 1_000) } else { 0 }, out);
        }
        _ => {}
    }
}

fn quantity(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => write_string_field(1, text, out),
        Value::Int(number) => write_string_field(1, &number.to_string(), out),
        _ => write_string_field(1, "0", out),
    }
}

fn int_or_string(value: &Value, out: &mut Vec<u8>) {
    write_number_field(1, i64::from(matches!(value, Value::String(_))), out);
    write_number_field(2, value.as_int().unwrap_or(0), out);
    write_string_field(3, value.as_str(), out);
}

fn raw_json(value: &Value, out: &mut Vec<u8>) {
    if !value.is_null() {
        let mut text = Vec::with_capacity(64);
        json::write(value, &mut text);
        write_tag(1, WireType::Bytes, out);
        write_varint(text.len() as u64, out);
        out.extend_from_slice(&text);
    }
}

fn strings(number: u32, value: &Value, out: &mut Vec<u8>) {
    value.items().iter().for_each(|item| write_string_field(number, item.as_str(), out));
}
