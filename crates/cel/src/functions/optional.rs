//! Values that may be absent.

use super::{Function, failed, unfit};
use crate::value::Value;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "optional.of" => |arguments| Ok(Value::some(arguments[0].clone())),
        "optional.ofNonZeroValue" => |arguments| match arguments[0].is_zero() {
            true => Ok(Value::Optional(None)),
            false => Ok(Value::some(arguments[0].clone())),
        },
        "optional.none" => |_| Ok(Value::Optional(None)),
        "hasValue" => |arguments| match &arguments[0] {
            Value::Optional(inner) => Ok(Value::Bool(inner.is_some())),
            _ => unfit(),
        },
        "value" => |arguments| match &arguments[0] {
            Value::Optional(Some(inner)) => Ok(inner.as_ref().clone()),
            Value::Optional(None) => failed("optional.none() dereference"),
            _ => unfit(),
        },
        "optional.unwrap" | "unwrapOpt" => |arguments| {
            let Value::List(list) = &arguments[0] else { return unfit() };
            let mut values = Vec::new();
            for item in list.items.iter() {
                match item {
                    Value::Optional(Some(inner)) => values.push(inner.as_ref().clone()),
                    Value::Optional(None) => {}
                    _ => return unfit(),
                }
            }
            Ok(Value::list(values))
        },
        "first" => |arguments| match &arguments[0] {
            Value::List(list) => Ok(Value::Optional(list.items.first().cloned().map(Into::into))),
            _ => unfit(),
        },
        "last" => |arguments| match &arguments[0] {
            Value::List(list) => Ok(Value::Optional(list.items.last().cloned().map(Into::into))),
            _ => unfit(),
        },
        _ => return None,
    })
}
