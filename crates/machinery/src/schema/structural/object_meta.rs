//! The metadata of custom resources, and of objects embedded in them, as the table type ObjectMeta has it.

use super::prune::{Task, Walk};
use super::trail::Trail;
use super::{Structural, sort};
use crate::decode::{self, DecodeError};
use crate::field;
use crate::patch::go_text;
use crate::schema::{Type, TypeRef};
use crate::value::{Map, Value};

/// What becomes of a field of the metadata that is not of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The object is refused: it comes from a client.
    Refuse,
    /// The field is dropped: the object is stored already.
    Drop,
}

/// Why an object is refused before anything validates it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoerceError {
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// In an object that is embedded.
    #[error("{0}")]
    Embedded(field::Error),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("invalid metadata: expected object, got {0}")]
    NoObject(&'static str),
}

impl Structural {
    /// Gives an object that was read the form of its schema, as reading gives a built-in kind that of its type:
    /// metadata is of its type, unknown fields and nulls that may not be are gone. Returns what strict field validation
    /// objects to. Defaults are not set.
    pub fn coerce(&self, object: &mut Value, invalid: Invalid) -> Result<Vec<String>, CoerceError> {
        let mut unknown = match object {
            Value::Object(map) => match map.get_mut("metadata") {
                Some(metadata) if invalid == Invalid::Refuse => prefixed(read_only_copy(metadata)?),
                Some(metadata) => prefixed(read(metadata, invalid)?),
                None => Vec::new(),
            },
            _ => Vec::new(),
        };
        let mut walk = Walk::new(Task { prunes: true, nulls: true, metadata: Some(invalid), root_metadata: false });
        let keep = self.extensions.preserve_unknown_fields;
        walk.node(object, Some(self), true, keep, &Trail::ROOT).map_err(CoerceError::Embedded)?;
        walk.pruned.sort();
        walk.unknown_metadata.sort();
        unknown.append(&mut walk.pruned);
        unknown.append(&mut walk.unknown_metadata);
        for path in &mut unknown {
            *path = format!("unknown field \"{path}\"");
        }
        Ok(unknown)
    }

    /// Reads the metadata of objects that are embedded, at the root only where `is_root` says so, and nothing else.
    /// Returns the paths of fields that metadata does not have.
    pub fn coerce_metadata(
        &self,
        object: &mut Value,
        is_root: bool,
        invalid: Invalid,
    ) -> Result<Vec<String>, CoerceError> {
        let task = Task { prunes: false, nulls: false, metadata: Some(invalid), root_metadata: is_root };
        let mut walk = Walk::new(task);
        walk.node(object, Some(self), is_root, false, &Trail::ROOT).map_err(CoerceError::Embedded)?;
        walk.unknown_metadata.sort();
        Ok(walk.unknown_metadata)
    }
}

fn prefixed(unknown: Vec<String>) -> Vec<String> {
    unknown.into_iter().map(|field| format!("metadata.{field}")).collect()
}

/// [`read`] for an object that is refused with its metadata: what is wrong need not be kept.
fn read_only_copy(metadata: &mut Value) -> Result<Vec<String>, MetadataError> {
    let kind = object_meta();
    let decoded = decode::decode(std::mem::take(metadata), kind)?;
    *metadata = finished(decoded.value, kind);
    Ok(decoded.strict.iter().filter_map(|text| unknown_path(text)).collect())
}

/// Makes this the metadata of an object, sorted, and returns the paths of the fields that metadata does not have.
pub(super) fn read(metadata: &mut Value, invalid: Invalid) -> Result<Vec<String>, MetadataError> {
    let kind = object_meta();
    let sent = std::mem::take(metadata);
    // What is refused is shown, and what is dropped is read again.
    let decoded = match decode::decode(sent.clone(), kind) {
        Ok(decoded) => decoded,
        Err(error) if invalid == Invalid::Refuse => {
            *metadata = sent;
            return Err(error.into());
        }
        Err(_) => {
            let (kept, unknown) = match sent {
                Value::Object(map) => field_by_field(map, kind),
                other => {
                    let words = go_text::type_of(&other);
                    *metadata = other;
                    return Err(MetadataError::NoObject(words));
                }
            };
            *metadata = kept;
            return Ok(unknown);
        }
    };
    *metadata = finished(decoded.value, kind);
    Ok(decoded.strict.iter().filter_map(|text| unknown_path(text)).collect())
}

/// The fields that are of their types.
fn field_by_field(map: Map, kind: &'static Type) -> (Value, Vec<String>) {
    let mut unknown = Vec::new();
    let mut kept = Map::new();
    for (name, value) in map.into_entries() {
        let alone = Value::Object(Map::in_order(vec![(name, value)]));
        if let Ok(decoded) = decode::decode(alone, kind) {
            unknown.extend(decoded.strict.iter().filter_map(|text| unknown_path(text)));
            if let Value::Object(map) = decoded.value {
                map.into_entries().into_iter().for_each(|(name, value)| kept.insert(name, value));
            }
        }
    }
    (finished(Value::Object(kept), kind), unknown)
}

fn finished(mut value: Value, kind: &'static Type) -> Value {
    decode::complete(&mut value, kind);
    sort(&mut value);
    value
}

fn unknown_path(text: &str) -> Option<String> {
    text.strip_prefix("unknown field \"")?.strip_suffix('"').map(str::to_owned)
}

pub(super) fn object_meta() -> &'static Type {
    static FOUND: std::sync::OnceLock<TypeRef> = std::sync::OnceLock::new();
    let find = || TypeRef::find("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("the table has ObjectMeta");
    FOUND.get_or_init(find).get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "spec":{"type":"object","properties":{"a":{"type":"string"}}},
        "pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
        "pods":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true,
                "properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}"#;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    fn coerced(object: &str, invalid: Invalid) -> Result<(String, Vec<String>), String> {
        let mut object = value(object);
        let schema = Structural::read(&value(SCHEMA)).unwrap();
        let unknown = schema.coerce(&mut object, invalid).map_err(|error| error.to_string())?;
        Ok((json::to_string(&object), unknown))
    }

    #[test]
    fn an_object_gets_the_form_of_its_schema() {
        let object = r#"{"metadata":{"name":"n","labels":{"b":"1","a":"2"},"odd":1,"annotations":{}},
            "spec":{"a":null,"b":1},"pod":{"kind":"Pod","x":1,"metadata":{"name":"p","namespace":null,"odd":{}}},
            "pods":[{"metadata":{"creationTimestamp":null,"strange":1},"spec":{"y":1},"status":1}]}"#;
        let (left, unknown) = coerced(object, Invalid::Refuse).unwrap();
        assert_eq!(
            left,
            r#"{"metadata":{"labels":{"a":"2","b":"1"},"name":"n"},"spec":{},"pod":{"kind":"Pod","x":1,"metadata":{"name":"p"}},"pods":[{"metadata":{},"spec":{"y":1}}]}"#
        );
        let expected = [
            r#"unknown field "metadata.odd""#,
            r#"unknown field "pods[0].status""#,
            r#"unknown field "spec.b""#,
            r#"unknown field "pod.metadata.odd""#,
            r#"unknown field "pods[0].metadata.strange""#,
        ];
        assert_eq!(unknown, expected);
    }

    #[test]
    fn wrong_types_in_metadata_are_refused_or_dropped() {
        let cases = [
            (
                r#"{"metadata":{"name":1}}"#,
                "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string",
                r#"{"metadata":{}}"#,
            ),
            (
                r#"{"metadata":{"labels":["x"],"name":"n"}}"#,
                "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
                r#"{"metadata":{"name":"n"}}"#,
            ),
            (r#"{"pod":{"kind":5}}"#, "pod.kind: Invalid value: 5: must be a string", r#"{"pod":{}}"#),
            (
                r#"{"pod":{"metadata":{"name":{}}}}"#,
                "pod.metadata: Invalid value: {\"name\":{}}: json: cannot unmarshal object into Go struct field ObjectMeta.name of type string",
                r#"{"pod":{"metadata":{}}}"#,
            ),
            (
                r#"{"pod":{"metadata":"x"}}"#,
                "pod.metadata: Invalid value: \"x\": json: cannot unmarshal string into Go value of type v1.ObjectMeta",
                r#"{"pod":{"metadata":"x"}}"#,
            ),
        ];
        for (object, words, left) in cases {
            assert_eq!(coerced(object, Invalid::Refuse).unwrap_err(), words);
            assert_eq!(coerced(object, Invalid::Drop).unwrap().0, left);
        }
        assert_eq!(
            coerced(r#"{"metadata":"x"}"#, Invalid::Drop).unwrap_err(),
            "invalid metadata: expected object, got string"
        );
    }
}
