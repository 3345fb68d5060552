//! The order in which custom resources are written: keys sorted at every level, nulls and empties kept.

use crate::decode::STRICT_ERRORS_MAX;
use crate::json::SyntaxError;
use crate::value::{Map, Value};

/// Sorts the keys at every level. Of a repeated key the last value stays.
pub fn sort(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if !map.is_sorted() {
                *map = Map::sorted(std::mem::take(map).into_entries());
            }
            map.iter_mut().for_each(|(_, value)| sort(value));
        }
        Value::Array(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}

/// Makes numbers of those that were kept as they were sent. What no float can hold is refused.
pub fn read_numbers(value: &mut Value) -> Result<(), SyntaxError> {
    match value {
        Value::Written(text) if !text.starts_with('{') => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => *value = Value::Float(number),
            _ => return Err(SyntaxError::Range(text.to_string())),
        },
        Value::Object(map) => map.iter_mut().try_for_each(|(_, value)| read_numbers(value))?,
        Value::Array(items) => items.iter_mut().try_for_each(read_numbers)?,
        _ => {}
    }
    Ok(())
}

/// The paths of keys that are there more than once, in the order of the document, each once: [`sort`] drops all but
/// the last value of each. No more than [`STRICT_ERRORS_MAX`] are named.
pub fn repeated_keys(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    look(value, &mut String::new(), &mut found);
    found
}

fn look(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            let sorted = map.is_sorted();
            let mut seen = std::collections::HashSet::new();
            for (name, value) in map.iter() {
                if found.len() >= STRICT_ERRORS_MAX {
                    return;
                }
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                if !sorted && !seen.insert(name) && !found.contains(path) {
                    found.push(path.clone());
                }
                look(value, path, found);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                look(item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn numbers_are_what_they_are() {
        let mut value = json::parse_exact(br#"{"a":[1.50,1.0,7],"b":{"c":-2e3}}"#).unwrap();
        read_numbers(&mut value).unwrap();
        let list = vec![Value::Float(1.5), Value::Float(1.0), Value::Int(7)];
        assert_eq!((value.list("a"), value.get("b").get("c")), (list.as_slice(), &Value::Float(-2000.0)));
        let error = read_numbers(&mut json::parse_exact(b"[1e400]").unwrap()).unwrap_err().to_string();
        assert_eq!(error, "json: cannot unmarshal number 1e400 into Go value of type float64");
    }

    #[test]
    fn keys_are_sorted_at_every_level() {
        let mut value = json::parse(br#"{"b":{"z":null,"y":{}},"a":[{"d":1,"c":[]}],"b":{"x":1,"w":2}}"#).unwrap();
        assert_eq!(repeated_keys(&value), ["b"]);
        sort(&mut value);
        assert_eq!(json::to_string(&value), r#"{"a":[{"c":[],"d":1}],"b":{"w":2,"x":1}}"#);
        assert_eq!(repeated_keys(&value), Vec::<String>::new());
        let nested = json::parse(br#"{"a":{"b":[{"c":1,"c":2,"c":3}]}}"#).unwrap();
        assert_eq!(repeated_keys(&nested), ["a.b[0].c"]);
    }
}
