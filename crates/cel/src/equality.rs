//! When two values are equal, and which one comes first.

use std::cmp::Ordering;

use crate::value::{List, ListKind, Object, Value};

pub fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            numbers(one, other) == Some(Ordering::Equal)
        }
        (Value::String(one), Value::String(other)) => one == other,
        (Value::Bytes(one), Value::Bytes(other)) => one == other,
        (Value::List(one), Value::List(other)) => lists(one, other),
        (Value::Map(one), Value::Map(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| other.get(key).is_some_and(|other| equal(value, other)))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.name == other.name
                && one.fields.len() == other.fields.len()
                && one
                    .fields
                    .iter()
                    .all(|(name, value)| other.fields.get(name).is_some_and(|other| equal(value, other)))
        }
        (Value::Timestamp(one), Value::Timestamp(other)) => one.key() == other.key(),
        (Value::Duration(one), Value::Duration(other)) => one == other,
        (Value::Type(one), Value::Type(other)) => one.name() == other.name(),
        (Value::Optional(one), Value::Optional(other)) => match (one, other) {
            (Some(one), Some(other)) => equal(one, other),
            (None, None) => true,
            _ => false,
        },
        (Value::Quantity(one), Value::Quantity(other)) => one.cmp(other) == Ordering::Equal,
        (Value::Url(one), Value::Url(other)) => one == other,
        (Value::Ip(one), Value::Ip(other)) => one == other,
        (Value::Cidr(one), Value::Cidr(other)) => one == other,
        (Value::Semver(one), Value::Semver(other)) => one.precedence(other) == Ordering::Equal,
        (Value::Format(one), Value::Format(other)) => one == other,
        _ => false,
    }
}

/// The order of two values; none where there is no order between their types.
pub fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
        (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.key().cmp(&other.key())),
        (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
        _ => numbers(one, other),
    }
}

/// Whether there can be an order between values of these types. Not all numbers have one: there is NaN.
pub fn comparable(one: &Value, other: &Value) -> bool {
    let number = |value: &Value| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    (number(one) && number(other)) || compare(one, other).is_some()
}

/// Numbers as they lie on one line.
fn numbers(one: &Value, other: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (one, other) {
        (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
        (Value::Double(one), _) => mixed(whole(other)?, *one).map(Ordering::reverse),
        (_, Value::Double(other)) => mixed(whole(one)?, *other),
        _ => Some(whole(one)?.cmp(&whole(other)?)),
    }
}

fn mixed(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e30 {
        return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = double.floor();
    let by_floor = whole.cmp(&(floor as i128));
    Some(if by_floor == Ordering::Equal && double > floor { Ordering::Less } else { by_floor })
}

fn lists(one: &List, other: &List) -> bool {
    if one.items.len() != other.items.len() {
        return false;
    }
    match one.kind.clone() {
        ListKind::Plain => one.items.iter().zip(other.items.iter()).all(|(one, other)| equal(one, other)),
        ListKind::Set => one.items.iter().all(|item| other.items.iter().any(|known| equal(item, known))),
        ListKind::Map(keys) => one.items.iter().all(|item| {
            other.items.iter().find(|known| same_keys(item, known, &keys)).is_some_and(|known| equal(item, known))
        }),
    }
}

/// Whether two objects of a list have the same values in these fields.
pub fn same_keys(one: &Value, other: &Value, keys: &[String]) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return false };
    let field = |object: &Object, key: &str| object.fields.get(key).cloned().unwrap_or(Value::Null);
    keys.iter().all(|key| equal(&field(one, key), &field(other, key)))
}
