//! When two values are equal, and which one comes first.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use rkube_machinery::value::Text;

use crate::functions::EvalError;
use crate::value::{List, ListKind, Value};
use crate::view::names;

pub fn equal(one: &Value<'_>, other: &Value<'_>) -> bool {
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
        (Value::View(_), _) | (_, Value::View(_)) => views(one, other),
        _ => false,
    }
}

/// As [`equal`], but says so where there is no sense in comparing: a list or map of an object with something else.
pub fn try_equal(one: &Value<'_>, other: &Value<'_>) -> Result<bool, EvalError> {
    if let Value::View(view) = one
        && !matches!(other, Value::Null)
    {
        let fits = match other {
            Value::List(_) => view.is_list(),
            Value::Map(_) => view.is_map(),
            Value::View(other) => view.is_list() == other.is_list() && view.is_map() == other.is_map(),
            _ => false,
        };
        if !fits && (view.is_list() || view.is_map()) {
            return Err(EvalError::Failed("no such overload".to_owned()));
        }
    }
    Ok(equal(one, other))
}

/// The order of two values; none where there is no order between their types.
pub fn compare(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
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
pub fn comparable(one: &Value<'_>, other: &Value<'_>) -> bool {
    let number = |value: &Value<'_>| matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_));
    (number(one) && number(other)) || compare(one, other).is_some()
}

/// Numbers as they lie on one line.
fn numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
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

/// Two values of which at least one is a view.
fn views(one: &Value<'_>, other: &Value<'_>) -> bool {
    match (one, other) {
        (Value::View(view), _) if view.is_map() => view.equals_map(other),
        (Value::Map(map), Value::View(view)) if view.is_map() => {
            map.len() == view.len()
                && map.iter().all(|(key, value)| {
                    let Value::String(key) = key else { return false };
                    view.find(key).is_ok_and(|found| found.is_some_and(|found| equal(value, &found)))
                })
        }
        (Value::View(view), Value::View(unknown)) if !view.is_list() => view.equals_data(unknown),
        _ => match (one.as_list(), other.as_list()) {
            (Some(one), Some(other)) => lists(&one, &other),
            _ => false,
        },
    }
}

fn lists(one: &List<'_>, other: &List<'_>) -> bool {
    if one.items.len() != other.items.len() {
        return false;
    }
    if one.items.iter().zip(other.items.iter()).all(|(one, other)| equal(one, other)) {
        return true;
    }
    if one.kind == ListKind::Plain {
        return false;
    }
    let known = Places::of(one);
    other.items.iter().all(|item| known.find(item).is_some_and(|at| equal(&one.items[at], item)))
}

/// Where the items of a set are, or those of a list of objects by their keys. What a thousand items have in common with
/// a thousand others is found without comparing a million pairs.
pub struct Places<'l, 'a> {
    list: &'l List<'a>,
    by_mark: HashMap<Vec<Mark>, usize>,
}

/// What a value is known by.
#[derive(PartialEq, Eq, Hash)]
enum Mark {
    Absent,
    Bool(bool),
    Whole(i128),
    Double(u64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Time(i64, u32),
    Duration(i64),
    /// Values that are told apart only by comparing them.
    Other,
}

impl<'l, 'a> Places<'l, 'a> {
    pub fn of(list: &'l List<'a>) -> Self {
        let mut by_mark = HashMap::with_capacity(list.items.len());
        for (at, item) in list.items.iter().enumerate() {
            by_mark.entry(marks(item, list.kind)).or_insert(at);
        }
        Places { list, by_mark }
    }

    /// The place of the item that is the same as this one, or has the same keys.
    pub fn find(&self, item: &Value<'_>) -> Option<usize> {
        let marks = marks(item, self.list.kind);
        if marks.contains(&Mark::Other) {
            return self.list.items.iter().position(|known| same(known, item, self.list.kind));
        }
        self.by_mark.get(&marks).copied()
    }
}

fn same(one: &Value<'_>, other: &Value<'_>, kind: ListKind<'_>) -> bool {
    match kind {
        ListKind::Map(keys) => same_keys(one, other, keys),
        _ => equal(one, other),
    }
}

fn marks(item: &Value<'_>, kind: ListKind<'_>) -> Vec<Mark> {
    match kind {
        ListKind::Map(keys) => {
            keys.iter().map(|key| field(item, key).map_or(Mark::Absent, |value| mark(&value))).collect()
        }
        _ => vec![mark(item)],
    }
}

fn mark(value: &Value<'_>) -> Mark {
    match value {
        Value::Null => Mark::Absent,
        Value::Bool(value) => Mark::Bool(*value),
        Value::Int(value) => Mark::Whole(i128::from(*value)),
        Value::Uint(value) => Mark::Whole(i128::from(*value)),
        Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e30 => Mark::Whole(*value as i128),
        Value::Double(value) => Mark::Double(value.to_bits()),
        Value::String(text) => Mark::String(text.clone()),
        Value::Bytes(bytes) => Mark::Bytes(bytes.clone()),
        Value::Timestamp(at) => Mark::Time(at.seconds, at.nanos),
        Value::Duration(nanos) => Mark::Duration(*nanos),
        _ => Mark::Other,
    }
}

/// Whether two objects of a list have the same values in these fields.
fn same_keys(one: &Value<'_>, other: &Value<'_>, keys: &[Text]) -> bool {
    keys.iter().all(|key| match (field(one, key), field(other, key)) {
        (Some(one), Some(other)) => equal(&one, &other),
        (None, None) => true,
        _ => false,
    })
}

fn field<'a>(value: &Value<'a>, name: &str) -> Option<Value<'a>> {
    match value {
        Value::Object(object) => object.fields.get(name).cloned(),
        Value::View(view) => view.find(&names::escape(name)?).ok().flatten(),
        Value::Map(map) => map.get(&Value::string(name)).cloned(),
        _ => None,
    }
}
