//! Functions on lists, and on lists as sets.

use std::cmp::Ordering;

use super::{EvalError, Function, Outcome, failed, no_overload, operators, strings, unfit};
use crate::cost::LIST_MAX;
use crate::equality::{comparable, compare, equal};
use crate::types::Type;
use crate::value::Value;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" => |arguments| extreme(arguments, "min", Ordering::is_gt),
        "max" => |arguments| extreme(arguments, "max", Ordering::is_lt),
        "indexOf" => |arguments| position(arguments, false),
        "lastIndexOf" => |arguments| position(arguments, true),
        "slice" => slice,
        "flatten" => flatten,
        "sort" => |arguments| sort(&arguments[0], &arguments[0]),
        "@sortByAssociatedKeys" => |arguments| sort(&arguments[0], &arguments[1]),
        "lists.range" => range,
        "reverse" => |arguments| changed(arguments, |items| items.reverse()),
        "distinct" => |arguments| changed(arguments, distinct),
        "sets.contains" => |arguments| sets(arguments, |one, other| other.iter().all(|item| has(one, item))),
        "sets.equivalent" => |arguments| {
            sets(arguments, |one, other| {
                one.iter().all(|item| has(other, item)) && other.iter().all(|item| has(one, item))
            })
        },
        "sets.intersects" => |arguments| sets(arguments, |one, other| other.iter().any(|item| has(one, item))),
        _ => return None,
    })
}

fn items<'l, 'a>(value: &'l Value<'a>) -> Option<&'l [Value<'a>]> {
    match value {
        Value::List(list) => Some(&list.items),
        _ => None,
    }
}

fn has(items: &[Value<'_>], item: &Value<'_>) -> bool {
    items.iter().any(|known| equal(known, item))
}

fn sets<'a>(arguments: &[Value<'a>], holds: fn(&[Value<'_>], &[Value<'_>]) -> bool) -> Outcome<'a> {
    match (items(&arguments[0]), items(&arguments[1])) {
        (Some(one), Some(other)) => Ok(Value::Bool(holds(one, other))),
        _ => unfit(),
    }
}

fn changed<'a>(arguments: &[Value<'a>], change: fn(&mut Vec<Value<'_>>)) -> Outcome<'a> {
    let Some(list) = items(&arguments[0]) else { return unfit() };
    let mut list = list.to_vec();
    change(&mut list);
    Ok(Value::list(list))
}

fn distinct(list: &mut Vec<Value<'_>>) {
    let mut seen = Vec::with_capacity(list.len());
    for item in list.drain(..) {
        if !has(&seen, &item) {
            seen.push(item);
        }
    }
    *list = seen;
}

fn is_sorted<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let Some(list) = items(&arguments[0]) else { return unfit() };
    if !list.iter().all(|item| comparable(item, item)) {
        return no_overload();
    }
    for pair in list.windows(2) {
        if compare(&pair[0], &pair[1]) == Some(Ordering::Greater) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let Some(list) = items(&arguments[0]) else { return unfit() };
    let mut list = list.iter();
    let Some(first) = list.next() else { return Ok(Value::Int(0)) };
    list.try_fold(first.clone(), |sum, item| operators::add(&sum, item)).or_else(|error| match error {
        EvalError::Unfit => no_overload(),
        other => Err(other),
    })
}

fn extreme<'a>(arguments: &[Value<'a>], name: &str, replaces: fn(Ordering) -> bool) -> Outcome<'a> {
    let Some(list) = items(&arguments[0]) else { return unfit() };
    let Some(mut result) = list.first() else { return failed(format!("{name} called on empty list")) };
    if !list.iter().all(|item| comparable(item, item)) {
        return no_overload();
    }
    for item in &list[1..] {
        if compare(result, item).is_some_and(replaces) {
            result = item;
        }
    }
    Ok(result.clone())
}

fn position<'a>(arguments: &[Value<'a>], last: bool) -> Outcome<'a> {
    let Some(list) = items(&arguments[0]) else {
        return if last { strings::last_index_of(arguments) } else { strings::index_of(arguments) };
    };
    let [_, wanted] = arguments else { return unfit() };
    let fits = |item: &Value| equal(item, wanted);
    let found = if last { list.iter().rposition(fits) } else { list.iter().position(fits) };
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn slice<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = arguments else { return unfit() };
    let length = list.items.len();
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return failed(format!("cannot slice({start}, {end}), negative indexes not supported"));
    };
    if from > to {
        let message = format!("cannot slice({start}, {end}), start index must be less than or equal to end index");
        return failed(message);
    }
    if to > length {
        return failed(format!("cannot slice({start}, {end}), list is length {length}"));
    }
    Ok(Value::list(list.items[from..to].to_vec()))
}

fn flatten<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (list, depth) = match arguments {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return unfit(),
    };
    if depth < 0 {
        return failed("level must be non-negative");
    }
    let mut flat = Vec::new();
    flatten_into(&list.items, depth, &mut flat)?;
    Ok(Value::list(flat))
}

fn flatten_into<'a>(items: &[Value<'a>], depth: i64, flat: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
    for item in items {
        if flat.len() > LIST_MAX {
            return Err(EvalError::CostLimit);
        }
        match item {
            Value::List(inner) if depth > 0 => flatten_into(&inner.items, depth - 1, flat)?,
            Value::View(view) if depth > 0 && view.is_list() => flatten_into(&view.list()?.items, depth - 1, flat)?,
            other => flat.push(other.clone()),
        }
    }
    Ok(())
}

/// The list in the order of the keys.
fn sort<'a>(list: &Value<'a>, keys: &Value<'a>) -> Outcome<'a> {
    let (Some(list), Some(keys)) = (items(list), items(keys)) else { return unfit() };
    let Some(first) = keys.first() else { return Ok(Value::list(list.to_vec())) };
    let kind: Type = first.type_of();
    if compare(first, first).is_none() {
        return failed("list elements must be comparable");
    }
    if keys.iter().any(|key| key.type_of() != kind) {
        return failed("list elements must have the same type");
    }
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by(|one, other| compare(&keys[*one], &keys[*other]).unwrap_or(Ordering::Equal));
    Ok(Value::list(order.into_iter().map(|at| list[at].clone()).collect()))
}

fn range<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match arguments {
        [Value::Int(end)] if *end > LIST_MAX as i64 => Err(EvalError::CostLimit),
        [Value::Int(end)] => Ok(Value::list((0..*end).map(Value::Int).collect())),
        _ => unfit(),
    }
}
