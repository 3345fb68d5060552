//! Definitions of custom resources and objects of them, of a given number of fields and CEL rules.

use bytes::Bytes;
use serde_json::{Map, Value, json};

pub const GROUP: &str = "bench.example.com";

/// What a definition is like.
#[derive(Clone, Copy)]
pub struct Shape {
    pub fields: usize,
    /// At most as many as [`RULES`] has.
    pub rules: usize,
}

/// On fields that every definition of ten fields has.
const RULES: &[&str] = &[
    "self.integer1 <= self.integer6",
    "self.text0.startsWith('v') && size(self.text5) > 2",
    "self.items3.all(item, size(item) < 60)",
    "!self.flag2 || self.integer1 > 0",
    "self.choice4 in ['one', 'two'] || self.choice4 == self.choice9",
];

/// The definition of `plural`, whose kind is that with a capital letter.
pub fn definition(plural: &str, shape: Shape) -> Bytes {
    let properties: Map<String, Value> = (0..shape.fields).map(field).collect();
    let rules: Vec<Value> = RULES.iter().take(shape.rules).map(|rule| json!({"rule": rule})).collect();
    let mut spec = json!({"type": "object", "required": ["text0", "integer1"], "properties": properties});
    if !rules.is_empty() {
        spec["x-kubernetes-validations"] = rules.into();
    }
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": kind(plural), "listKind": format!("{}List", kind(plural))},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
    .to_string()
    .into()
}

/// An object of [`definition`] that its rules like, with all of its fields.
pub fn object(plural: &str, name: &str, shape: Shape) -> Bytes {
    let spec: Map<String, Value> = (0..shape.fields).map(value).collect();
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind(plural),
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "spec": spec,
    })
    .to_string()
    .into()
}

/// Where objects of `plural` are.
pub fn path(namespace: &str, plural: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/{plural}")
}

fn kind(plural: &str) -> String {
    let mut letters = plural.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

fn field(index: usize) -> (String, Value) {
    let schema = match index % 5 {
        0 => json!({"type": "string", "maxLength": 64, "description": "a text that people read"}),
        1 => json!({"type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000}),
        2 => json!({"type": "boolean"}),
        3 => json!({"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 64}}),
        _ => json!({"type": "string", "enum": ["one", "two", "three"], "maxLength": 8}),
    };
    (name(index), schema)
}

fn value(index: usize) -> (String, Value) {
    let value = match index % 5 {
        0 => json!(format!("value-of-the-text-{index}")),
        1 => json!(index),
        2 => json!(true),
        3 => json!([format!("item-{index}"), "another-item"]),
        _ => json!("two"),
    };
    (name(index), value)
}

fn name(index: usize) -> String {
    let word = ["text", "integer", "flag", "items", "choice"][index % 5];
    format!("{word}{index}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rkube_kinds::custom::Definition;
    use rkube_machinery::json;

    #[test]
    fn objects_are_what_definitions_ask_for() {
        for shape in [Shape { fields: 30, rules: 2 }, Shape { fields: 100, rules: 5 }] {
            let bytes = definition("widgets", shape);
            let definition = crate::validation::accepted(&bytes).unwrap();
            let kind = Definition::read(&definition).unwrap().stored;
            assert_eq!(kind.resource, "widgets");
            let object = json::parse(&object("widgets", "one", shape)).unwrap();
            let errors = kind.validate_create(&crate::validation::placed(object));
            assert!(errors.is_empty(), "{errors:?}");
        }
    }
}
