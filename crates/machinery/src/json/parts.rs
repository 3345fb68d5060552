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
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::json::to_string;
    use crate::patch::generators::any_object;

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

    /// The long way: a tree of all, cut down to the paths.
    fn cut(value: &Value, paths: &[&[&str]]) -> Value {
        let Value::Object(fields) = value else { return value.clone() };
        if paths.iter().any(|path| path.is_empty()) {
            return value.clone();
        }
        let mut kept = Value::object();
        for (field, value) in fields.iter() {
            let below: Vec<&[&str]> = paths.iter().filter(|path| path[0] == field).map(|path| &path[1..]).collect();
            if !below.is_empty() {
                kept.set(field, cut(value, &below));
            }
        }
        kept
    }

    proptest! {
        #[test]
        fn parts_are_what_the_whole_has_there(
            object in any_object(),
            paths in vec(vec(select(vec!["a", "b", "name", "metadata", "labels", "spec"]), 1..4), 0..4),
        ) {
            let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
            let found = parse_parts(to_string(&object).as_bytes(), &paths).unwrap();
            prop_assert_eq!(to_string(&found), to_string(&cut(&object, &paths)));
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
