//! How upstream's converter from trees to structs takes values that do not fit, and words it.

use super::DecodeError;
use crate::schema::Shape;
use crate::value::Value;

/// A scalar of another form than the field's. Numbers are made to fit; nothing else is.
pub(super) fn scalar(raw: &Value, shape: &Shape, go_type: &str) -> Result<Value, DecodeError> {
    match (shape, raw) {
        (Shape::Int32, Value::Int(number)) => Ok(Value::Int(i64::from(*number as i32))),
        (Shape::Int32, Value::Float(number)) if number.fract() == 0.0 => {
            Ok(Value::Int(i64::from(wrapped(*number) as i32)))
        }
        (Shape::Int64, Value::Float(number)) if number.fract() == 0.0 => Ok(Value::Int(wrapped(*number))),
        // Go could make these, but not as JSON means them.
        (Shape::Int32 | Shape::Int64, Value::Float(_)) => Err(no_conversion("float64", go_type)),
        (Shape::String, Value::Int(_)) => Err(no_conversion("int64", go_type)),
        _ => Err(unrecognized(match shape {
            Shape::String => "string",
            Shape::Bool => "bool",
            Shape::Int32 => "int32",
            Shape::Int64 => "int64",
            _ => "float64",
        })),
    }
}

/// An item of a list where bytes are meant.
pub(super) fn byte(raw: &Value) -> Result<u8, DecodeError> {
    match raw {
        Value::Int(number) => Ok(*number as u8),
        Value::Float(number) if number.fract() == 0.0 => Ok(wrapped(*number) as u8),
        Value::Float(_) => Err(no_conversion("float64", "uint8")),
        _ => Err(unrecognized("uint8")),
    }
}

pub(super) fn no_struct(raw: &Value) -> DecodeError {
    DecodeError::Text(format!("cannot restore struct from: {}", form(raw)))
}

pub(super) fn no_list(raw: &Value) -> DecodeError {
    DecodeError::Text(format!("cannot restore slice from {}", form(raw)))
}

pub(super) fn no_map(raw: &Value) -> DecodeError {
    DecodeError::Text(format!("cannot restore map from {}", form(raw)))
}

pub(super) fn bad_base64(at: usize) -> DecodeError {
    DecodeError::Text(format!("error decoding from json: illegal base64 data at input byte {at}"))
}

fn no_conversion(from: &str, to: &str) -> DecodeError {
    DecodeError::Text(format!("cannot convert {from} to {to}"))
}

fn unrecognized(form: &str) -> DecodeError {
    DecodeError::Text(format!("unrecognized type: {form}"))
}

/// What Go calls the form of the value.
fn form(raw: &Value) -> &'static str {
    match raw {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) | Value::Written(_) => "map",
    }
}

/// A number as Go makes an integer of it on most machines: what is too large is the least of all.
fn wrapped(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
