//! From messages to JSON-shaped values.

use super::embedded::{decode_json, decode_raw};
use super::layout::{Entry, Layout, schema_props};
use super::types::type_of;
use super::wire::{Reader, WireType};
use super::{DEPTH_MAX, Error};
use crate::decode::base64;
use crate::json;
use crate::schema::structural::sort;
use crate::schema::{Field, Shape, Type};
use crate::time;
use crate::value::{Map, Text, Value};

/// The value in a bare message, without `apiVersion` and `kind`.
pub fn decode_message(raw: &[u8], ty: &'static Type) -> Result<Value, Error> {
    message_at_depth(raw, ty, 0, Vec::new())
}

/// The built-in object in an envelope, with its `apiVersion` and `kind`.
pub fn decode_object(bytes: &[u8]) -> Result<Value, Error> {
    object_at_depth(bytes, 0)
}

pub(super) fn object_at_depth(bytes: &[u8], depth: usize) -> Result<Value, Error> {
    let envelope = super::decode(bytes)?;
    let ty = type_of(envelope.api_version, envelope.kind).ok_or_else(|| Error::UnknownKind {
        api_version: envelope.api_version.to_owned(),
        kind: envelope.kind.to_owned(),
    })?;
    let head = vec![
        (Text::new_static("kind"), Value::from(envelope.kind)),
        (Text::new_static("apiVersion"), Value::from(envelope.api_version)),
    ];
    message_at_depth(envelope.raw, ty, depth, head)
}

fn message_at_depth(raw: &[u8], ty: &'static Type, depth: usize, head: Vec<(Text, Value)>) -> Result<Value, Error> {
    match Layout::of(ty) {
        Some(layout) => Decoder { slots: Vec::with_capacity(64), pieces: 0 }.message(raw, layout, None, depth, head),
        None => Ok(Value::object()),
    }
}

/// Keeps the fields of the messages that are being read, each message's behind those of the one around it.
struct Decoder {
    /// A map is a list of keys and values in turn while it is being read: sorted once, not entry by entry.
    slots: Vec<Option<Value>>,
    /// How often a struct was added to one that had been read already.
    pieces: usize,
}

/// Encoders write a struct in one piece; an object with more pieces than this is refused, since each costs a merge.
const PIECES_MAX: usize = 64;

impl Decoder {
    /// Reads a message; what it says is added to `earlier`, because a struct may come in pieces.
    fn message(
        &mut self,
        raw: &[u8],
        layout: &'static Layout,
        earlier: Option<Value>,
        depth: usize,
        head: Vec<(Text, Value)>,
    ) -> Result<Value, Error> {
        let base = self.slots.len();
        self.slots.resize(base + layout.ty.json_len(), None);
        if let Some(Value::Object(map)) = earlier {
            self.pieces += 1;
            if self.pieces > PIECES_MAX {
                return Err(Error::TooManyPieces { message: layout.ty.short_name().to_owned() });
            }
            for (key, value) in map.into_entries() {
                if let Some(position) = layout.ty.position(&key) {
                    self.slots[base + position] = Some(value);
                }
            }
        }
        self.fields(raw, base, layout, depth)?;
        let mut entries = head;
        let present = self.slots[base..].iter().filter(|slot| slot.is_some()).count();
        entries.reserve_exact(present);
        for (position, slot) in self.slots.drain(base..).enumerate() {
            let field = layout.ty.json_field(position);
            let slot = if matches!(field.shape, Shape::Map(_)) { slot.map(map_of_pairs) } else { slot };
            if let Some(value) = slot.filter(|value| !is_omitted(field, value)) {
                entries.push((Text::new_static(field.name), value));
            }
        }
        Ok(Value::Object(Map::in_order(entries)))
    }

    /// Reads a message's fields into the slots from `base` on.
    fn fields(&mut self, raw: &[u8], base: usize, layout: &'static Layout, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::TooDeep { message: layout.ty.short_name().to_owned() });
        }
        let mut reader = Reader::new(raw, layout.ty.short_name());
        while let Some((number, wire_type)) = reader.next_tag()? {
            let Some(entry) = layout.find(number) else {
                reader.skip(wire_type)?;
                continue;
            };
            let slot = base + entry.slot;
            if entry.field.inline {
                let inner = reader.bytes(wire_type, || go_name(entry))?;
                self.fields(inner, slot, entry.child(), depth + 1)?;
                continue;
            }
            match entry.field.shape {
                Shape::List(item) => self.list_item(&mut reader, wire_type, item, entry, slot, depth)?,
                Shape::Map(item) => self.map_entry(&mut reader, wire_type, item, entry, slot, depth)?,
                ref shape => {
                    let earlier = self.slots[slot].take();
                    self.slots[slot] = Some(self.single(&mut reader, wire_type, shape, earlier, entry, depth)?);
                }
            }
        }
        Ok(())
    }

    fn list_item(
        &mut self,
        reader: &mut Reader<'_>,
        wire_type: WireType,
        item: &'static Shape,
        entry: &'static Entry,
        slot: usize,
        depth: usize,
    ) -> Result<(), Error> {
        let mut items = match self.slots[slot].take() {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let packed = matches!(item, Shape::Int32 | Shape::Int64 | Shape::Bool) && wire_type == WireType::Bytes;
        if packed {
            let mut numbers = Reader::new(reader.bytes(wire_type, || go_name(entry))?, "");
            while !numbers.is_at_end() {
                items.push(self.single(&mut numbers, WireType::Varint, item, None, entry, depth)?);
            }
        } else {
            items.push(self.single(reader, wire_type, item, None, entry, depth)?);
        }
        self.slots[slot] = Some(Value::Array(items));
        Ok(())
    }

    fn map_entry(
        &mut self,
        reader: &mut Reader<'_>,
        wire_type: WireType,
        item: &'static Shape,
        entry: &'static Entry,
        slot: usize,
        depth: usize,
    ) -> Result<(), Error> {
        let raw = reader.bytes(wire_type, || go_name(entry))?;
        let mut inner = Reader::new(raw, entry.field.name);
        let (mut key, mut value) = ("", None);
        while let Some((number, wire_type)) = inner.next_tag()? {
            match number {
                1 => key = inner.text(wire_type, || go_name(entry))?,
                2 => value = Some(self.single(&mut inner, wire_type, item, None, entry, depth)?),
                _ => inner.skip(wire_type)?,
            }
        }
        let value = match value {
            Some(value) => value,
            None => zero(item),
        };
        let mut pairs = match self.slots[slot].take() {
            Some(Value::Array(pairs)) => pairs,
            Some(Value::Object(map)) => {
                map.into_entries().into_iter().flat_map(|(key, value)| [Value::String(key), value]).collect()
            }
            _ => Vec::new(),
        };
        pairs.extend([Value::from(key), value]);
        self.slots[slot] = Some(Value::Array(pairs));
        Ok(())
    }

    /// One value that is neither a list nor a map.
    fn single(
        &mut self,
        reader: &mut Reader<'_>,
        wire_type: WireType,
        shape: &Shape,
        earlier: Option<Value>,
        entry: &'static Entry,
        depth: usize,
    ) -> Result<Value, Error> {
        let name = || go_name(entry);
        Ok(match shape {
            Shape::String => Value::from(reader.text(wire_type, name)?),
            Shape::Bool => Value::Bool(reader.number(wire_type, name)? != 0),
            // Go keeps the low half of a number that is too large.
            Shape::Int32 => Value::from(reader.number(wire_type, name)? as i32),
            Shape::Int64 => Value::Int(reader.number(wire_type, name)?),
            Shape::Double => json::number(reader.double(wire_type, name)?),
            Shape::Bytes => Value::from(base64::encode(reader.bytes(wire_type, name)?)),
            Shape::Time | Shape::MicroTime => {
                timestamp(reader.bytes(wire_type, name)?, *shape == Shape::MicroTime, name)?
            }
            Shape::Duration => duration(reader.bytes(wire_type, name)?)?,
            Shape::Quantity => quantity(reader.bytes(wire_type, name)?, name)?,
            Shape::IntOrString => int_or_string(reader.bytes(wire_type, name)?, name)?,
            Shape::FieldsV1 | Shape::Json => match raw_field(reader.bytes(wire_type, name)?, shape)? {
                Some(text) => {
                    let mut value = decode_json(text, name)?;
                    if *shape == Shape::Json {
                        sort(&mut value);
                    }
                    value
                }
                None => Value::Null,
            },
            Shape::RawExtension => match raw_field(reader.bytes(wire_type, name)?, shape)? {
                Some(bytes) => decode_raw(bytes, depth, name)?,
                None => Value::Null,
            },
            Shape::WrappedStrings => Value::Array(strings(reader.bytes(wire_type, name)?, 1, name)?),
            Shape::SchemaOrBool | Shape::SchemaOrArray | Shape::SchemaOrStrings => {
                self.schema_or(reader.bytes(wire_type, name)?, shape, entry, depth + 1)?
            }
            Shape::Struct(_) => {
                let raw = reader.bytes(wire_type, name)?;
                self.message(raw, entry.child(), earlier, depth + 1, Vec::new())?
            }
            // Lists of lists and the like do not exist in protobuf.
            Shape::List(_) | Shape::Map(_) => {
                reader.skip(wire_type)?;
                Value::Null
            }
        })
    }

    /// A schema, or a boolean, schemas or strings in its place.
    fn schema_or(&mut self, raw: &[u8], shape: &Shape, entry: &'static Entry, depth: usize) -> Result<Value, Error> {
        let schema_number = if *shape == Shape::SchemaOrBool { 2 } else { 1 };
        let (mut schema, mut allows, mut items) = (None, false, Vec::new());
        let mut reader = Reader::new(raw, "JSONSchemaProps");
        while let Some((number, wire_type)) = reader.next_tag()? {
            match (number, shape) {
                (1 | 2, _) if number == schema_number => {
                    schema = Some(self.schema(reader.bytes(wire_type, || "Schema".to_owned())?, schema, depth)?);
                }
                (1, Shape::SchemaOrBool) => allows = reader.number(wire_type, || "Allows".to_owned())? != 0,
                (2, Shape::SchemaOrArray) => {
                    items.push(self.schema(reader.bytes(wire_type, || "JSONSchemas".to_owned())?, None, depth)?);
                }
                (2, _) => items.push(Value::from(reader.text(wire_type, || go_name(entry))?)),
                _ => reader.skip(wire_type)?,
            }
        }
        Ok(match (schema, shape) {
            (Some(schema), _) if items.is_empty() => schema,
            (None, Shape::SchemaOrBool) => Value::Bool(allows),
            (None, _) if items.is_empty() => Value::Null,
            _ => Value::Array(items),
        })
    }

    fn schema(&mut self, raw: &[u8], earlier: Option<Value>, depth: usize) -> Result<Value, Error> {
        match schema_props() {
            Some(layout) => self.message(raw, layout, earlier, depth, Vec::new()),
            None => Ok(Value::Null),
        }
    }
}

fn map_of_pairs(value: Value) -> Value {
    let Value::Array(pairs) = value else { return value };
    let mut entries = Vec::with_capacity(pairs.len() / 2);
    let mut pairs = pairs.into_iter();
    while let (Some(Value::String(key)), Some(value)) = (pairs.next(), pairs.next()) {
        entries.push((key, value));
    }
    Value::Object(Map::sorted(entries))
}

/// Whether Go's JSON leaves the value out.
fn is_omitted(field: &Field, value: &Value) -> bool {
    if field.pointer || !(field.omit_empty || field.omit_zero) {
        return false;
    }
    match field.shape {
        Shape::String | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Double | Shape::Bytes => value.is_empty(),
        Shape::WrappedStrings | Shape::List(_) | Shape::Map(_) => value.is_empty(),
        Shape::Time | Shape::MicroTime => field.omit_zero && value.is_null(),
        _ => false,
    }
}

/// What a map holds under a key that came without a value.
fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String => Value::from(""),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::Int(0),
        Shape::Double => Value::Float(0.0),
        Shape::Quantity => Value::from("0"),
        Shape::Duration => Value::from("0s"),
        Shape::SchemaOrBool => Value::Bool(false),
        Shape::Struct(_) => Value::object(),
        _ => Value::Null,
    }
}

fn timestamp(raw: &[u8], micro: bool, field: impl Fn() -> String) -> Result<Value, Error> {
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut reader = Reader::new(raw, "Timestamp");
    while let Some((number, wire_type)) = reader.next_tag()? {
        match number {
            1 => seconds = reader.number(wire_type, || "Seconds".to_owned())?,
            2 => nanoseconds = reader.number(wire_type, || "Nanos".to_owned())?,
            _ => reader.skip(wire_type)?,
        }
    }
    let fraction = match u32::try_from(nanoseconds) {
        Ok(nanoseconds) if nanoseconds < 1_000_000_000 => Ok(nanoseconds / 1_000),
        _ if !micro => Ok(0),
        _ => Err(Error::InvalidTime { field: field() }),
    }?;
    // The years that RFC 3339 can write.
    if !(-62_167_219_200..253_402_300_800).contains(&seconds) {
        return Err(Error::InvalidTime { field: field() });
    }
    let text = match micro {
        true => time::format_micros(seconds * 1_000_000 + i64::from(fraction)),
        false => time::format_seconds(seconds),
    };
    Ok(Value::from(text))
}

fn duration(raw: &[u8]) -> Result<Value, Error> {
    let mut nanoseconds = 0;
    let mut reader = Reader::new(raw, "Duration");
    while let Some((number, wire_type)) = reader.next_tag()? {
        match number {
            1 => nanoseconds = reader.number(wire_type, || "Duration".to_owned())?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(Value::from(time::format_duration(nanoseconds)))
}

fn quantity(raw: &[u8], field: impl Fn() -> String) -> Result<Value, Error> {
    let mut text = "0";
    let mut reader = Reader::new(raw, "Quantity");
    while let Some((number, wire_type)) = reader.next_tag()? {
        match number {
            1 => text = reader.text(wire_type, &field)?,
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(Value::from(text))
}

fn int_or_string(raw: &[u8], field: impl Fn() -> String) -> Result<Value, Error> {
    let (mut kind, mut number_value, mut text) = (0, 0, "");
    let mut reader = Reader::new(raw, "IntOrString");
    while let Some((number, wire_type)) = reader.next_tag()? {
        match number {
            1 => kind = reader.number(wire_type, || "Type".to_owned())?,
            2 => number_value = reader.number(wire_type, || "IntVal".to_owned())? as i32,
            3 => text = reader.text(wire_type, || "StrVal".to_owned())?,
            _ => reader.skip(wire_type)?,
        }
    }
    match kind {
        0 => Ok(Value::from(number_value)),
        1 => Ok(Value::from(text)),
        _ => Err(Error::InvalidIntOrString { field: field(), kind }),
    }
}

/// The bytes of a message that holds nothing but bytes.
fn raw_field<'a>(raw: &'a [u8], shape: &Shape) -> Result<Option<&'a [u8]>, Error> {
    let message = match shape {
        Shape::FieldsV1 => "FieldsV1",
        Shape::Json => "JSON",
        _ => "RawExtension",
    };
    let mut bytes = None;
    let mut reader = Reader::new(raw, message);
    while let Some((number, wire_type)) = reader.next_tag()? {
        match number {
            1 => bytes = Some(reader.bytes(wire_type, || "Raw".to_owned())?),
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(bytes.filter(|bytes| !bytes.is_empty()))
}

fn strings(raw: &[u8], wanted: u32, field: impl Fn() -> String) -> Result<Vec<Value>, Error> {
    let mut items = Vec::new();
    let mut reader = Reader::new(raw, "Items");
    while let Some((number, wire_type)) = reader.next_tag()? {
        if number == wanted {
            items.push(Value::from(reader.text(wire_type, &field)?));
        } else {
            reader.skip(wire_type)?;
        }
    }
    Ok(items)
}

/// The field's name in Go, as its messages use it: capitalised, well-known abbreviations as a whole.
fn go_name(entry: &Entry) -> String {
    const ABBREVIATIONS: &[&str] =
        &["api", "csi", "dns", "fc", "gce", "http", "id", "ip", "nfs", "rbd", "tcp", "tls", "ttl", "uid", "url"];
    let name = match entry.field.name {
        "" => return entry.child().ty.short_name().to_owned(),
        "metadata" => return entry.child().ty.short_name().to_owned(),
        name => name,
    };
    let word = name.find(|symbol: char| !symbol.is_ascii_lowercase()).unwrap_or(name.len());
    let whole = if ABBREVIATIONS.contains(&&name[..word]) { word } else { 1.min(name.len()) };
    format!("{}{}", name[..whole].to_ascii_uppercase(), &name[whole..])
}
