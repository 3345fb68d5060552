//! A few fields of an object, without a tree of the rest.

use super::{Scan, parse};
use crate::value::{Map, Text, Value};

/// An object with nothing but what stands at these paths, in the order of its text; None where that is not well-formed as
/// far as it is read. Fields are compared as they are written: one with escapes in its name is not found.
pub fn parse_parts<P: AsRef<str>>(object: &[u8], paths: &[&[P]]) -> Option<Value> {
    parts(&mut Scan::new(object), paths)
}

fn parts<P: AsRef<str>>(scan: &mut Scan<'_>, paths: &[&[P]]) -> Option<Value> {
    let mut found = Vec::new();
    scan.open(b'{')?;
    while let Some(field) = scan.field()? {
        let below: Vec<&[P]> = paths.iter().filter_map(|path| below(path, field)).collect();
        if below.is_empty() {
            scan.skip()?;
            continue;
        }
        let text = scan.value()?;
        let value = match text.first()? {
            b'{' if below.iter().all(|path| !path.is_empty()) => parts(&mut Scan::new(text), &below)?,
            // A path that goes on has nothing in what is no object.
            _ => parse(text).ok()?,
        };
        found.push((Text::from(std::str::from_utf8(field).ok()?), value));
    }
    Some(Value::Object(Map::in_order(found)))
}

/// What is left of a path below this field, if it goes through it.
fn below<'a, P: AsRef<str>>(path: &'a [P], field: &[u8]) -> Option<&'a [P]> {
    let (first, rest) = path.split_first()?;
    (first.as_ref().as_bytes() == field).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_string;

    fn read(text: &str, paths: &[&[&str]]) -> Option<String> {
        parse_parts(text.as_bytes(), paths).as_ref().map(to_string)
    }

    #[test]
    fn only_what_is_asked_for_is_there() {
        let text = r#"{"kind":"K","metadata":{"name":"n","labels":{"a":"b"},"uid":"u"},"spec":{"replicas":3,"selector":{"x":[{"y":1}]}},"status":{}}"#;
        let cases: &[(&[&[&str]], &str)] = &[
            (&[], "{}"),
            (&[&[]], "{}"),
            (&[&["kind"]], r#"{"kind":"K"}"#),
            (&[&["metadata", "uid"], &["metadata", "name"]], r#"{"metadata":{"name":"n","uid":"u"}}"#),
            (&[&["spec", "selector"], &["spec", "selector", "x"]], r#"{"spec":{"selector":{"x":[{"y":1}]}}}"#),
            (&[&["status", "replicas"], &["spec", "replicas"]], r#"{"spec":{"replicas":3},"status":{}}"#),
            (&[&["nothing", "here"], &["spec", "nothing"]], r#"{"spec":{}}"#),
        ];
        for (paths, wanted) in cases {
            assert_eq!(read(text, paths).as_deref(), Some(*wanted), "{paths:?}");
        }
    }

    #[test]
    fn what_stands_in_the_way_of_a_path_stays() {
        assert_eq!(read(r#"{"a":[{"b":1}]}"#, &[&["a", "b"]]).as_deref(), Some(r#"{"a":[{"b":1}]}"#));
        assert_eq!(read(r#"{"a":null}"#, &[&["a", "b"]]).as_deref(), Some(r#"{"a":null}"#));
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let text = r#"{"a":{"b":[1,"x"]},"c":{}}"#;
        assert_eq!(read(text, &[&["a", "b"]]).as_deref(), Some(r#"{"a":{"b":[1,"x"]}}"#));
        for end in 0..text.len() {
            assert_eq!(read(&text[..end], &[&["a", "b"]]), None, "{end}");
        }
    }
}
