//! A structural schema as server-side apply sees it.
//!
//! What the schema says nothing of is taken by the form that values have: maps entry by entry, lists as a whole. Where
//! unknown fields are kept, everything below does so, too. An object's own metadata, and that of objects embedded in it,
//! is that of the table type ObjectMeta.

use super::{AdditionalProperties, JsonType, Structural, object_meta};
use crate::managed::{Child, Form, List, Scalar, SchemaView, TableView};
use crate::schema::ListType;
use crate::value::{Text, Value, key};

/// A position in the schema of a custom resource.
#[derive(Clone, Copy)]
pub struct StructuralView<'a>(Position<'a>);

#[derive(Clone, Copy)]
enum Position<'a> {
    Schema {
        schema: &'a Structural,
        /// Whether here or above unknown fields are kept.
        preserving: bool,
        /// Whether this is a whole object, with metadata.
        object: bool,
    },
    /// In metadata, or where nothing is known.
    Table(TableView),
}

/// The keys of the one list in an object's metadata that has any: `ownerReferences`.
static METADATA_KEYS: [Text; 1] = [key("uid")];

impl<'a> StructuralView<'a> {
    /// The schema of a whole object; none: a version without one, in which everything is taken by its form.
    pub fn of(schema: Option<&'a Structural>) -> Self {
        schema.map_or(StructuralView(Position::Table(TableView::Deduced)), |schema| {
            StructuralView::below(schema, false, true)
        })
    }

    fn below(schema: &'a Structural, preserving: bool, object: bool) -> Self {
        StructuralView(Position::Schema {
            schema,
            preserving: preserving || schema.extensions.preserve_unknown_fields,
            object: object || schema.extensions.embedded_resource,
        })
    }
}

impl SchemaView for StructuralView<'_> {
    type Key = Text;

    fn form(self, value: &Value) -> Form {
        let schema = match self.0 {
            Position::Schema { schema, .. } => schema,
            Position::Table(view) => return view.form(value),
        };
        let map = Form::Map { atomic: schema.extensions.map_atomic == Some(true) };
        let list = Form::List(match schema.extensions.list_type {
            Some(ListType::Set) => List::Set,
            Some(ListType::Map) => List::Keyed,
            Some(ListType::Atomic) | None => List::Atomic,
        });
        match (schema.json_type, value) {
            (JsonType::Object, _) | (JsonType::Any, Value::Null | Value::Object(_)) => map,
            (JsonType::Array, _) | (JsonType::Any, Value::Array(_)) => list,
            (JsonType::Integer | JsonType::Number, _) => Form::Scalar(Scalar::Number),
            (JsonType::Boolean, _) => Form::Scalar(Scalar::Flag),
            (JsonType::String, _) if is_plain_text(schema) => Form::Scalar(Scalar::Text),
            (JsonType::String | JsonType::Any, _) => Form::Scalar(Scalar::Any),
        }
    }

    fn child(self, name: &str) -> Child<Self> {
        let (schema, preserving, object) = match self.0 {
            Position::Schema { schema, preserving, object } => (schema, preserving, object),
            Position::Table(view) => {
                return match view.child(name) {
                    Child::Declared(view) => Child::Declared(StructuralView(Position::Table(view))),
                    Child::Entry(view) => Child::Entry(StructuralView(Position::Table(view))),
                    Child::Unknown => Child::Unknown,
                };
            }
        };
        let table = |view| StructuralView(Position::Table(view));
        match name {
            "metadata" if object => return Child::Declared(table(TableView::Object(object_meta::object_meta()))),
            "apiVersion" | "kind" if object => return Child::Declared(table(TableView::TypeMeta)),
            _ => {}
        }
        if let Some(property) = schema.property(name) {
            return Child::Declared(StructuralView::below(property, preserving, false));
        }
        match &schema.additional_properties {
            AdditionalProperties::Schema(values) => Child::Entry(StructuralView::below(values, preserving, false)),
            AdditionalProperties::Allowed(true) => Child::Entry(table(TableView::Deduced)),
            AdditionalProperties::Allowed(false) => Child::Unknown,
            AdditionalProperties::Absent if preserving || is_free(schema, object) => {
                Child::Entry(table(TableView::Deduced))
            }
            AdditionalProperties::Absent => Child::Unknown,
        }
    }

    fn item(self) -> Self {
        match self.0 {
            Position::Schema { schema, preserving, .. } => match &schema.items {
                Some(items) => StructuralView::below(items, preserving, false),
                None => StructuralView(Position::Table(TableView::Opaque)),
            },
            Position::Table(view) => StructuralView(Position::Table(view.item())),
        }
    }

    fn keys(&self) -> &[Text] {
        match &self.0 {
            Position::Schema { schema, .. } => &schema.extensions.list_map_keys,
            Position::Table(view) if view.keys().is_empty() => &[],
            Position::Table(_) => &METADATA_KEYS,
        }
    }

    fn key_default(self, key: &str) -> Option<Value> {
        match self.0 {
            Position::Schema { schema, .. } => schema.property(key)?.default.as_deref().cloned(),
            Position::Table(view) => view.key_default(key),
        }
    }

    fn place(self, _: &str) -> Option<usize> {
        None
    }

    /// Nulls that may not be are gone before apply sees the object.
    fn drops_null(self) -> bool {
        false
    }

    fn zero(self) -> Value {
        Value::object()
    }

    fn owned(self) -> Option<&'static str> {
        match self.0 {
            Position::Schema { .. } => None,
            Position::Table(view) => view.owned(),
        }
    }

    fn is_deduced(self) -> bool {
        let (schema, preserving, object) = match self.0 {
            Position::Schema { schema, preserving, object } => (schema, preserving, object),
            Position::Table(view) => return view.is_deduced(),
        };
        let takes_anything = match &schema.additional_properties {
            AdditionalProperties::Schema(values) => match values.json_type {
                JsonType::Any => true,
                JsonType::String => !is_plain_text(values),
                _ => false,
            },
            AdditionalProperties::Allowed(allowed) => *allowed,
            AdditionalProperties::Absent => preserving || is_free(schema, object),
        };
        is_free(schema, object) && takes_anything
    }
}

/// Whether the schema names no fields.
fn is_free(schema: &Structural, object: bool) -> bool {
    schema.properties.is_empty() && !object
}

/// Strings of a format are, to apply, scalars of any kind.
fn is_plain_text(schema: &Structural) -> bool {
    let format = schema.validation.as_ref().map_or("", |validation| validation.format.as_str());
    matches!(format, "" | "byte")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::{self, Reset, WriteContext};
    use crate::schema::Shape;
    use crate::{json, object};

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "spec":{"type":"object","properties":{
            "text":{"type":"string"},"when":{"type":"string","format":"date-time"},
            "count":{"type":"integer"},"port":{"x-kubernetes-int-or-string":true},
            "plain":{"type":"array","items":{"type":"string"}},
            "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
            "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name","port"],
                     "items":{"type":"object","properties":{"name":{"type":"string"},
                              "port":{"type":"integer","default":80},"value":{"type":"string"}}}},
            "map":{"type":"object","additionalProperties":{"type":"string"}},
            "whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
            "open":{"type":"object"},
            "free":{"x-kubernetes-preserve-unknown-fields":true,"type":"object",
                    "properties":{"known":{"type":"object","properties":{"a":{"type":"string"}}}}},
            "pod":{"type":"object","x-kubernetes-embedded-resource":true,
                   "x-kubernetes-preserve-unknown-fields":true}}}}}"#;

    fn schema() -> Structural {
        Structural::read(&json::parse(SCHEMA.as_bytes()).unwrap()).unwrap()
    }

    fn owned(spec: &str) -> String {
        let schema = schema();
        let mut new = json::parse(
            format!(r#"{{"apiVersion":"e.x/v1","kind":"K","metadata":{{"name":"n"}},"spec":{spec}}}"#).as_bytes(),
        )
        .unwrap();
        let context = WriteContext {
            manager: "m",
            api_version: "e.x/v1",
            kind: "K",
            subresource: "",
            time: "2026-01-01T00:00:00Z",
        };
        managed::track_update(
            &Value::Null,
            &mut new,
            StructuralView::of(Some(&schema)),
            &context,
            Reset::Nothing,
            None,
        );
        managed::unfold(&mut new);
        let entry = &new.get("metadata").list("managedFields")[0];
        json::to_string(entry.get("fieldsV1").get("f:spec"))
    }

    #[test]
    fn every_form_is_owned_as_upstream_owns_it() {
        let cases = [
            (
                r#"{"text":"a","when":"b","count":1,"port":"x"}"#,
                r#"{".":{},"f:count":{},"f:port":{},"f:text":{},"f:when":{}}"#,
            ),
            (r#"{"plain":["a"],"set":["b"]}"#, r#"{".":{},"f:plain":{},"f:set":{".":{},"v:\"b\"":{}}}"#),
            (
                r#"{"keyed":[{"name":"a","value":"v"}]}"#,
                r#"{".":{},"f:keyed":{".":{},"k:{\"name\":\"a\",\"port\":80}":{".":{},"f:name":{},"f:value":{}}}}"#,
            ),
            (r#"{"map":{"k":"v"},"whole":{"k":"v"}}"#, r#"{".":{},"f:map":{".":{},"f:k":{}},"f:whole":{}}"#),
            (r#"{"open":{"a":{"b":[1]}}}"#, r#"{".":{},"f:open":{".":{},"f:a":{".":{},"f:b":{}}}}"#),
            (
                r#"{"free":{"u":{"v":1},"known":{"a":"x","more":{"y":1}}}}"#,
                r#"{".":{},"f:free":{".":{},"f:known":{".":{},"f:a":{},"f:more":{".":{},"f:y":{}}},"f:u":{".":{},"f:v":{}}}}"#,
            ),
            (
                r#"{"pod":{"kind":"Pod","metadata":{"name":"p","ownerReferences":[{"uid":"u","name":"o"}]},"spec":{"x":[]}}}"#,
                r#"{".":{},"f:pod":{".":{},"f:kind":{},"f:metadata":{".":{},"f:name":{},"f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},"f:spec":{".":{},"f:x":{}}}}"#,
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(owned(spec), expected, "{spec}");
        }
    }

    #[test]
    fn applied_configurations_must_follow_the_schema() {
        let schema = schema();
        let live = object! { "apiVersion": "e.x/v1", "kind": "K", "metadata": object! { "name": "n", "uid": "u" } };
        let context = WriteContext {
            manager: "m",
            api_version: "e.x/v1",
            kind: "K",
            subresource: "",
            time: "2026-01-01T00:00:00Z",
        };
        let mut config = live.clone();
        config.set("spec", object! { "text": 5, "none": 1 });
        let view = StructuralView::of(Some(&schema));
        let error = managed::apply(&live, &config, view, &context, false, Reset::Nothing, None).unwrap_err();
        assert!(error.to_string().contains(".spec.none: field not declared in schema"), "{error}");
        assert!(error.to_string().contains(".spec.text: expected string"), "{error}");
    }

    #[test]
    fn metadata_has_one_list_with_keys() {
        let keyed = object_meta::object_meta().json_fields().filter(|field| !field.list_keys.is_empty());
        let keys: Vec<_> = keyed.map(|field| (field.name, field.list_keys)).collect();
        assert_eq!(keys, [("ownerReferences", &["uid"][..])]);
        // And none lies deeper.
        for field in object_meta::object_meta().json_fields() {
            if let Shape::List(Shape::Struct(kind)) = field.shape {
                assert!(kind.get().json_fields().all(|field| field.list_keys.is_empty()));
            }
        }
    }
}
