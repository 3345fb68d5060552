//! Pod specs as Go's API server holds them inside.
//!
//! Some messages show a whole struct: the diff of a forbidden pod update, a bad value that is not a scalar. They name
//! fields as Go does and list all of them, set or not. The same table says when two values mean the same: a list that
//! is empty and one that is absent, `1` and `1000m`.

use std::sync::OnceLock;

use rkube_machinery::{Map, Text, Value, json};

use super::amounts;

/// The types, in the order of `go_types.txt`.
struct Table {
    types: Vec<GoType>,
}

struct GoType {
    name: &'static str,
    fields: Vec<GoField>,
}

struct GoField {
    go_name: &'static str,
    name: String,
    shape: Shape,
}

enum Shape {
    String,
    Int,
    Bool,
    Quantity,
    Port,
    Plain,
    /// Anything; what is empty is not absent.
    Raw,
    Inline,
    Struct(&'static str),
    Pointer(Box<Shape>),
    List(Box<Shape>),
    Map(Box<Shape>),
}

/// The value of type `type_name` with Go's field names, all fields there.
pub(crate) fn go_form(type_name: &str, value: &Value) -> Value {
    table().struct_form(type_name, value)
}

/// The value of type `type_name` as an error message shows it.
pub(crate) fn go_json(type_name: &str, value: &Value) -> String {
    let mut out = String::new();
    write(&go_form(type_name, value), &mut out, None);
    out
}

/// The value of type `type_name` as indented JSON, which diffs are made of.
pub(crate) fn go_json_indented(type_name: &str, value: &Value) -> String {
    let mut out = String::new();
    write(&go_form(type_name, value), &mut out, Some(0));
    out
}

/// Whether two values of type `type_name` mean the same.
pub(crate) fn same(type_name: &str, left: &Value, right: &Value) -> bool {
    left == right || table().same_struct(type_name, left, right)
}

/// Pod specs that mean the same.
pub(crate) fn same_spec(left: &Value, right: &Value) -> bool {
    left == right || same("PodSpec", &internal_spec(left), &internal_spec(right))
}

/// The pod spec with the fields moved that Go keeps elsewhere.
pub(crate) fn internal_spec(spec: &Value) -> Value {
    let mut inner = spec.clone();
    for field in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        if let Some(value) = inner.remove(field) {
            inner.object_mut("securityContext").set(field, value);
        }
    }
    inner
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        Table::parse(concat!(
            include_str!("go_types.txt"),
            include_str!("../../storage/go_types.txt"),
            include_str!("../../resource/go_types.txt"),
            include_str!("../../apiextensions/custom_resource_definition/go_types.txt")
        ))
    })
}

impl Table {
    fn parse(text: &'static str) -> Table {
        let mut types: Vec<GoType> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            if !line.starts_with(' ') {
                types.push(GoType { name: words.next().unwrap_or_default(), fields: Vec::new() });
            }
            if let Some(current) = types.last_mut() {
                current.fields.extend(words.filter_map(GoField::parse));
            }
        }
        types.sort_by_key(|entry| entry.name);
        Table { types }
    }

    fn fields(&self, type_name: &str) -> &[GoField] {
        match self.types.binary_search_by_key(&type_name, |entry| entry.name) {
            Ok(index) => &self.types[index].fields,
            Err(_) => &[],
        }
    }

    fn struct_form(&self, type_name: &str, value: &Value) -> Value {
        let fields = self.fields(type_name);
        let mut entries: Vec<(Text, Value)> = Vec::with_capacity(fields.len());
        for field in fields {
            let value = value.get(&field.name);
            if matches!(field.shape, Shape::Inline) {
                let inner = without_empties(value);
                entries.extend(inner.as_map().iter().map(|(key, value)| (key.clone(), value.clone())));
            } else {
                entries.push((Text::new_static(field.go_name), self.form(&field.shape, value)));
            }
        }
        Value::Object(Map::in_order(entries))
    }

    fn form(&self, shape: &Shape, value: &Value) -> Value {
        match shape {
            Shape::String => Value::from(value.as_str()),
            Shape::Int => Value::Int(value.as_int().unwrap_or(0)),
            Shape::Bool => Value::Bool(value.as_bool().unwrap_or(false)),
            Shape::Quantity if value.is_null() => Value::from("0"),
            Shape::Port if value.is_null() => Value::Int(0),
            Shape::Plain => without_empties(value),
            Shape::Quantity | Shape::Port | Shape::Raw | Shape::Inline => value.clone(),
            Shape::Struct(name) => self.struct_form(name, value),
            Shape::Pointer(_) | Shape::List(_) | Shape::Map(_) if value.is_null() => Value::Null,
            Shape::Pointer(inner) => self.form(inner, value),
            Shape::List(inner) => value.items().iter().map(|item| self.form(inner, item)).collect::<Vec<_>>().into(),
            Shape::Map(inner) => {
                let entries = value.as_map().iter().map(|(key, item)| (key.clone(), self.form(inner, item)));
                Value::Object(Map::sorted(entries.collect()))
            }
        }
    }

    fn same_struct(&self, type_name: &str, left: &Value, right: &Value) -> bool {
        let same = |field: &GoField| self.same(&field.shape, left.get(&field.name), right.get(&field.name));
        self.fields(type_name).iter().all(same)
    }

    fn same(&self, shape: &Shape, left: &Value, right: &Value) -> bool {
        match shape {
            Shape::String => left.as_str() == right.as_str(),
            Shape::Int => left.as_int().unwrap_or(0) == right.as_int().unwrap_or(0),
            Shape::Bool => left.as_bool().unwrap_or(false) == right.as_bool().unwrap_or(false),
            Shape::Quantity => left == right || amounts::of(left) == amounts::of(right),
            Shape::Port | Shape::Plain | Shape::Inline => same_plain(left, right),
            Shape::Raw => left == right,
            Shape::Struct(name) => self.same_struct(name, left, right),
            Shape::Pointer(inner) => match (left.is_null(), right.is_null()) {
                (false, false) => self.same(inner, left, right),
                (left, right) => left == right,
            },
            Shape::List(inner) => {
                let (left, right) = (left.items(), right.items());
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.same(inner, left, right))
            }
            Shape::Map(inner) => {
                let (left, right) = (left.as_map(), right.as_map());
                left.len() == right.len()
                    && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| self.same(inner, left, right)))
            }
        }
    }
}

/// The value but for its empty lists and maps: Go leaves those out of types that are the API's own.
pub(crate) fn without_empties(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries = map.iter().map(|(key, item)| (key.clone(), without_empties(item)));
            let full = |item: &Value| !matches!(item, Value::Object(_) | Value::Array(_)) || !item.is_empty();
            Value::Object(Map::in_order(entries.filter(|(_, item)| full(item)).collect()))
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empties).collect()),
        other => other.clone(),
    }
}

/// Equal where empty and absent fields of objects do not matter.
pub(crate) fn same_plain(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let covers = |one: &Map, other: &Map| {
                one.iter().all(|(key, value)| match other.get(key) {
                    Some(found) => same_plain(value, found),
                    None => value.is_empty(),
                })
            };
            covers(left, right) && covers(right, left)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same_plain(left, right))
        }
        (left, right) => left == right || (left.is_empty() && right.is_empty()),
    }
}

impl GoField {
    fn parse(word: &'static str) -> Option<GoField> {
        let (name, shape) = word.split_once(':')?;
        let (go_name, name) = match name.split_once('=') {
            Some((go_name, name)) => (go_name, name.to_owned()),
            None => (name, name[..1].to_ascii_lowercase() + &name[1..]),
        };
        Some(GoField { go_name, name, shape: Shape::parse(shape) })
    }
}

impl Shape {
    fn parse(word: &'static str) -> Shape {
        if let Some(rest) = word.strip_prefix('*') {
            return Shape::Pointer(Box::new(Shape::parse(rest)));
        }
        if let Some(rest) = word.strip_prefix("[]") {
            return Shape::List(Box::new(Shape::parse(rest)));
        }
        if let Some(rest) = word.strip_prefix("{}") {
            return Shape::Map(Box::new(Shape::parse(rest)));
        }
        match word {
            "string" => Shape::String,
            "int" => Shape::Int,
            "bool" => Shape::Bool,
            "quantity" => Shape::Quantity,
            "port" => Shape::Port,
            "plain" => Shape::Plain,
            "raw" => Shape::Raw,
            "inline" => Shape::Inline,
            name => Shape::Struct(name),
        }
    }
}

/// JSON with Go's escapes for HTML; indented by one blank per level where a level is given.
fn write(value: &Value, out: &mut String, level: Option<usize>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let entries = map.iter().map(|(key, item)| (Some(key.as_str()), item));
            write_nested(entries, ['{', '}'], out, level);
        }
        Value::Array(items) if !items.is_empty() => {
            write_nested(items.iter().map(|item| (None, item)), ['[', ']'], out, level);
        }
        Value::String(text) => write_string(text, out),
        other => out.push_str(&json::to_string(other)),
    }
}

fn write_nested<'a>(
    entries: impl Iterator<Item = (Option<&'a str>, &'a Value)>,
    brackets: [char; 2],
    out: &mut String,
    level: Option<usize>,
) {
    let inner = level.map(|level| level + 1);
    let new_line = |out: &mut String, level: Option<usize>| {
        if let Some(level) = level {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', level));
        }
    };
    out.push(brackets[0]);
    for (index, (key, item)) in entries.enumerate() {
        if index > 0 {
            out.push(',');
        }
        new_line(out, inner);
        if let Some(key) = key {
            write_string(key, out);
            out.push_str(if level.is_some() { ": " } else { ":" });
        }
        write(item, out, inner);
    }
    new_line(out, level);
    out.push(brackets[1]);
}

fn write_string(text: &str, out: &mut String) {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    json::write_string(text, &mut bytes);
    for letter in String::from_utf8_lossy(&bytes).chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", letter as u32)),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rkube_machinery::object;

    #[test]
    fn all_types_are_known() {
        let names: Vec<_> = table().types.iter().map(|entry| entry.name).collect();
        fn inner(shape: &Shape) -> Option<&'static str> {
            match shape {
                Shape::Struct(name) => Some(name),
                Shape::Pointer(shape) | Shape::List(shape) | Shape::Map(shape) => inner(shape),
                _ => None,
            }
        }
        for field in table().types.iter().flat_map(|entry| &entry.fields) {
            if let Some(name) = inner(&field.shape) {
                assert!(names.contains(&name), "{name}");
            }
        }
    }

    #[test]
    fn structs_are_shown_whole() {
        let value = object! { "name": "a<b", "containerPort": 1 };
        assert_eq!(
            go_json("ContainerPort", &value),
            r#"{"Name":"a\u003cb","HostPort":0,"ContainerPort":1,"Protocol":"","HostIP":""}"#
        );
        assert_eq!(go_json_indented("PodSchedulingGate", &value), "{\n \"Name\": \"a\\u003cb\"\n}");
    }

    #[test]
    fn selectors_are_shown_without_what_is_empty() {
        let selector = object! { "matchLabels": Value::object(), "matchExpressions": Value::Array(Vec::new()) };
        let term = object! { "labelSelector": selector, "topologyKey": "" };
        assert!(go_json("PodAffinityTerm", &term).starts_with(r#"{"LabelSelector":{},"Namespaces":null,"#));
    }

    #[test]
    fn empty_and_absent_are_the_same() {
        let left = object! { "name": "a", "args": Value::Array(Vec::new()), "resources": Value::object() };
        let right = object! { "name": "a" };
        assert!(same("Container", &left, &right));
        let right = object! { "name": "a", "lifecycle": Value::object() };
        assert!(!same("Container", &left, &right));
        let left = object! { "hostNetwork": true, "securityContext": Value::object() };
        assert!(!same_spec(&left, &object! { "securityContext": Value::object() }));
    }
}
