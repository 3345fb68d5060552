//! Setting what a schema says of fields that are not given.

use super::object_meta::Invalid;
use super::prune::{Task, Walk};
use super::trail::Trail;
use super::{AdditionalProperties, Cursor, Structural};
use crate::short_text;
use crate::value::{Map, Text, Value};

impl Structural {
    /// Sets the defaults of fields that are absent, or null and may not be. Doing so again changes nothing.
    pub fn set_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => self.default_map(map),
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for item in items {
                    schema.default_null(item);
                    schema.set_defaults(item);
                }
            }
            _ => {}
        }
    }

    fn default_map(&self, map: &mut Map) {
        for (name, schema) in &self.properties {
            let Some(default) = &schema.default else { continue };
            match map.get_mut(name) {
                Some(given) if given.is_null() && !schema.nullable => *given = (**default).clone(),
                Some(_) => {}
                None => map.insert(name, (**default).clone()),
            }
        }
        let of_values = self.map_values();
        let mut properties = Cursor::new(self);
        for (name, value) in map.iter_mut() {
            // Nothing has a default inside of a scalar, and few maps have entries that are null.
            if !matches!(value, Value::Object(_) | Value::Array(_) | Value::Null) {
                continue;
            }
            if let Some(schema) = properties.find(name) {
                schema.set_defaults(value);
            } else if let Some(schema) = of_values {
                schema.default_null(value);
                schema.set_defaults(value);
            }
        }
    }

    fn default_null(&self, value: &mut Value) {
        if let Some(default) = self.default.as_deref().filter(|_| value.is_null() && !self.nullable) {
            *value = default.clone();
        }
    }

    /// Takes out of the defaults what the schema, or the metadata of objects, does not have. Done once, before the
    /// schema is used.
    pub fn prune_defaults(&mut self) {
        let mut found = Vec::new();
        collect(self, &mut Vec::new(), &mut found);
        for (steps, default) in found {
            let pruned = self.pruned_in_place(&steps, default);
            if let Some(schema) = at(self, &steps) {
                schema.default = pruned.map(Box::new);
            }
        }
    }

    /// A default as it is after the whole object around it was pruned: only the whole object tells what is metadata.
    fn pruned_in_place(&self, steps: &[Step], default: Value) -> Option<Value> {
        let mut object = steps.iter().rev().fold(default, |inner, step| match step {
            Step::Property(name) => Value::Object(Map::in_order(vec![(name.clone(), inner)])),
            Step::Values => Value::Object(Map::in_order(vec![("*".into(), inner)])),
            Step::Items => Value::Array(vec![inner]),
        });
        let task = Task { prunes: true, nulls: false, metadata: Some(Invalid::Drop), root_metadata: true };
        let keep = self.extensions.preserve_unknown_fields;
        // Fields of a wrong type are dropped: nothing is refused.
        let _ = Walk::new(task).node(&mut object, Some(self), true, keep, &Trail::ROOT);
        steps.iter().try_fold(object, |outer, step| match (step, outer) {
            (Step::Property(name), mut outer) => outer.remove(name),
            (Step::Values, mut outer) => outer.remove("*"),
            (Step::Items, Value::Array(items)) => items.into_iter().next(),
            (Step::Items, _) => None,
        })
    }
}

/// A step from a schema to one below it.
#[derive(Clone)]
enum Step {
    Property(Text),
    Values,
    Items,
}

fn collect(schema: &Structural, steps: &mut Vec<Step>, found: &mut Vec<(Vec<Step>, Value)>) {
    if let Some(default) = &schema.default {
        found.push((steps.clone(), (**default).clone()));
    }
    let mut below = |step: Step, schema: &Structural| {
        steps.push(step);
        collect(schema, steps, found);
        steps.pop();
    };
    if let Some(values) = schema.map_values() {
        below(Step::Values, values);
    }
    if let Some(items) = &schema.items {
        below(Step::Items, items);
    }
    for (name, property) in &schema.properties {
        below(Step::Property(name.clone()), property);
    }
}

fn at<'a>(schema: &'a mut Structural, steps: &[Step]) -> Option<&'a mut Structural> {
    steps.iter().try_fold(schema, |schema, step| match step {
        Step::Items => schema.items.as_deref_mut(),
        Step::Values => match &mut schema.additional_properties {
            AdditionalProperties::Schema(values) => Some(&mut **values),
            _ => None,
        },
        Step::Property(name) => {
            let found = schema.properties.binary_search_by(|(candidate, _)| short_text::order(candidate, name));
            found.ok().map(|index| &mut schema.properties[index].1)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    fn defaulted(schema: &str, object: &str) -> String {
        let mut object = value(object);
        Structural::read(&value(schema)).unwrap().set_defaults(&mut object);
        crate::schema::structural::sort(&mut object);
        json::to_string(&object)
    }

    #[test]
    fn defaults_are_set_where_nothing_is_given() {
        let schema = r#"{"type":"object","properties":{
            "a":{"type":"string","default":"A"},
            "b":{"type":"string","default":"B","nullable":true},
            "c":{"type":"object","default":{},"properties":{"d":{"type":"integer","default":0}}},
            "e":{"type":"object","properties":{"f":{"type":"boolean","default":false}}},
            "l":{"type":"array","items":{"type":"string","default":"I"}},
            "m":{"type":"object","additionalProperties":{"type":"object","default":{"x":1},
                 "properties":{"y":{"type":"integer","default":2}}}}}}"#;
        let cases = [
            ("{}", r#"{"a":"A","b":"B","c":{"d":0}}"#),
            (r#"{"a":null,"b":null,"c":null}"#, r#"{"a":"A","b":null,"c":{"d":0}}"#),
            (r#"{"a":"","b":"x","c":{"d":7},"e":{}}"#, r#"{"a":"","b":"x","c":{"d":7},"e":{"f":false}}"#),
            (
                r#"{"a":"","b":"","c":{},"e":null,"l":[null,"x"]}"#,
                r#"{"a":"","b":"","c":{"d":0},"e":null,"l":["I","x"]}"#,
            ),
            (
                r#"{"a":"","b":"","c":{},"m":{"p":null,"q":{},"r":5}}"#,
                r#"{"a":"","b":"","c":{"d":0},"m":{"p":{"x":1,"y":2},"q":{"y":2},"r":5}}"#,
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(defaulted(schema, object), expected, "{object}");
        }
    }

    #[test]
    fn defaults_are_pruned_in_their_place() {
        let mut schema = Structural::read(&value(
            r#"{"type":"object","properties":{
                "a":{"type":"object","default":{"x":1,"y":{"z":1}},"properties":{"x":{"type":"integer"}}},
                "pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,
                       "default":{"kind":1,"metadata":{"name":"n","odd":1},"spec":{"q":1}}},
                "l":{"type":"array","items":{"type":"object","default":{"u":1}}},
                "m":{"type":"object","additionalProperties":{"type":"object","default":{"k":{}},
                     "properties":{"k":{"type":"object"}}}}}}"#,
        ))
        .unwrap();
        schema.prune_defaults();
        let text = |schema: &Structural| schema.default.as_deref().map(json::to_string);
        assert_eq!(text(schema.property("a").unwrap()).unwrap(), r#"{"x":1}"#);
        assert_eq!(text(schema.property("pod").unwrap()).unwrap(), r#"{"metadata":{"name":"n"},"spec":{"q":1}}"#);
        assert_eq!(text(schema.property("l").unwrap().items.as_ref().unwrap()).unwrap(), "{}");
        assert_eq!(text(schema.property("m").unwrap().map_values().unwrap()).unwrap(), r#"{"k":{}}"#);
    }
}
