//! Arithmetic, comparison, membership and size.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{EvalError, Function, Outcome, failed, unfit};
use crate::equality::{comparable, compare, equal, same_keys};
use crate::value::{List, ListKind, Map, Value};

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "_==_" => |arguments| Ok(Value::Bool(equal(&arguments[0], &arguments[1]))),
        "_!=_" => |arguments| Ok(Value::Bool(!equal(&arguments[0], &arguments[1]))),
        "_<_" => |arguments| ordered(arguments, Ordering::is_lt),
        "_<=_" => |arguments| ordered(arguments, Ordering::is_le),
        "_>_" => |arguments| ordered(arguments, Ordering::is_gt),
        "_>=_" => |arguments| ordered(arguments, Ordering::is_ge),
        "_+_" => |arguments| add(&arguments[0], &arguments[1]),
        "_-_" => |arguments| subtract(&arguments[0], &arguments[1]),
        "_*_" => |arguments| multiply(&arguments[0], &arguments[1]),
        "_/_" => |arguments| divide(&arguments[0], &arguments[1]),
        "_%_" => |arguments| modulo(&arguments[0], &arguments[1]),
        "-_" => |arguments| negate(&arguments[0]),
        "!_" => |arguments| match &arguments[0] {
            Value::Bool(value) => Ok(Value::Bool(!value)),
            _ => unfit(),
        },
        "@in" => |arguments| contains(&arguments[0], &arguments[1]),
        "size" => |arguments| match arguments[0].size() {
            Some(size) => Ok(Value::Int(size as i64)),
            None => unfit(),
        },
        "cel.@mapInsert" => map_insert,
        _ => return None,
    })
}

fn overflow() -> EvalError {
    EvalError::Failed("integer overflow".to_owned())
}

fn unsigned_overflow() -> EvalError {
    EvalError::Failed("unsigned integer overflow".to_owned())
}

fn duration_overflow() -> EvalError {
    EvalError::Failed("duration overflow".to_owned())
}

fn timestamp_overflow() -> EvalError {
    EvalError::Failed("timestamp overflow".to_owned())
}

fn ordered(arguments: &[Value], holds: fn(Ordering) -> bool) -> Outcome {
    let (one, other) = (&arguments[0], &arguments[1]);
    if !comparable(one, other) {
        return unfit();
    }
    match compare(one, other) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None => failed("NaN values cannot be ordered"),
    }
}

pub fn add(one: &Value, other: &Value) -> Outcome {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_add(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one.checked_add(*other).ok_or_else(unsigned_overflow)?),
        (Value::Double(one), Value::Double(other)) => Value::Double(one + other),
        (Value::String(one), Value::String(other)) => Value::String(format!("{one}{other}").into()),
        (Value::Bytes(one), Value::Bytes(other)) => Value::Bytes([one.as_ref(), other.as_ref()].concat().into()),
        (Value::List(one), Value::List(other)) => join(one, other),
        (Value::Duration(one), Value::Duration(other)) => {
            Value::Duration(one.checked_add(*other).ok_or_else(duration_overflow)?)
        }
        (Value::Duration(nanos), Value::Timestamp(at)) | (Value::Timestamp(at), Value::Duration(nanos)) => {
            Value::Timestamp(at.plus(*nanos).ok_or_else(timestamp_overflow)?)
        }
        _ => return unfit(),
    })
}

/// One list after the other; sets and maps of objects take in only what is new, or replace what has the same keys.
fn join(one: &List, other: &List) -> Value {
    let mut items = one.items.as_ref().clone();
    match &one.kind {
        ListKind::Plain => items.extend(other.items.iter().cloned()),
        ListKind::Set => {
            for item in other.items.iter() {
                if !items.iter().any(|known| equal(known, item)) {
                    items.push(item.clone());
                }
            }
        }
        ListKind::Map(keys) => {
            for item in other.items.iter() {
                match items.iter_mut().find(|known| same_keys(known, item, keys)) {
                    Some(known) => *known = item.clone(),
                    None => items.push(item.clone()),
                }
            }
        }
    }
    Value::List(List { items: Arc::new(items), kind: one.kind.clone() })
}

fn subtract(one: &Value, other: &Value) -> Outcome {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_sub(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one.checked_sub(*other).ok_or_else(unsigned_overflow)?),
        (Value::Double(one), Value::Double(other)) => Value::Double(one - other),
        (Value::Duration(one), Value::Duration(other)) => {
            Value::Duration(one.checked_sub(*other).ok_or_else(duration_overflow)?)
        }
        (Value::Timestamp(at), Value::Duration(nanos)) => {
            let earlier = nanos.checked_neg().and_then(|nanos| at.plus(nanos));
            Value::Timestamp(earlier.ok_or_else(timestamp_overflow)?)
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => {
            Value::Duration(one.since(*other).ok_or_else(duration_overflow)?)
        }
        _ => return unfit(),
    })
}

fn multiply(one: &Value, other: &Value) -> Outcome {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_mul(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one.checked_mul(*other).ok_or_else(unsigned_overflow)?),
        (Value::Double(one), Value::Double(other)) => Value::Double(one * other),
        _ => return unfit(),
    })
}

fn divide(one: &Value, other: &Value) -> Outcome {
    Ok(match (one, other) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => return failed("division by zero"),
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_div(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one / other),
        (Value::Double(one), Value::Double(other)) => Value::Double(one / other),
        _ => return unfit(),
    })
}

fn modulo(one: &Value, other: &Value) -> Outcome {
    Ok(match (one, other) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => return failed("modulus by zero"),
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_rem(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one % other),
        _ => return unfit(),
    })
}

fn negate(value: &Value) -> Outcome {
    Ok(match value {
        Value::Int(value) => Value::Int(value.checked_neg().ok_or_else(overflow)?),
        Value::Double(value) => Value::Double(-value),
        Value::Duration(nanos) => Value::Duration(nanos.checked_neg().ok_or_else(duration_overflow)?),
        _ => return unfit(),
    })
}

pub fn contains(item: &Value, within: &Value) -> Outcome {
    match within {
        Value::List(list) => Ok(Value::Bool(list.items.iter().any(|known| equal(item, known)))),
        Value::Map(map) => Ok(Value::Bool(map.get(item).is_some())),
        Value::Object(object) => match item {
            Value::String(name) => Ok(Value::Bool(object.fields.contains_key(name))),
            _ => unfit(),
        },
        _ => unfit(),
    }
}

/// A map with an entry more, or with those of another map.
fn map_insert(arguments: &[Value]) -> Outcome {
    let Value::Map(map) = &arguments[0] else { return unfit() };
    let mut map: Map = map.as_ref().clone();
    let more: Vec<(Value, Value)> = match arguments {
        [_, key, value] => vec![(key.clone(), value.clone())],
        [_, Value::Map(other)] => other.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        _ => return unfit(),
    };
    for (key, value) in more {
        if map.get(&key).is_some() {
            return failed(format!("insert failed: key {} already exists", key_text(&key)));
        }
        if !map.insert(key, value) {
            return unfit();
        }
    }
    Ok(Value::map(map))
}

/// A key as messages show it.
pub fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Double(value) => super::numbers::shortest(*value),
        other => other.type_of().to_string(),
    }
}
