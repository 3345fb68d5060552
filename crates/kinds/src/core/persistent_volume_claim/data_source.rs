//! What a new volume is filled with. Two fields say it: the old one knows claims and snapshots only, the new one
//! anything. They say the same unless the source is in another namespace.

use rkube_machinery::{Value, object};

const OLD: &str = "dataSource";
const NEW: &str = "dataSourceRef";

/// Drops what is not served and brings both fields in line. `old` is the spec that is replaced, if any.
pub(super) fn prepare(spec: &mut Value, old: &Value) {
    // Sources in other namespaces are off, unless one was there before.
    if !spec.get(NEW).str("namespace").is_empty() && !old.has(NEW) {
        spec.remove(NEW);
    }
    let in_use = old.has(OLD) || old.has(NEW);
    if !in_use && !spec.has(NEW) && !is_claim_or_snapshot(spec.get(OLD)) {
        spec.remove(OLD);
    }
    normalize(spec);
}

/// Fills in the field that is absent from the other.
pub(super) fn normalize(spec: &mut Value) {
    match (spec.has(OLD), spec.has(NEW)) {
        (true, false) => spec.set(NEW, copy(spec.get(OLD))),
        (false, true) if spec.get(NEW).str("namespace").is_empty() => spec.set(OLD, copy(spec.get(NEW))),
        _ => {}
    }
}

fn copy(source: &Value) -> Value {
    let mut copy = object! { "apiGroup": source.get("apiGroup").clone() };
    if !source.has("apiGroup") {
        copy = Value::object();
    }
    copy.set("kind", source.str("kind"));
    copy.set("name", source.str("name"));
    copy
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    matches!(
        (source.str("kind"), source.str("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_fields_say_the_same() {
        let claim = object! { "kind": "PersistentVolumeClaim", "name": "a" };
        let other = object! { "apiGroup": "example.com", "kind": "Other", "name": "a" };
        let mut foreign = claim.clone();
        foreign.set("namespace", "b");
        let table = [
            (
                object! { "dataSource": claim.clone() },
                object! { "dataSource": claim.clone(), "dataSourceRef": claim.clone() },
            ),
            (object! { "dataSource": other.clone() }, Value::object()),
            (
                object! { "dataSourceRef": other.clone() },
                object! { "dataSource": other.clone(), "dataSourceRef": other },
            ),
            (object! { "dataSourceRef": foreign }, Value::object()),
        ];
        for (given, expected) in table {
            let mut spec = given.clone();
            prepare(&mut spec, &Value::Null);
            assert_eq!(spec, expected, "{given:?}");
        }
    }
}
