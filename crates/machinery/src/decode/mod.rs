//! From a raw document to the canonical form of a type: what Go would write after reading it into the struct.
//!
//! [`decode`] checks and completes in one walk; [`complete`] brings a value that was edited since back into that form.
//! What does not fit is worded as Go words it. Two kinds of misfit differ, as in Go: a value of the wrong JSON type is
//! noted and the walk goes on, so that the first one is reported; a text that a type of its own refuses (a quantity,
//! a time) ends the walk and is reported instead of anything noted before.

pub mod base64;
mod beside;
mod complete;
mod convert;
mod direct;
mod place;
mod special;
mod write;

use std::collections::HashSet;

pub use beside::{complete_beside, convert_patched};
pub(crate) use complete::zero_struct;
pub use complete::{complete, settle};
pub use direct::direct;
pub use write::{write_fields, write_struct};

use crate::json;
use crate::schema::{Field, Shape, Type};
use crate::value::{Map, Text, Value};
use complete::{Empties, assemble, has_empties, zero_item};
use place::Place;

/// No more strict errors than this are noted, as upstream.
pub const STRICT_ERRORS_MAX: usize = 100;

/// Nor more text: each of them has a path, and a path may be long.
const STRICT_BYTES_MAX: usize = 1 << 20;

/// Which strict errors there are, each once.
#[derive(Default)]
pub(crate) struct Complaints {
    seen: HashSet<String>,
    bytes: usize,
}

impl Complaints {
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= STRICT_BYTES_MAX
    }

    /// Whether it is a new one.
    pub(crate) fn add(&mut self, text: &str) -> bool {
        self.bytes += text.len();
        self.seen.insert(text.to_owned())
    }
}

/// How deep structs may lie in each other. Only JSON schemas can, and they are read by recursion; upstream has no bound
/// but that of JSON.
pub const STRUCT_DEPTH_MAX: usize = 100;

#[derive(Debug)]
pub struct Decoded {
    pub value: Value,
    /// What strict field validation objects to: unknown and repeated fields, in document order.
    pub strict: Vec<String>,
    /// Whether lists or maps were given and empty. They stay until [`complete()`] drops them, as Go does when it writes:
    /// until then defaults and validation can tell them from absent ones.
    pub kept_empties: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A value of the wrong JSON type.
    #[error("{0}")]
    Type(String),
    /// A text that the type does not take.
    #[error("{0}")]
    Text(String),
}

/// The document as a value of this type in canonical form.
pub fn decode(raw: Value, kind: &'static Type) -> Result<Decoded, DecodeError> {
    read(raw, kind, Style::Json)
}

/// The same for what is no document: a tree that a strategic merge patch or an apply left. Upstream turns such a tree
/// into its struct with a converter that words misfits in its own way, ends at the first one, takes fields in the
/// struct's order, and lets numbers that are too large wrap.
pub fn convert(raw: Value, kind: &'static Type) -> Result<Decoded, DecodeError> {
    let mut converted = read(raw, kind, Style::Converter)?;
    converted.strict.sort();
    Ok(converted)
}

fn read(raw: Value, kind: &'static Type, style: Style) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder::new(style);
    let go_type = root_type_name(kind);
    let value = decoder.structure(raw, kind, &go_type, &Place::ROOT)?;
    match decoder.noted {
        Some(error) => Err(error),
        None => {
            let value = if value.is_null() { complete::zero_struct(kind) } else { value };
            let strict = decoder.strict.unwrap_or_default();
            Ok(Decoded { value, strict, kept_empties: decoder.kept_empties })
        }
    }
}

/// `apiVersion` and `kind` of a document, read before its type is known. Upstream puts `couldn't get version/kind; json
/// parse error: ` in front of this error, as it does with syntax errors.
pub fn type_meta(raw: &Value) -> Result<(Text, Text), DecodeError> {
    let Value::Object(map) = raw else {
        if raw.is_null() {
            return Ok(Default::default());
        }
        return Err(DecodeError::Type(format!(
            "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            describe(raw)
        )));
    };
    let (mut api_version, mut kind) = (Text::default(), Text::default());
    for (key, value) in map.iter() {
        let slot = match key.as_str() {
            "apiVersion" => &mut api_version,
            "kind" => &mut kind,
            _ => continue,
        };
        match value {
            Value::String(text) => *slot = text.clone(),
            Value::Null => {}
            other => {
                let what = describe(other);
                return Err(DecodeError::Type(format!(
                    "json: cannot unmarshal {what} into Go struct field .{key} of type string"
                )));
            }
        }
    }
    Ok((api_version, kind))
}

/// The JSON type of a value as Go names it.
pub(crate) fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Written(text) if !text.starts_with('{') => "number",
        Value::Object(_) | Value::Written(_) => "object",
    }
}

fn root_type_name(kind: &Type) -> String {
    let package = kind.package();
    format!("{}.{}", package.rsplit('.').next().unwrap_or(package), kind.short_name())
}

/// Whose ways with misfits are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Converter,
}

struct Decoder {
    style: Style,
    /// The first value of a wrong type.
    noted: Option<DecodeError>,
    /// None where strictness does not reach: inside of types that read themselves.
    strict: Option<Vec<String>>,
    strict_seen: Complaints,
    /// The struct that messages name, where it is not the innermost one.
    nested_in: Option<&'static str>,
    /// How many structs are open.
    depth: usize,
    kept_empties: bool,
}

impl Decoder {
    fn new(style: Style) -> Self {
        Decoder {
            style,
            noted: None,
            strict: Some(Vec::new()),
            strict_seen: Complaints::default(),
            nested_in: None,
            depth: 0,
            kept_empties: false,
        }
    }

    /// A value of any shape. Null gives null: what that means is up to the holder.
    fn value(&mut self, raw: Value, shape: &Shape, go_type: &str, place: &Place<'_>) -> Result<Value, DecodeError> {
        match (shape, raw) {
            (Shape::String, Value::String(text)) => Ok(Value::String(text)),
            (Shape::Bool, Value::Bool(flag)) => Ok(Value::Bool(flag)),
            (Shape::Int64, Value::Int(number)) => Ok(Value::Int(number)),
            (Shape::Int32, Value::Int(number)) if i32::try_from(number).is_ok() => Ok(Value::Int(number)),
            (Shape::Double, Value::Int(number)) => Ok(json::number(number as f64)),
            (Shape::Double, Value::Float(number)) => Ok(json::number(number)),
            (Shape::Double, Value::Written(text)) => match text.parse() {
                Ok(number) if f64::is_finite(number) => Ok(json::number(number)),
                _ => self.mismatch(&format!("number {text}"), go_type, place),
            },
            (Shape::Struct(kind), raw) => self.structure(raw, kind.get(), go_type, place),
            (Shape::List(item), raw) => self.list(raw, item, go_type, place),
            (Shape::WrappedStrings, raw) => self.list(raw, &Shape::String, go_type, place),
            (Shape::Map(item), raw) => self.map(raw, item, go_type, place),
            (Shape::String | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Double, Value::Null) => Ok(Value::Null),
            (Shape::String | Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Double, raw) => {
                self.misfit(&raw, shape, go_type, place)
            }
            (special, raw) => self.special(raw, special, go_type, place),
        }
    }

    fn structure(
        &mut self,
        raw: Value,
        kind: &'static Type,
        go_type: &str,
        place: &Place<'_>,
    ) -> Result<Value, DecodeError> {
        let mut entries = match raw {
            Value::Object(map) => map.into_entries(),
            Value::Null => return Ok(Value::Null),
            other if self.style == Style::Converter => return Err(convert::no_struct(&other)),
            other => return self.mismatch(describe(&other), go_type, place),
        };
        if self.style == Style::Converter {
            entries.sort_by_key(|(key, _)| kind.position(key).unwrap_or(usize::MAX));
        }
        if self.depth >= STRUCT_DEPTH_MAX {
            return Err(DecodeError::Text("exceeded max depth".to_owned()));
        }
        self.depth += 1;
        let fields = self.fields(entries, kind, place);
        self.depth -= 1;
        fields
    }

    fn fields(
        &mut self,
        entries: Vec<(Text, Value)>,
        kind: &'static Type,
        place: &Place<'_>,
    ) -> Result<Value, DecodeError> {
        let mut meta: [Option<Value>; 2] = [None, None];
        let mut filled: Vec<(u16, Value)> = Vec::with_capacity(entries.len());
        let mut seen: u128 = 0;
        for (key, raw) in entries {
            let Some(position) = kind.position(&key) else {
                self.other_field(&key, raw, kind, &mut meta, place)?;
                continue;
            };
            let (owner, field) = kind.follow(position);
            let value = if std::ptr::eq(owner, kind) {
                self.value(raw, &field.shape, field.go_type, &place.field(field.name, kind))?
            } else {
                self.inlined(raw, kind, owner, field, place)?
            };
            // A set bit only says that the field may be there: types could have more fields than bits.
            let bit = 1 << (position % 128);
            let repeated = seen & bit != 0;
            seen |= bit;
            match filled.iter_mut().find(|(earlier, _)| repeated && usize::from(*earlier) == position) {
                Some((_, earlier)) => self.repeat(earlier, value, &field.shape, field.name, place),
                None => filled.push((position as u16, value)),
            }
        }
        self.kept_empties |= has_empties(kind, &filled);
        Ok(Value::Object(assemble(kind, meta, filled, Empties::Keep)))
    }

    /// `kind` and `apiVersion`, or a field that the type does not have.
    fn other_field(
        &mut self,
        key: &str,
        raw: Value,
        kind: &'static Type,
        meta: &mut [Option<Value>; 2],
        place: &Place<'_>,
    ) -> Result<(), DecodeError> {
        let Some(index) = META.iter().position(|name| kind.type_meta && *name == key) else {
            self.note_strict("unknown field", key, place);
            return Ok(());
        };
        let here = place.inline("TypeMeta", kind);
        let value = self.value(raw, &Shape::String, "string", &here.field(META[index], kind))?;
        match &mut meta[index] {
            Some(earlier) => self.repeat(earlier, value, &Shape::String, key, place),
            empty => *empty = Some(value),
        }
        Ok(())
    }

    /// A field of an inline struct; messages name the structs on the way.
    fn inlined(
        &mut self,
        raw: Value,
        kind: &'static Type,
        owner: &'static Type,
        field: &'static Field,
        place: &Place<'_>,
    ) -> Result<Value, DecodeError> {
        match inline_step(kind, owner) {
            Some(step) if !std::ptr::eq(step, owner) => {
                let outer = place.inline(step.short_name(), kind);
                let inner = outer.inline(owner.short_name(), kind);
                self.value(raw, &field.shape, field.go_type, &inner.field(field.name, kind))
            }
            _ => {
                let inner = place.inline(owner.short_name(), kind);
                self.value(raw, &field.shape, field.go_type, &inner.field(field.name, kind))
            }
        }
    }

    /// Notes that a field is there twice, and reads it on top of the earlier one as Go does.
    fn repeat(&mut self, earlier: &mut Value, value: Value, shape: &Shape, name: &str, place: &Place<'_>) {
        self.note_strict("duplicate field", name, place);
        overlay(earlier, value, shape);
    }

    fn list(&mut self, raw: Value, item: &Shape, go_type: &str, place: &Place<'_>) -> Result<Value, DecodeError> {
        let mut items = match raw {
            Value::Array(items) => items,
            Value::Null => return Ok(Value::Null),
            other if self.style == Style::Converter => return Err(convert::no_list(&other)),
            other => return self.mismatch(describe(&other), go_type, place),
        };
        let item_type = item_type_name(go_type, item);
        for (index, slot) in items.iter_mut().enumerate() {
            let value = self.value(std::mem::take(slot), item, item_type, &place.index(index))?;
            *slot = if value.is_null() { zero_item(item) } else { value };
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, raw: Value, item: &Shape, go_type: &str, place: &Place<'_>) -> Result<Value, DecodeError> {
        let mut entries = match raw {
            Value::Object(map) => map.into_entries(),
            Value::Null => return Ok(Value::Null),
            other if self.style == Style::Converter => return Err(convert::no_map(&other)),
            other => return self.mismatch(describe(&other), go_type, place),
        };
        if self.strict.is_some() {
            self.note_repeated_keys(&entries, place);
        }
        let item_type = item_type_name(go_type, item);
        for (key, slot) in &mut entries {
            let value = self.value(std::mem::take(slot), item, item_type, &place.key(key))?;
            *slot = if value.is_null() { zero_item(item) } else { value };
        }
        Ok(Value::Object(sorted(entries)))
    }

    fn note_repeated_keys(&mut self, entries: &[(Text, Value)], place: &Place<'_>) {
        if entries.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return;
        }
        let mut seen = std::collections::HashSet::with_capacity(entries.len());
        for (key, _) in entries {
            if !seen.insert(key) {
                self.note_strict("duplicate field", key, place);
            }
        }
    }

    /// A scalar that is not of this shape.
    fn misfit(&mut self, raw: &Value, shape: &Shape, go_type: &str, place: &Place<'_>) -> Result<Value, DecodeError> {
        if self.style == Style::Converter {
            return convert::scalar(raw, shape, go_type);
        }
        match (shape, raw) {
            (Shape::Int32 | Shape::Int64, Value::Int(_) | Value::Float(_) | Value::Written(_)) => {
                self.mismatch(&format!("number {}", json::to_string(raw)), go_type, place)
            }
            _ => self.mismatch(describe(raw), go_type, place),
        }
    }

    /// Notes that the value here is of the wrong type, and goes on as if it were not there.
    fn mismatch(&mut self, what: &str, go_type: &str, place: &Place<'_>) -> Result<Value, DecodeError> {
        if self.noted.is_none() {
            self.noted = Some(self.type_error(what, go_type, place));
        }
        Ok(Value::Null)
    }

    fn type_error(&self, what: &str, go_type: &str, place: &Place<'_>) -> DecodeError {
        DecodeError::Type(match place.owner() {
            Some(owner) => {
                let owner = self.nested_in.unwrap_or(owner);
                format!(
                    "json: cannot unmarshal {what} into Go struct field {owner}.{} of type {go_type}",
                    place.fields()
                )
            }
            None => format!("json: cannot unmarshal {what} into Go value of type {go_type}"),
        })
    }

    fn note_strict(&mut self, what: &str, name: &str, place: &Place<'_>) {
        let Some(strict) = &mut self.strict else { return };
        let by_converter = self.style == Style::Converter;
        if strict.len() >= STRICT_ERRORS_MAX && !by_converter || self.strict_seen.is_full() {
            return;
        }
        // The converter's paths leave out the keys of maps.
        let text = format!("{what} {}", crate::field::quote(&place.strict_path(name, !by_converter)));
        if self.strict_seen.add(&text) {
            strict.push(text);
        }
    }
}

/// In the order in which Go writes them.
const META: [&str; 2] = ["kind", "apiVersion"];

/// The struct among `kind`'s own inline ones through which `owner` is reached.
fn inline_step(kind: &'static Type, owner: &'static Type) -> Option<&'static Type> {
    let inlines = kind.fields.iter().filter(|field| field.inline).filter_map(|field| match field.shape {
        Shape::Struct(inline) => Some(inline.get()),
        _ => None,
    });
    inlines
        .clone()
        .find(|inline| std::ptr::eq(*inline, owner))
        .or_else(|| inlines.clone().find(|inline| inline_step(inline, owner).is_some()))
}

/// The type of a list's items or a map's values.
fn item_type_name<'a>(go_type: &'a str, item: &Shape) -> &'a str {
    let inner = go_type.strip_prefix("[]").or_else(|| go_type.strip_prefix("map[string]"));
    match (inner, item) {
        (Some(inner), _) => inner.trim_start_matches('*'),
        (None, Shape::String) => "string",
        (None, _) => match go_type.strip_prefix("map[") {
            Some(keyed) => keyed.split_once(']').map_or(keyed, |(_, inner)| inner),
            None => go_type,
        },
    }
}

fn sorted(entries: Vec<(Text, Value)>) -> Map {
    if entries.windows(2).all(|pair| pair[0].0 < pair[1].0) { Map::in_order(entries) } else { Map::sorted(entries) }
}

/// Reads `later` on top of `earlier`, as Go decodes a repeated field into what is there already: null leaves scalars
/// alone, maps are joined. Of two structs the later one counts as a whole, where Go would join them, too.
fn overlay(earlier: &mut Value, later: Value, shape: &Shape) {
    match (shape, later) {
        (Shape::List(_) | Shape::Map(_) | Shape::WrappedStrings | Shape::Bytes, Value::Null) => *earlier = Value::Null,
        (_, Value::Null) => {}
        (Shape::Map(_), Value::Object(map)) if matches!(earlier, Value::Object(_)) => {
            let mut entries = std::mem::take(earlier.make_map()).into_entries();
            entries.extend(map.into_entries());
            *earlier = Value::Object(Map::sorted(entries));
        }
        (_, later) => *earlier = later,
    }
}

#[cfg(test)]
mod tests;
