//! Columns and cells that many kinds share.

use rkube_machinery::{Map, Value, time};

use crate::kind::Column;

/// Something that a cell has no value for.
pub const NONE: &str = "<none>";
/// A time or version that nobody has said yet.
pub const UNKNOWN: &str = "<unknown>";

pub const NAME: Column =
    Column { format: "name", ..Column::text("Name", "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta name", name) };

pub const AGE: Column =
    Column::text("Age", "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta creationTimestamp", age);

/// When the object was made, for kinds that have no columns of their own.
pub const CREATED_AT: Column = Column {
    kind: "date",
    ..Column::text("Created At", "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta creationTimestamp", created_at)
};

impl Column {
    /// A column of strings that is always shown.
    pub const fn text(name: &'static str, description: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
        Column { name, kind: "string", format: "", description, priority: 0, cell }
    }

    /// A column of strings that is shown when a wide table is asked for.
    pub const fn wide(name: &'static str, description: &'static str, cell: fn(&Value, i64) -> Value) -> Column {
        Column { priority: 1, ..Column::text(name, description, cell) }
    }
}

pub fn name(object: &Value, _now: i64) -> Value {
    object.get("metadata").str("name").into()
}

pub fn created_at(object: &Value, _now: i64) -> Value {
    object.get("metadata").str("creationTimestamp").into()
}

pub fn age(object: &Value, now: i64) -> Value {
    since(object.get("metadata").str("creationTimestamp"), now).into()
}

/// How long ago this moment was, in a person's words.
pub fn since(timestamp: &str, now: i64) -> String {
    match time::parse(timestamp) {
        Ok((seconds, _)) => time::human_duration(now - seconds),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// The text, or what stands for none.
pub fn or<'a>(text: &'a str, missing: &'a str) -> &'a str {
    if text.is_empty() { missing } else { text }
}

/// Labels as a selector's text: `a=b,c=d`.
pub fn labels(labels: &Map) -> String {
    if labels.is_empty() {
        return NONE.to_owned();
    }
    let mut pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str())).collect();
    pairs.sort_unstable();
    pairs.join(",")
}
