//! The two forms of an event: the fields are the same, most of their names are not.

use rkube_machinery::value::{Map, Text};
use rkube_machinery::{Type, TypeRef, Value};

/// The names in `events.k8s.io` and in the core group, where they differ.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// From `events.k8s.io/v1` to the core group's form.
pub fn to_stored(event: Value) -> Value {
    renamed(event, "v1", "io.k8s.api.core.v1.Event", |name| {
        RENAMED.iter().find(|(new, _)| *new == name).map(|(_, legacy)| *legacy)
    })
}

/// From the core group's form to `events.k8s.io/v1`.
pub fn from_stored(event: Value) -> Value {
    renamed(event, "events.k8s.io/v1", "io.k8s.api.events.v1.Event", |name| {
        RENAMED.iter().find(|(_, legacy)| *legacy == name).map(|(new, _)| *new)
    })
}

fn renamed(event: Value, version: &'static str, type_name: &str, rename: fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(map) = event else { return event };
    let schema = TypeRef::find(type_name).map(TypeRef::get);
    let mut entries: Vec<(Text, Value)> = map
        .into_entries()
        .into_iter()
        .filter(|(key, _)| key != "kind" && key != "apiVersion")
        .map(|(key, value)| (rename(&key).map_or(key, Text::new_static), value))
        .collect();
    entries.sort_by_key(|(key, _)| position(schema, key));
    let head = [("kind", "Event"), ("apiVersion", version)];
    let head = head.into_iter().map(|(key, value)| (Text::new_static(key), Value::from(value)));
    Value::Object(Map::in_order(head.chain(entries).collect()))
}

/// Where the field stands in this form.
fn position(schema: Option<&'static Type>, key: &str) -> usize {
    schema.and_then(|schema| schema.position(key)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{json, object};

    use super::*;

    #[test]
    fn there_and_back() {
        let new = object! {
            "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": object! { "name": "e" },
            "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
            "regarding": object! { "kind": "Pod" }, "note": "n", "deprecatedCount": 3,
        };
        let stored = to_stored(new.clone());
        assert_eq!(
            json::to_string(&stored),
            "{\"kind\":\"Event\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"e\"},\"involvedObject\":{\"kind\":\"Pod\"},\
             \"message\":\"n\",\"count\":3,\"eventTime\":\"2026-01-01T00:00:00.000000Z\",\"reportingComponent\":\"c\",\
             \"reportingInstance\":\"i\"}"
        );
        assert_eq!(json::to_string(&from_stored(stored)), json::to_string(&new));
    }
}
