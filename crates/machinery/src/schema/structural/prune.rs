//! Taking out of an object what its schema does not have.
//!
//! One walk does what upstream does in three: unknown fields go, nulls go where nothing may be null and nothing stands
//! in their place, and the metadata of embedded objects becomes that of an object. Nothing is allocated for an object
//! that follows its schema.

use super::object_meta::{self, Invalid};
use super::trail::Trail;
use super::{AdditionalProperties, Cursor, Structural};
use crate::field::{self, Errors, Path};
use crate::value::{Map, Value};

/// The fields that every object has, whatever its schema says.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Structural {
    /// Removes the fields that the schema does not have and returns their paths, sorted. The own `apiVersion`, `kind`
    /// and `metadata` of an object, and of those embedded in it, stay.
    pub fn prune(&self, value: &mut Value, is_root: bool) -> Vec<String> {
        let mut walk = Walk::new(Task { prunes: true, nulls: false, metadata: None, root_metadata: false });
        // Without metadata to read there is nothing to refuse.
        let _ = walk.node(value, Some(self), is_root, self.extensions.preserve_unknown_fields, &Trail::ROOT);
        walk.pruned.sort();
        walk.pruned
    }

    /// Removes nulls that the schema does not allow and does not have a default for.
    pub fn prune_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => map.retain(|name, value| match self.below(name) {
                Some(Some(schema)) if schema.refuses_null() && value.is_null() => false,
                Some(Some(schema)) => {
                    schema.prune_nulls(value);
                    true
                }
                _ => true,
            }),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.prune_nulls(item));
                }
            }
            _ => {}
        }
    }

    /// The schema of this field: none where the field is unknown, none in it where any value may stand there.
    fn below(&self, name: &str) -> Option<Option<&Structural>> {
        self.property(name).map(Some).or_else(|| self.below_others())
    }

    /// The same for fields that are no properties.
    fn below_others(&self) -> Option<Option<&Structural>> {
        match &self.additional_properties {
            AdditionalProperties::Schema(schema) => Some(Some(schema)),
            AdditionalProperties::Allowed(_) => Some(None),
            AdditionalProperties::Absent => None,
        }
    }

    /// Whether a null here is nothing at all.
    fn refuses_null(&self) -> bool {
        !self.nullable && self.default.is_none()
    }
}

/// What a walk does.
pub(super) struct Task {
    /// Unknown fields go.
    pub(super) prunes: bool,
    /// Nulls go where they may not be.
    pub(super) nulls: bool,
    /// The metadata of embedded objects is read, and what becomes of fields of a wrong type.
    pub(super) metadata: Option<Invalid>,
    /// The same for the object's own.
    pub(super) root_metadata: bool,
}

pub(super) struct Walk {
    task: Task,
    /// Paths of fields that no schema has.
    pub(super) pruned: Vec<String>,
    /// Paths of fields that the metadata of embedded objects does not have.
    pub(super) unknown_metadata: Vec<String>,
}

impl Walk {
    pub(super) fn new(task: Task) -> Self {
        Walk { task, pruned: Vec::new(), unknown_metadata: Vec::new() }
    }

    /// `keep`: unknown fields of this value stay. Without a schema no field is known.
    pub(super) fn node(
        &mut self,
        value: &mut Value,
        schema: Option<&Structural>,
        is_root: bool,
        keep: bool,
        trail: &Trail<'_>,
    ) -> Result<(), field::Error> {
        match value {
            Value::Object(map) => match schema {
                Some(schema) => self.map(map, schema, is_root, keep, trail),
                None if !self.task.prunes => Ok(()),
                None => {
                    self.pruned.extend(map.keys().map(|name| trail.property(name).dotted()));
                    *map = Map::new();
                    Ok(())
                }
            },
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                if keep && schema.is_none() {
                    return Ok(());
                }
                let keep = keep || schema.is_some_and(|schema| schema.extensions.preserve_unknown_fields);
                let item =
                    |(index, item): (usize, &mut Value)| self.node(item, schema, false, keep, &trail.index(index));
                items.iter_mut().enumerate().try_for_each(item)
            }
            _ => Ok(()),
        }
    }

    fn map(
        &mut self,
        map: &mut Map,
        schema: &Structural,
        is_root: bool,
        keep: bool,
        trail: &Trail<'_>,
    ) -> Result<(), field::Error> {
        let embedded = schema.extensions.embedded_resource;
        let mut properties = Cursor::new(schema);
        let mut outcome = Ok(());
        map.retain(|name, value| {
            if outcome.is_err() {
                return true;
            }
            let is_meta = (is_root || embedded) && META_FIELDS.contains(&name);
            let property = properties.find(name);
            let below = property.map(Some).or_else(|| schema.below_others());
            if below.is_none() && self.task.prunes && !keep && !is_meta {
                if !trail.is_root() || !META_FIELDS.contains(&name) {
                    self.pruned.push(trail.property(name).dotted());
                }
                return false;
            }
            let below_schema = below.flatten();
            if self.task.nulls && value.is_null() && below_schema.is_some_and(Structural::refuses_null) {
                return false;
            }
            if is_meta {
                let reads = embedded || self.task.root_metadata;
                return match self.meta_field(name, value, reads, trail) {
                    Ok(stays) => stays,
                    Err(error) => {
                        outcome = Err(error);
                        true
                    }
                };
            }
            if below.is_some() {
                let keep = below_schema.is_some_and(|schema| schema.extensions.preserve_unknown_fields);
                let below = if property.is_some() { trail.property(name) } else { trail.entry(name) };
                outcome = self.node(value, below_schema, false, keep, &below);
            }
            true
        });
        outcome
    }

    /// One of an object's own fields; says whether it stays.
    fn meta_field(
        &mut self,
        name: &str,
        value: &mut Value,
        reads: bool,
        trail: &Trail<'_>,
    ) -> Result<bool, field::Error> {
        let Some(invalid) = self.task.metadata.filter(|_| reads) else { return Ok(true) };
        let refuse = |value: &Value, words: &str| {
            let mut errors = Errors::new();
            errors.invalid(Path::new(&trail.property(name).field_path()), value, words);
            errors.0.remove(0)
        };
        if name != "metadata" {
            return match (&*value, invalid) {
                (Value::String(_), _) => Ok(true),
                (_, Invalid::Drop) => Ok(false),
                (value, Invalid::Refuse) => Err(refuse(value, "must be a string")),
            };
        }
        match object_meta::read(value, invalid) {
            Ok(unknown) => {
                let below = |field: String| format!("{}.{field}", trail.property(name).field_path());
                self.unknown_metadata.extend(unknown.into_iter().map(below));
                Ok(true)
            }
            Err(_) if invalid == Invalid::Drop => Ok(true),
            Err(error) => Err(refuse(value, &error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn value(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    fn pruned(schema: &str, object: &str, is_root: bool) -> (String, Vec<String>) {
        let schema = Structural::read(&value(schema)).unwrap();
        let mut object = value(object);
        let paths = schema.prune(&mut object, is_root);
        (json::to_string(&object), paths)
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let schema = r#"{"type":"object","properties":{
            "a":{"type":"string"},
            "list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}},
            "map":{"type":"object","additionalProperties":{"type":"object","properties":{"x":{"type":"string"}}}},
            "open":{"type":"object","additionalProperties":true},
            "keep":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
                    "properties":{"y":{"type":"object","properties":{"z":{"type":"string"}}}}},
            "keeps":{"type":"array","x-kubernetes-preserve-unknown-fields":true,
                     "items":{"type":"object","properties":{"y":{"type":"object"}}}},
            "pod":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}}}}"#;
        let object = r#"{"apiVersion":"v1","kind":"K","metadata":{"name":"n","odd":1},"z":1,"a":"s",
            "list":[{"x":"1","y":2},{"y":{"deep":1}}],"map":{"k":{"x":"1","q":3}},"open":{"k":{"gone":1},"l":5},
            "keep":{"u":{"v":1},"y":{"z":"1","w":1}},"keeps":[{"u":1,"y":{"q":1}}],
            "pod":{"apiVersion":"v1","kind":"Pod","metadata":{"odd":1},"spec":{"n":1},"status":{}}}"#;
        let (left, paths) = pruned(schema, object, true);
        assert_eq!(
            left,
            r#"{"apiVersion":"v1","kind":"K","metadata":{"name":"n","odd":1},"a":"s","list":[{"x":"1"},{}],"map":{"k":{"x":"1"}},"open":{"k":{},"l":5},"keep":{"u":{"v":1},"y":{"z":"1"}},"keeps":[{"u":1,"y":{}}],"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"odd":1},"spec":{}}}"#
        );
        let expected = [
            "keep.y.w",
            "keeps[0].y.q",
            "list[0].y",
            "list[1].y",
            "map.k.q",
            "open.k.gone",
            "pod.spec.n",
            "pod.status",
            "z",
        ];
        assert_eq!(paths, expected);
        // Below the root, and not embedded: fields as any other, that are not named at the top.
        let (left, paths) = pruned(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#, object, false);
        assert_eq!(left, r#"{"a":"s"}"#);
        assert_eq!(paths, ["keep", "keeps", "list", "map", "open", "pod", "z"]);
    }

    #[test]
    fn nulls_go_where_nothing_may_be_null() {
        let schema = Structural::read(&value(
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","nullable":true},
                "c":{"type":"string","default":"x"},"l":{"type":"array","items":{"type":"string"}},
                "m":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
        ))
        .unwrap();
        let mut object = value(r#"{"a":null,"b":null,"c":null,"l":[null],"m":{"k":null,"l":"x"},"u":null}"#);
        schema.prune_nulls(&mut object);
        assert_eq!(json::to_string(&object), r#"{"b":null,"c":null,"l":[null],"m":{"l":"x"},"u":null}"#);
    }
}
