//! Values as Go's `fmt` prints them, for error texts that contain whole maps.

use std::fmt::Write;

use crate::field::go_float;
use crate::value::Value;

/// As `%v` prints it: `map[a:1 b:[x y]]`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    write(value, Verb::Plain, &mut out);
    out
}

/// As `%s` prints it: strings bare, everything else marked as no string, except null inside of something.
pub(super) fn as_string(value: &Value) -> String {
    if value.is_null() {
        return "%!s(<nil>)".to_owned();
    }
    let mut out = String::new();
    write(value, Verb::String, &mut out);
    out
}

/// The list as `%v` prints it.
pub(super) fn list(items: &[Value]) -> String {
    let mut out = String::new();
    write_list(items, Verb::Plain, &mut out);
    out
}

/// The Go type that the value decodes into, as `%s` prints it.
pub(super) fn type_name(value: &Value) -> &'static str {
    if value.is_null() { "%!s(<nil>)" } else { type_of(value) }
}

/// The Go type of a value in a tree without types.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => LIST_TYPE,
        Value::Object(_) | Value::Written(_) => MAP_TYPE,
    }
}

pub(super) const LIST_TYPE: &str = "[]interface {}";
pub(super) const MAP_TYPE: &str = "map[string]interface {}";

#[derive(Clone, Copy)]
enum Verb {
    Plain,
    String,
}

fn write(value: &Value, verb: Verb, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(items) => write_list(items, verb, out),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|left, right| left.0.cmp(right.0));
            out.push_str("map[");
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(value, verb, out);
            }
            out.push(']');
        }
        Value::Null => out.push_str("<nil>"),
        scalar => {
            let text = match scalar {
                Value::Float(number) => go_float(*number),
                Value::Bool(flag) => flag.to_string(),
                other => other.as_int().unwrap_or_default().to_string(),
            };
            match verb {
                Verb::Plain => out.push_str(&text),
                Verb::String => {
                    let _ = write!(out, "%!s({}={text})", type_name(scalar));
                }
            }
        }
    }
}

fn write_list(items: &[Value], verb: Verb, out: &mut String) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        write(item, verb, out);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn values_print_as_in_go() {
        let value = object! { "b": vec![Value::Null, true.into(), Value::Float(1.5)], "a": "x", "c": Value::object() };
        assert_eq!(plain(&value), "map[a:x b:[<nil> true 1.5] c:map[]]");
        assert_eq!(as_string(&value), "map[a:x b:[<nil> %!s(bool=true) %!s(float64=1.5)] c:map[]]");
        assert_eq!(as_string(&Value::Int(5)), "%!s(int64=5)");
        assert_eq!(plain(&Value::Float(1e21)), "1e+21");
        assert_eq!(plain(&Value::Float(1e-7)), "1e-07");
        assert_eq!(plain(&Value::Float(1e20)), "1e+20");
    }
}
