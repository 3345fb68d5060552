//! Values for property tests: few keys, so that documents and patches meet.

use proptest::prelude::*;

use crate::value::{Map, Text, Value};

pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-3_i64..3).prop_map(Value::Int),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key(), inner, 0..4).prop_map(|entries| Value::Object(map(entries))),
        ]
    })
}

pub(crate) fn any_object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(key(), any_value(), 0..4).prop_map(|entries| Value::Object(map(entries)))
}

fn key() -> impl Strategy<Value = String> {
    let known = [
        "a",
        "b",
        "name",
        "metadata",
        "finalizers",
        "labels",
        "spec",
        "containers",
        "env",
        "volumes",
        "ports",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
    ];
    prop::sample::select(known.to_vec()).prop_map(str::to_owned)
}

fn map(entries: std::collections::BTreeMap<String, Value>) -> Map {
    entries.into_iter().map(|(key, value)| (Text::from(key), value)).collect()
}
