//! From one type to another.

use std::sync::Arc;

use super::{Function, Outcome, failed, numbers, unfit};
use crate::time::{self, Timestamp};
use crate::types::Type;
use crate::value::Value;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "int" => |arguments| to_int(&arguments[0]),
        "uint" => |arguments| to_uint(&arguments[0]),
        "double" => |arguments| to_double(&arguments[0]),
        "string" => |arguments| match to_string(&arguments[0])? {
            Some(text) => Ok(Value::String(text.into())),
            None => unfit(),
        },
        "bool" => |arguments| match &arguments[0] {
            Value::Bool(value) => Ok(Value::Bool(*value)),
            Value::String(text) => match text.as_ref() {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
                _ => wrong(&arguments[0], &Type::Bool),
            },
            _ => unfit(),
        },
        "bytes" => |arguments| match &arguments[0] {
            Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => unfit(),
        },
        "duration" => |arguments| match &arguments[0] {
            Value::Duration(nanos) => Ok(Value::Duration(*nanos)),
            Value::Int(_) => wrong(&arguments[0], &Type::Duration),
            Value::String(text) => match time::parse_duration(text) {
                Some(nanos) => Ok(Value::Duration(nanos)),
                None => wrong(&arguments[0], &Type::Duration),
            },
            _ => unfit(),
        },
        "timestamp" => |arguments| match &arguments[0] {
            Value::Timestamp(at) => Ok(Value::Timestamp(*at)),
            Value::Int(seconds) => match Timestamp::from_seconds(*seconds) {
                Some(at) => Ok(Value::Timestamp(at)),
                None => failed("timestamp overflow"),
            },
            Value::String(text) => match Timestamp::parse(text) {
                Some(at) => Ok(Value::Timestamp(at)),
                None => wrong(&arguments[0], &Type::Timestamp),
            },
            _ => unfit(),
        },
        "dyn" => |arguments| Ok(arguments[0].clone()),
        "type" => |arguments| Ok(Value::Type(Arc::new(arguments[0].type_of()))),
        _ => return None,
    })
}

fn wrong<'a>(value: &Value<'a>, to: &Type) -> Outcome<'a> {
    failed(format!("type conversion error from '{}' to '{}'", value.type_of().name(), to.name()))
}

fn to_int<'a>(value: &Value<'a>) -> Outcome<'a> {
    let overflow = "integer overflow";
    match value {
        Value::Int(value) => Ok(Value::Int(*value)),
        Value::Uint(value) => i64::try_from(*value).map_or_else(|_| failed(overflow), |value| Ok(Value::Int(value))),
        Value::Double(value) if *value > i64::MIN as f64 && *value < i64::MAX as f64 => Ok(Value::Int(*value as i64)),
        Value::Double(_) => failed(overflow),
        Value::String(text) => match text.parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => wrong(value, &Type::Int),
        },
        Value::Timestamp(at) => Ok(Value::Int(at.seconds)),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        _ => unfit(),
    }
}

fn to_uint<'a>(value: &Value<'a>) -> Outcome<'a> {
    let overflow = "unsigned integer overflow";
    match value {
        Value::Uint(value) => Ok(Value::Uint(*value)),
        Value::Int(value) => u64::try_from(*value).map_or_else(|_| failed(overflow), |value| Ok(Value::Uint(value))),
        Value::Double(value) if *value >= 0.0 && *value < u64::MAX as f64 => Ok(Value::Uint(*value as u64)),
        Value::Double(_) => failed(overflow),
        Value::String(text) => match text.parse() {
            Ok(number) if !text.starts_with('+') => Ok(Value::Uint(number)),
            _ => wrong(value, &Type::Uint),
        },
        _ => unfit(),
    }
}

fn to_double<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Double(value) => Ok(Value::Double(*value)),
        Value::Int(value) => Ok(Value::Double(*value as f64)),
        Value::Uint(value) => Ok(Value::Double(*value as f64)),
        Value::String(text) => match text.parse() {
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => wrong(value, &Type::Double),
        },
        _ => unfit(),
    }
}

/// The value as a text; none for types that have no text.
pub fn to_string(value: &Value) -> Result<Option<String>, super::EvalError> {
    Ok(Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => numbers::shortest(*value),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                let message = "invalid UTF-8 in bytes, cannot convert to string";
                return Err(super::EvalError::Failed(message.to_owned()));
            }
        },
        Value::Timestamp(at) => at.text(),
        Value::Duration(nanos) => format!("{}s", *nanos as f64 / 1e9),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Type(of) => of.to_string(),
        _ => return Ok(None),
    }))
}
