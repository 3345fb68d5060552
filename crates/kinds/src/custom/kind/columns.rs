//! The columns of a custom resource: its name, then what its definition says, or its age where it says nothing.

use rkube_machinery::{Text, Value, json, time};

use super::json_path::JsonPath;
use crate::kind::CustomColumn;

const NAME_DESCRIPTION: &str = "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta name";
const AGE_DESCRIPTION: &str = "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta creationTimestamp";

pub fn of_version(version: &Value) -> Box<[CustomColumn]> {
    let given = version.list("additionalPrinterColumns");
    let mut columns = vec![CustomColumn {
        name: "Name".into(),
        kind: "string".into(),
        format: "name".into(),
        description: NAME_DESCRIPTION.into(),
        priority: 0,
        cell: Box::new(|object, _| object.get("metadata").get("name").clone()),
    }];
    if given.is_empty() {
        columns.push(column(
            "Age",
            "date",
            "",
            AGE_DESCRIPTION.into(),
            0,
            JsonPath::of_fields(&["metadata", "creationTimestamp"]),
        ));
        return columns.into();
    }
    for one in given {
        // Definitions are checked for paths that begin with a dot; one that cannot be read leaves the name alone.
        let Some(path) = JsonPath::parse(one.str("jsonPath")) else { return columns.into_iter().take(1).collect() };
        let description = match one.str("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {}", one.str("jsonPath")).into(),
            text => Text::from(text),
        };
        columns.push(column(
            one.str("name"),
            one.str("type"),
            one.str("format"),
            description,
            one.int("priority"),
            path,
        ));
    }
    columns.into()
}

fn column(name: &str, kind: &str, format: &str, description: Text, priority: i64, path: JsonPath) -> CustomColumn {
    let form = Text::from(kind);
    CustomColumn {
        name: name.into(),
        kind: kind.into(),
        format: format.into(),
        description,
        priority,
        cell: Box::new(move |object, now| match path.first(object) {
            None => Value::Null,
            Some(value) => cell(&form, value, now),
        }),
    }
}

fn cell(form: &str, value: &Value, now: i64) -> Value {
    match (form, value) {
        ("string", _) => printed(value).into(),
        ("integer", Value::Int(number)) => Value::Int(*number),
        ("integer", Value::Float(number)) => Value::Int(*number as i64),
        ("number", Value::Int(_) | Value::Float(_)) => value.clone(),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match time::parse(text) {
            Ok((seconds, _)) => time::human_duration(now - seconds).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// A value as text.
fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Null => "<nil>".to_owned(),
        other => json::to_string(other),
    }
}
