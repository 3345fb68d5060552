//! Types that read themselves: quantities, times, integers or strings, base64, embedded JSON, JSON schemas.

use std::sync::OnceLock;

use super::place::Place;
use super::{Complaints, DecodeError, Decoder, Style, base64, convert, describe};
use crate::json;
use crate::quantity::Quantity;
use crate::schema::structural::sort;
use crate::schema::{Shape, TypeRef};
use crate::time;
use crate::value::{Text, Value};

impl Decoder {
    pub(super) fn special(
        &mut self,
        raw: Value,
        shape: &Shape,
        go_type: &str,
        place: &Place<'_>,
    ) -> Result<Value, DecodeError> {
        // The converter hands such types their own text: they know nothing of what is around it, and never see a null.
        let place = if self.style == Style::Converter { &Place::ROOT } else { place };
        if self.style == Style::Converter && raw.is_null() {
            return Ok(Value::Null);
        }
        match shape {
            Shape::Bytes => self.bytes(raw, go_type, place),
            Shape::Quantity => quantity(raw),
            Shape::Time => self.time(raw, time::canonical_seconds, place),
            Shape::MicroTime => self.time(raw, time::canonical_micros, place),
            Shape::Duration => self.duration(raw, place),
            Shape::IntOrString => self.int_or_string(raw, place),
            Shape::SchemaOrBool => match raw {
                Value::Bool(_) | Value::Null => Ok(raw),
                Value::Object(_) => self.nested(raw, Nested::Schema, place),
                _ => Err(DecodeError::Text("boolean or JSON schema expected".to_owned())),
            },
            Shape::SchemaOrArray | Shape::SchemaOrStrings => match raw {
                Value::Object(_) => self.nested(raw, Nested::Schema, place),
                Value::Array(items) if items.is_empty() => Ok(Value::Null),
                Value::Array(_) if *shape == Shape::SchemaOrArray => self.nested(raw, Nested::Schemas, place),
                Value::Array(_) => self.nested(raw, Nested::Strings, place),
                _ => Ok(Value::Null),
            },
            // Upstream keeps it as a value and not as text: the order of its keys is lost.
            Shape::Json => {
                let mut value = free(raw);
                sort(&mut value);
                Ok(value)
            }
            _ => Ok(free(raw)),
        }
    }

    /// A part that upstream reads with a decoder of its own: not strict, and a wrong type in it ends the walk.
    fn nested(&mut self, raw: Value, what: Nested, place: &Place<'_>) -> Result<Value, DecodeError> {
        let nested_in = self.nested_in.or(place.owner());
        let mut inner = Decoder {
            style: Style::Json,
            noted: None,
            strict: None,
            strict_seen: Complaints::default(),
            nested_in,
            depth: self.depth,
            kept_empties: false,
        };
        let value = match (what, schema_shape()) {
            (Nested::Schema, Some(shape)) => inner.value(raw, shape, "v1.JSONSchemaProps", place)?,
            (Nested::Schemas, Some(shape)) => inner.list(raw, shape, "[]v1.JSONSchemaProps", place)?,
            _ => inner.list(raw, &Shape::String, "[]string", place)?,
        };
        inner.noted.map_or(Ok(value), Err)
    }

    fn bytes(&mut self, raw: Value, go_type: &str, place: &Place<'_>) -> Result<Value, DecodeError> {
        match raw {
            Value::Null => Ok(Value::Null),
            Value::String(text) => match base64::canonical(&text) {
                Ok(None) => Ok(Value::String(text)),
                Ok(Some(canonical)) => Ok(Value::from(canonical)),
                Err(at) if self.style == Style::Converter => Err(convert::bad_base64(at)),
                Err(at) => {
                    let message = format!("illegal base64 data at input byte {at}");
                    self.noted.get_or_insert(DecodeError::Text(message));
                    Ok(Value::Null)
                }
            },
            Value::Array(items) => self.byte_list(items, place),
            other if self.style == Style::Converter => Err(convert::no_list(&other)),
            other => self.mismatch(describe(&other), go_type, place),
        }
    }

    /// Go takes a list of small numbers for bytes, too.
    fn byte_list(&mut self, items: Vec<Value>, place: &Place<'_>) -> Result<Value, DecodeError> {
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Value::Null => bytes.push(0),
                Value::Int(number) if u8::try_from(number).is_ok() => bytes.push(number as u8),
                other if self.style == Style::Converter => bytes.push(convert::byte(&other)?),
                Value::Int(_) | Value::Float(_) | Value::Written(_) => {
                    self.mismatch(&format!("number {}", json::to_string(&item)), "uint8", place)?;
                }
                other => {
                    self.mismatch(describe(&other), "uint8", place)?;
                }
            }
        }
        Ok(Value::from(base64::encode(&bytes)))
    }

    fn time(
        &mut self,
        raw: Value,
        canonical: fn(&str) -> Result<Option<String>, String>,
        place: &Place<'_>,
    ) -> Result<Value, DecodeError> {
        match raw {
            Value::Null => Ok(Value::Null),
            Value::String(text) => match canonical(&text).map_err(DecodeError::Text)? {
                None => Ok(Value::Null),
                Some(canonical) if canonical == text.as_str() => Ok(Value::String(text)),
                Some(canonical) => Ok(Value::from(canonical)),
            },
            other => Err(self.type_error(describe(&other), "string", place)),
        }
    }

    fn duration(&mut self, raw: Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        match raw {
            Value::Null => Err(DecodeError::Text("time: invalid duration \"\"".to_owned())),
            Value::String(text) => {
                let nanos = time::parse_duration(&text).map_err(DecodeError::Text)?;
                Ok(Value::from(time::format_duration(nanos)))
            }
            other => Err(self.type_error(describe(&other), "string", place)),
        }
    }

    fn int_or_string(&mut self, raw: Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        match raw {
            Value::Null | Value::String(_) => Ok(raw),
            Value::Int(number) if i32::try_from(number).is_ok() => Ok(raw),
            Value::Int(_) | Value::Float(_) | Value::Written(_) => {
                Err(self.type_error(&format!("number {}", json::to_string(&raw)), "int32", place))
            }
            other => Err(self.type_error(describe(&other), "int32", place)),
        }
    }
}

/// What has no type: numbers that were kept as they were written become what they are. Objects that are written stay.
fn free(raw: Value) -> Value {
    match raw {
        Value::Written(text) if !text.starts_with('{') => text.parse().map_or(Value::Null, Value::Float),
        Value::Array(items) => Value::Array(items.into_iter().map(free).collect()),
        Value::Object(map) => {
            let mut map = map;
            for (_, value) in map.iter_mut() {
                *value = free(std::mem::take(value));
            }
            Value::Object(map)
        }
        other => other,
    }
}

/// Upstream takes any JSON here and reads its text; what is not a string or a number does not match.
fn quantity(raw: Value) -> Result<Value, DecodeError> {
    let text = match raw {
        Value::Null => return Ok(Value::Null),
        Value::String(text) => text,
        other => Text::from(json::to_string(&other)),
    };
    let quantity = Quantity::parse(text.trim()).map_err(|error| DecodeError::Text(error.to_string()))?;
    Ok(Value::String(quantity.to_text()))
}

enum Nested {
    Schema,
    Schemas,
    Strings,
}

/// The shape of a JSON schema in a CustomResourceDefinition.
pub(super) fn schema_shape() -> Option<&'static Shape> {
    static FOUND: OnceLock<Option<Shape>> = OnceLock::new();
    let find = || TypeRef::find("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    FOUND.get_or_init(|| find().map(Shape::Struct)).as_ref()
}
