//! What holds for every structural schema and every object, tried with many of both.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rkube_machinery::field::Path;
use rkube_machinery::managed::{self, Reset, WriteContext};
use rkube_machinery::schema::structural::{Invalid, Structural, StructuralView, check, sort};
use rkube_machinery::{Map, Value, json, object};

const NAMES: [&str; 7] = ["a", "b", "c", "spec", "metadata", "kind", "apiVersion"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

/// Any JSON, with names that schemas have, too.
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..9i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        Just(Value::Float(1.5)),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..5).prop_map(object_of),
        ]
    })
}

fn object_of(entries: Vec<(&'static str, Value)>) -> Value {
    Value::Object(Map::sorted(entries.into_iter().map(|(name, value)| (name.into(), value)).collect()))
}

/// A schema that is structural, but for its root.
fn schema() -> impl Strategy<Value = Value> {
    let typed = |json_type: &'static str| object! { "type": json_type };
    let leaf = prop_oneof![
        Just(typed("string")),
        Just(typed("integer")),
        Just(object! { "x-kubernetes-int-or-string": true }),
        Just(object! { "x-kubernetes-preserve-unknown-fields": true }),
    ];
    let shape = leaf.prop_recursive(4, 30, 4, |inner| {
        let fields = prop::collection::vec((name(), inner.clone()), 0..4);
        let struct_of = (fields, any::<bool>(), any::<bool>()).prop_map(|(fields, keeps, embeds)| {
            let mut schema = object! { "type": "object", "properties": object_of(fields) };
            if keeps || embeds {
                schema.set("x-kubernetes-preserve-unknown-fields", true);
            }
            if embeds {
                schema.set("x-kubernetes-embedded-resource", true);
            }
            schema
        });
        let list = inner.clone().prop_map(|items| object! { "type": "array", "items": items });
        let map = inner.prop_map(|values| object! { "type": "object", "additionalProperties": values });
        prop_oneof![3 => struct_of, 1 => list, 1 => map]
    });
    (shape, prop::option::of(document()), any::<bool>()).prop_map(|(mut schema, default, nullable)| {
        if nullable {
            schema.set("nullable", true);
        }
        if let Some(default) = default {
            schema.set("default", default);
        }
        schema
    })
}

fn structural() -> impl Strategy<Value = Structural> {
    prop::collection::vec((prop::sample::select(&NAMES[..4]), schema()), 1..4).prop_map(|fields| {
        let root = object! { "type": "object", "properties": object_of(fields) };
        let mut schema = Structural::read(&root).unwrap();
        schema.prune_defaults();
        schema
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec((name(), document()), 0..5).prop_map(object_of)
}

proptest! {
    #[test]
    fn pruning_again_changes_nothing(schema in structural(), mut object in object()) {
        schema.prune(&mut object, true);
        let once = object.clone();
        prop_assert_eq!(schema.prune(&mut object, true), Vec::<String>::new());
        prop_assert_eq!(object, once);
    }

    #[test]
    fn defaulting_again_changes_nothing(schema in structural(), mut object in object()) {
        schema.set_defaults(&mut object);
        let once = object.clone();
        schema.set_defaults(&mut object);
        prop_assert_eq!(object, once);
    }

    #[test]
    fn defaults_bring_nothing_unknown(schema in structural(), mut object in object()) {
        schema.prune(&mut object, true);
        schema.set_defaults(&mut object);
        prop_assert_eq!(schema.prune(&mut object, true), Vec::<String>::new());
    }

    #[test]
    fn coercing_is_pruning_and_reading_metadata(schema in structural(), object in object()) {
        let mut coerced = object.clone();
        if schema.coerce(&mut coerced, Invalid::Drop).is_ok() {
            let once = coerced.clone();
            prop_assert_eq!(schema.coerce(&mut coerced, Invalid::Drop), Ok(Vec::new()));
            prop_assert_eq!(&coerced, &once);
            prop_assert_eq!(schema.prune(&mut coerced, true), Vec::<String>::new());
            let mut nulls = coerced.clone();
            schema.prune_nulls(&mut nulls);
            prop_assert_eq!(nulls, coerced);
        }
    }

    #[test]
    fn no_document_breaks_reading_and_checking(document in document()) {
        let _ = Structural::read(&document);
        check(&document, Path::new("s"), &|_| None);
    }

    #[test]
    fn sorted_objects_are_written_in_order(mut object in document()) {
        sort(&mut object);
        let text = json::to_string(&object);
        let mut again = json::parse(text.as_bytes()).unwrap();
        sort(&mut again);
        prop_assert_eq!(json::to_string(&again), text);
    }

    #[test]
    fn what_a_writer_owns_covers_what_it_wrote(schema in structural(), mut object in object()) {
        let context = WriteContext { manager: "m", api_version: "v", kind: "K", subresource: "", time: "2026-01-01T00:00:00Z" };
        if schema.coerce(&mut object, Invalid::Drop).is_ok() {
            schema.set_defaults(&mut object);
            let view = StructuralView::of(Some(&schema));
            managed::track_update(&Value::Null, &mut object, view, &context, Reset::Nothing, None);
            prop_assert!(managed::check(&object).is_ok());
        }
    }
}
