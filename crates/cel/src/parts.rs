//! Parts of values, by key or index.

use crate::functions::operators::key_text;
use crate::functions::{EvalError, Outcome, no_overload};
use crate::value::Value;

/// What is found where an optional has nothing.
pub fn absent(test: bool) -> Outcome<'static> {
    Ok(if test { Value::Bool(false) } else { Value::Optional(None) })
}

/// What is at this key or index. Where it need not be there, there is none instead of an error.
pub fn part<'a>(value: &Value<'a>, key: &Value<'_>, if_present: bool) -> Result<Option<Value<'a>>, EvalError> {
    let found = match value {
        Value::Map(map) => map.get(key).cloned(),
        Value::Object(object) => match key {
            Value::String(name) => object.fields.get(name).cloned(),
            _ => None,
        },
        Value::List(list) => {
            let index = index(key)?;
            let found = usize::try_from(index).ok().and_then(|index| list.items.get(index)).cloned();
            if found.is_none() && !if_present {
                return Err(EvalError::Failed(format!("index out of bounds: {index}")));
            }
            found
        }
        Value::View(view) if view.is_list() => {
            let index = index(key)?;
            let found = usize::try_from(index).ok().and_then(|index| view.item(index)).transpose()?;
            if found.is_none() && !if_present {
                return Err(EvalError::Failed(format!("index out of bounds: {index}")));
            }
            found
        }
        Value::View(view) => match key {
            Value::String(name) => view.find(name)?,
            _ => return no_overload().map(Some),
        },
        _ => None,
    };
    match found {
        None if !if_present => Err(EvalError::Failed(format!("no such key: {}", key_text(key)))),
        found => Ok(found),
    }
}

fn index(key: &Value<'_>) -> Result<i64, EvalError> {
    match key {
        Value::Int(index) => Ok(*index),
        Value::Uint(index) => Ok(i64::try_from(*index).unwrap_or(i64::MAX)),
        Value::Double(index) if index.fract() == 0.0 => Ok(*index as i64),
        other => Err(EvalError::Failed(format!("unsupported index type '{}' in list", other.type_of().name()))),
    }
}

/// The type as messages about folds name it.
pub fn native_name(value: &Value<'_>) -> String {
    let name = match value {
        Value::Null => "Null",
        Value::Bool(_) => "Bool",
        Value::Int(_) => "Int",
        Value::Uint(_) => "Uint",
        Value::Double(_) => "Double",
        Value::String(_) => "String",
        Value::Bytes(_) => "Bytes",
        Value::Timestamp(_) => "Timestamp",
        Value::Duration(_) => "Duration",
        Value::Optional(_) => return "*types.Optional".to_owned(),
        other => return other.type_of().name().to_owned(),
    };
    format!("types.{name}")
}
