//! What a client may send is large; no work on it grows with the square of its size.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // How long it takes is what is measured.

use std::time::{Duration, Instant};

use rkube_machinery::decode::decode;
use rkube_machinery::managed::{Reset, TableView, WriteContext, apply, track_update};
use rkube_machinery::patch::{merge_patch, strategic};
use rkube_machinery::{Map, Text, Type, TypeRef, Value, object};

const KEYS: i64 = 30_000;
/// Far more than it takes on a busy machine without optimisation, and a fraction of what a square would take.
const MAX: Duration = Duration::from_secs(20);

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

#[track_caller]
fn quickly<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    assert!(start.elapsed() < MAX, "{what} took {:?}", start.elapsed());
    result
}

#[test]
fn patches_of_many_keys() {
    let (_, kind) = config_map();
    let original = decode(document("k"), kind).unwrap().value;
    for prefix in ["a", "k", "z"] {
        let count = if prefix == "k" { KEYS } else { 2 * KEYS } as usize;
        let mut merged = original.clone();
        quickly("merge patch", || merge_patch::apply(&document(prefix), &mut merged)).unwrap();
        assert_eq!(merged.map("data").len(), count);
        let patched = quickly("strategic patch", || strategic::apply(&document(prefix), &original, kind)).unwrap();
        assert_eq!(patched.map("data").len(), count);
        assert!(quickly("comparison", || patched == merged));
    }
    assert!(quickly("comparison", || document("k").get("data") == original.get("data")));
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
    quickly("tracking", || track_update(&Value::Null, &mut live, view, &context("a"), Reset::Nothing, None));
    for (manager, prefix) in [("b", "m"), ("b", "m"), ("c", "k"), ("b", "z")] {
        let config = document(prefix);
        let applied = quickly("apply", || apply(&live, &config, view, &context(manager), true, Reset::Nothing, None));
        live = applied.unwrap();
    }
    let mut new = live.clone();
    new.set("data", document("y").get("data").clone());
    quickly("tracking", || track_update(&live, &mut new, view, &context("d"), Reset::Nothing, None));
}
