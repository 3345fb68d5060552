//! What a client may send is large: patches and owners work on it like on anything else. Work that grew with the square
//! of the size would make this take minutes.

#![allow(clippy::unwrap_used)]

use rkube_machinery::decode::decode;
use rkube_machinery::managed::{Reset, TableView, WriteContext, apply, track_update, unfold};
use rkube_machinery::patch::{merge_patch, strategic};
use rkube_machinery::{Map, Text, Type, TypeRef, Value, object};

const KEYS: i64 = 30_000;

fn config_map() -> (TypeRef, &'static Type) {
    let kind = TypeRef::find("io.k8s.api.core.v1.ConfigMap").unwrap();
    (kind, kind.get())
}

/// A document whose keys stand in no order.
fn document(prefix: &str) -> Value {
    let entry = |number: i64| (Text::from(format!("{prefix}{}", number * 7919 % KEYS)), Value::from(""));
    let data = Value::Object(Map::in_order((0..KEYS).map(entry).collect()));
    object! { "apiVersion": "v1", "kind": "ConfigMap", "metadata": object! { "name": "large" }, "data": data }
}

#[test]
fn patches_of_many_keys() {
    let (_, kind) = config_map();
    let original = decode(document("k"), kind).unwrap().value;
    for prefix in ["a", "k", "z"] {
        let count = if prefix == "k" { KEYS } else { 2 * KEYS } as usize;
        let mut merged = original.clone();
        merge_patch::apply(&document(prefix), &mut merged).unwrap();
        assert_eq!(merged.map("data").len(), count);
        let patched = strategic::apply(&document(prefix), &original, kind).unwrap();
        assert_eq!(patched.map("data").len(), count);
        assert!(patched == merged);
    }
    assert!(document("k").get("data") == original.get("data"));
}

#[test]
fn owners_of_many_keys() {
    let (kind, schema) = config_map();
    let context = |manager| WriteContext {
        manager,
        api_version: "v1",
        kind: "ConfigMap",
        subresource: "",
        time: "2020-01-01T00:00:00Z",
    };
    let mut live = decode(document("k"), schema).unwrap().value;
    let view = TableView::of(kind);
    track_update(&Value::Null, &mut live, view, &context("a"), Reset::Nothing, None);
    for (manager, prefix) in [("b", "m"), ("b", "m"), ("c", "k"), ("b", "z")] {
        let config = document(prefix);
        let applied = apply(&live, &config, view, &context(manager), true, Reset::Nothing, None);
        live = applied.unwrap();
    }
    let mut new = live.clone();
    new.set("data", document("y").get("data").clone());
    track_update(&live, &mut new, view, &context("d"), Reset::Nothing, None);
    unfold(&mut new);
    // All keys were replaced: they are the last writer's alone.
    let owned = |manager: &str| {
        let owners = new.get("metadata").list("managedFields").iter();
        owners
            .filter(|owner| owner.str("manager") == manager)
            .map(|owner| owner.at(&["fieldsV1", "f:data"]).as_map().len())
            .sum::<usize>()
    };
    assert_eq!((owned("a"), owned("b"), owned("c")), (0, 0, 0));
    assert_eq!(owned("d"), KEYS as usize);
}
