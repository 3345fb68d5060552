//! The annotation in which client-side `kubectl apply` keeps its last configuration, for those who move from it.

use super::WriteContext;
use super::compare::Comparison;
use super::fields::field_set;
use super::set::FieldSet;
use super::text;
use super::validate::validate;
use super::view::SchemaView;
use crate::json;
use crate::value::{Map, Text, Value};

/// The one manager for which the annotation is minded.
pub(super) const MANAGER: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What all annotations of an object may take together.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// The fields of the last client-side configuration that the live object still has as they were applied.
pub(super) fn allowed<S: SchemaView>(live: &Value, schema: S, context: &WriteContext<'_>) -> Option<FieldSet> {
    let written = live.get("metadata").get("annotations").str(ANNOTATION);
    let config = text::parse(written).filter(|config| config.str("apiVersion") == context.api_version)?;
    validate(live, schema).and_then(|()| validate(&config, schema)).ok()?;
    let changed = Comparison::of(&config, live, schema)?;
    let mut fields = field_set(&config, schema);
    fields.subtract(&changed.modified);
    fields.subtract(&changed.added);
    fields.subtract(&changed.removed);
    Some(fields)
}

/// Brings the annotation, where the object has one, up to the configuration applied now.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if object.get("metadata").get("annotations").str(ANNOTATION).is_empty() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.find_mut("metadata").and_then(|metadata| metadata.find_mut("annotations")) {
        annotations.remove(ANNOTATION);
    }
    let mut written = text::escape_html(&json::to_string(&sorted(config)));
    written.push('\n');
    let annotations = object.object_mut("metadata").object_mut("annotations");
    annotations.set(ANNOTATION, written);
    let size: usize = annotations.as_map().iter().map(|(key, value)| key.len() + value.as_str().len()).sum();
    if size > ANNOTATIONS_MAX_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let entries: Vec<(Text, Value)> =
                map.into_entries().into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(Map::sorted(entries))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
