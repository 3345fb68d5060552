//! Whether an applied configuration follows the schema, and the words for where it does not.

use std::collections::BTreeSet;

use super::compare::item_element;
use super::element::PathElement;
use super::view::{Child, Form, List, Scalar, SchemaView};
use crate::field::quote;
use crate::patch::go_text::{self, plain};
use crate::value::{Map, Value};

/// Says everything that is wrong with the value, in one text; none where it follows the schema.
pub(super) fn validate<S: SchemaView>(value: &Value, schema: S) -> Result<(), String> {
    let mut problems = Vec::new();
    check(value, schema, &mut String::new(), &mut problems);
    match &problems[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(many.iter().fold("errors:".to_owned(), |text, problem| text + "\n  " + problem)),
    }
}

fn check<S: SchemaView>(value: &Value, schema: S, path: &mut String, problems: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    match (schema.form(value), value) {
        (Form::Scalar(kind), _) => {
            if let Some(problem) = scalar_problem(kind, value) {
                problems.push(at(path, &problem));
            }
        }
        (Form::Map { .. }, Value::Object(map)) => check_map(map, schema, path, problems),
        (Form::Map { .. }, _) => problems.push(at(path, &format!("expected map, got &{{{}}}", plain(value)))),
        (Form::List(kind), Value::Array(items)) => check_list(kind, items, schema, path, problems),
        (Form::List(_), _) => problems.push(at(path, &format!("expected list, got &{{{}}}", plain(value)))),
    }
}

fn check_map<S: SchemaView>(map: &Map, schema: S, path: &mut String, problems: &mut Vec<String>) {
    for (name, value) in map.iter() {
        let length = path.len();
        PathElement::Field(name.clone()).describe(path);
        match schema.child(name) {
            Child::Declared(child) | Child::Entry(child) => check(value, child, path, problems),
            Child::Unknown => {
                problems.push(at(path, "field not declared in schema"));
                path.truncate(length);
                return;
            }
        }
        path.truncate(length);
    }
}

fn check_list<S: SchemaView>(kind: List, items: &[Value], schema: S, path: &mut String, problems: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = match kind {
            List::Atomic => PathElement::Index(index as i64),
            List::Set | List::Keyed => match item_element(kind, schema, item) {
                Ok(element) => element,
                Err(error) => {
                    problems.push(at(path, &format!("element {index}: {error}")));
                    return;
                }
            },
        };
        let length = path.len();
        element.describe(path);
        if kind != List::Atomic && !seen.insert(element) {
            problems.push(at(&path[..length], &format!("duplicate entries for key {}", &path[length..])));
        }
        check(item, schema.item(), path, problems);
        path.truncate(length);
    }
}

fn at(path: &str, problem: &str) -> String {
    if path.is_empty() { problem.to_owned() } else { format!("{path}: {problem}") }
}

fn scalar_problem(kind: Scalar, value: &Value) -> Option<String> {
    let fits = match kind {
        Scalar::Number => matches!(value, Value::Int(_) | Value::Float(_)),
        Scalar::Text => matches!(value, Value::String(_)),
        Scalar::Flag => matches!(value, Value::Bool(_)),
        Scalar::Any => !matches!(value, Value::Array(_) | Value::Object(_) | Value::Null),
    };
    (!fits).then(|| match kind {
        Scalar::Number => format!("expected numeric (int or float), got {}", go_text::type_of(value)),
        Scalar::Text => format!("expected string, got &value.valueUnstructured{{Value:{}}}", literal(value)),
        Scalar::Flag => format!("expected boolean, got &{{{}}}", plain(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", plain(value)),
    })
}

/// The value as Go source has it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let mut entries: Vec<_> =
                map.iter().map(|(key, value)| format!("{}:{}", quote(key), literal(value))).collect();
            entries.sort();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        scalar => plain(scalar),
    }
}
