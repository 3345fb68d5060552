//! Kubernetes' quantities, and comparisons that they share with versions.

use std::cmp::Ordering;
use std::sync::Arc;

use rkube_machinery::quantity::{Format, Quantity};

use super::{Function, Outcome, failed, unfit};
use crate::value::Value;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "quantity" => |arguments| match &arguments[0] {
            Value::String(text) => match Quantity::parse(text) {
                Ok(quantity) => Ok(Value::Quantity(Arc::new(quantity))),
                Err(error) => failed(error.to_string()),
            },
            _ => unfit(),
        },
        "isQuantity" => |arguments| match &arguments[0] {
            Value::String(text) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
            _ => unfit(),
        },
        "isInteger" => |arguments| with(arguments, |quantity| Ok(Value::Bool(quantity.as_integer().is_some()))),
        "asInteger" => |arguments| {
            with(arguments, |quantity| match quantity.as_integer() {
                Some(value) => Ok(Value::Int(value)),
                None => failed("cannot convert value to integer"),
            })
        },
        "asApproximateFloat" => |arguments| with(arguments, |quantity| Ok(Value::Double(quantity.as_f64()))),
        "sign" => |arguments| {
            with(arguments, |quantity| {
                Ok(Value::Int(match quantity {
                    zero if zero.is_zero() => 0,
                    negative if negative.is_negative() => -1,
                    _ => 1,
                }))
            })
        },
        "isGreaterThan" => |arguments| compared(arguments, |order| Value::Bool(order.is_gt())),
        "isLessThan" => |arguments| compared(arguments, |order| Value::Bool(order.is_lt())),
        "compareTo" => |arguments| compared(arguments, |order| Value::Int(order as i64)),
        "add" => |arguments| combined(arguments, Quantity::add),
        "sub" => |arguments| combined(arguments, Quantity::sub),
        _ => return None,
    })
}

fn with<'a>(arguments: &[Value<'a>], of: fn(&Quantity) -> Outcome<'static>) -> Outcome<'a> {
    match &arguments[0] {
        Value::Quantity(quantity) => of(quantity),
        _ => unfit(),
    }
}

fn compared<'a>(arguments: &[Value<'a>], of: fn(Ordering) -> Value<'static>) -> Outcome<'a> {
    match arguments {
        [Value::Quantity(one), Value::Quantity(other)] => Ok(of(one.cmp(other))),
        [Value::Semver(one), Value::Semver(other)] => Ok(of(one.precedence(other))),
        _ => unfit(),
    }
}

fn combined<'a>(arguments: &[Value<'a>], of: fn(&Quantity, &Quantity) -> Quantity) -> Outcome<'a> {
    let result = match arguments {
        [Value::Quantity(one), Value::Quantity(other)] => of(one, other),
        [Value::Quantity(one), Value::Int(other)] => of(one, &Quantity::new(*other, Format::DecimalExponent)),
        _ => return unfit(),
    };
    Ok(Value::Quantity(Arc::new(result)))
}
