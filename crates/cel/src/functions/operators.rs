//! Arithmetic, comparison, membership and size.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{EvalError, Function, Outcome, failed, no_overload, unfit};
use crate::cost::LIST_MAX;
use crate::equality::{Places, comparable, compare, equal, try_equal};
use crate::value::{List, ListKind, Value};

/// What folds that make maps call.
pub const MAP_INSERT: &str = "cel.@mapInsert";

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "_==_" => |arguments| try_equal(&arguments[0], &arguments[1]).map(Value::Bool),
        "_!=_" => |arguments| try_equal(&arguments[0], &arguments[1]).map(|same| Value::Bool(!same)),
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
        MAP_INSERT => |arguments| map_insert(arguments.to_vec()),
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

fn ordered<'a>(arguments: &[Value<'a>], holds: fn(Ordering) -> bool) -> Outcome<'a> {
    let (one, other) = (&arguments[0], &arguments[1]);
    if !comparable(one, other) {
        return unfit();
    }
    match compare(one, other) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None => failed("NaN values cannot be ordered"),
    }
}

pub fn add<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_add(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one.checked_add(*other).ok_or_else(unsigned_overflow)?),
        (Value::Double(one), Value::Double(other)) => Value::Double(one + other),
        (Value::String(one), Value::String(other)) => Value::String(format!("{one}{other}").into()),
        (Value::Bytes(one), Value::Bytes(other)) => Value::Bytes([one.as_ref(), other.as_ref()].concat().into()),
        (Value::List(one), Value::List(other)) if one.items.len() + other.items.len() > LIST_MAX => {
            return Err(EvalError::CostLimit);
        }
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
fn join<'a>(one: &List<'a>, other: &List<'a>) -> Value<'a> {
    // An empty list leaves the other as it is, with its kind.
    if other.items.is_empty() || (one.items.is_empty() && one.kind == ListKind::Plain) {
        return Value::List(if other.items.is_empty() { one.clone() } else { other.clone() });
    }
    let mut items = one.items.as_ref().clone();
    if one.kind == ListKind::Plain {
        items.extend(other.items.iter().cloned());
    } else {
        let known = Places::of(one);
        let new = Places::of(other);
        for (at, item) in other.items.iter().enumerate() {
            match known.find(item) {
                Some(place) if one.kind != ListKind::Set => items[place] = item.clone(),
                None if one.kind != ListKind::Set || new.find(item) == Some(at) => items.push(item.clone()),
                _ => {}
            }
        }
    }
    Value::List(List { items: Arc::new(items), kind: one.kind })
}

fn subtract<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
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

fn multiply<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_mul(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one.checked_mul(*other).ok_or_else(unsigned_overflow)?),
        (Value::Double(one), Value::Double(other)) => Value::Double(one * other),
        _ => return unfit(),
    })
}

fn divide<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    Ok(match (one, other) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => return failed("division by zero"),
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_div(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one / other),
        (Value::Double(one), Value::Double(other)) => Value::Double(one / other),
        _ => return unfit(),
    })
}

fn modulo<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    Ok(match (one, other) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => return failed("modulus by zero"),
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_rem(*other).ok_or_else(overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one % other),
        _ => return unfit(),
    })
}

fn negate<'a>(value: &Value<'a>) -> Outcome<'a> {
    Ok(match value {
        Value::Int(value) => Value::Int(value.checked_neg().ok_or_else(overflow)?),
        Value::Double(value) => Value::Double(-value),
        Value::Duration(nanos) => Value::Duration(nanos.checked_neg().ok_or_else(duration_overflow)?),
        _ => return unfit(),
    })
}

pub fn contains<'a>(item: &Value<'a>, within: &Value<'a>) -> Outcome<'a> {
    match within {
        Value::List(list) => Ok(Value::Bool(list.items.iter().any(|known| equal(item, known)))),
        Value::Map(map) => Ok(Value::Bool(map.get(item).is_some())),
        Value::View(view) if view.is_list() || view.is_map() => view.contains(item),
        Value::Object(object) => match item {
            Value::String(name) => Ok(Value::Bool(object.fields.contains_key(name))),
            _ => unfit(),
        },
        _ => unfit(),
    }
}

/// A map with an entry more, or with those of another map. Nothing is copied where nobody else has the map.
pub fn map_insert<'a>(arguments: Vec<Value<'a>>) -> Outcome<'a> {
    let mut arguments = arguments.into_iter();
    let Some(Value::Map(mut map)) = arguments.next() else { return no_overload() };
    let more: Vec<(Value<'a>, Value<'a>)> = match (arguments.next(), arguments.next()) {
        (Some(key), Some(value)) => vec![(key, value)],
        (Some(Value::Map(other)), None) => other.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        _ => return no_overload(),
    };
    for (key, value) in more {
        if map.get(&key).is_some() {
            return failed(format!("insert failed: key {} already exists", key_text(&key)));
        }
        if !Arc::make_mut(&mut map).insert(key, value) {
            return no_overload();
        }
    }
    Ok(Value::Map(map))
}

/// A key as messages show it.
pub fn key_text(key: &Value<'_>) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Double(value) => super::numbers::shortest(*value),
        other => other.type_of().to_string(),
    }
}
