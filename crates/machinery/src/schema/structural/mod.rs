//! The schema of a custom resource in structural form: what may stand where, apart from what values may be.
//!
//! A [`Structural`] is made of one version's `openAPIV3Schema` when its definition is served and dropped with it. It is
//! compact, because a thousand definitions lie in memory at once: what most positions do not have stands behind a
//! box, and descriptions stay in the definition's own JSON.
//!
//! What holds: a schema is no deeper than [`DEPTH_MAX`], so walks over it may recurse.

mod check;
mod default;
mod object_meta;
mod prune;
mod read;
mod sort;
mod trail;
mod unfold;
mod view;

pub use check::{PatternFault, check};
pub use object_meta::{CoerceError, Invalid, MetadataError};
pub use read::ReadError;
pub use sort::{read_numbers, repeated_keys, sort};
pub use trail::Trail;
pub use view::StructuralView;

use crate::schema::ListType;
use crate::short_text;
use crate::value::{Text, Value};

/// How deep schemas may lie in each other. Upstream has no bound but that of JSON.
pub const DEPTH_MAX: usize = crate::decode::STRUCT_DEPTH_MAX;

/// A position in a schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structural {
    pub json_type: JsonType,
    pub nullable: bool,
    pub extensions: Extensions,
    /// Sorted by name.
    pub properties: Box<[(Text, Structural)]>,
    pub items: Option<Box<Structural>>,
    pub additional_properties: AdditionalProperties,
    /// What stands here where nothing was given. `default: null` counts as none.
    pub default: Option<Box<Value>>,
    pub validation: Option<Box<ValueValidation>>,
    pub rules: Box<[Rule]>,
}

/// The value of `type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonType {
    /// Nothing is said: any value, or an integer or a string.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// The `x-kubernetes-*` extensions that shape a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extensions {
    pub preserve_unknown_fields: bool,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<ListType>,
    pub list_map_keys: Box<[Text]>,
    /// `x-kubernetes-map-type`: whether it is said, and whether it is `atomic`.
    pub map_atomic: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum AdditionalProperties {
    /// Nothing is said.
    #[default]
    Absent,
    Allowed(bool),
    Schema(Box<Structural>),
}

/// What a value must be like beyond its shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueValidation {
    pub format: Text,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Text,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub multiple_of: Option<f64>,
    pub one_of_values: Box<[Value]>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Box<[Text]>,
    pub all_of: Box<[NestedValidation]>,
    pub one_of: Box<[NestedValidation]>,
    pub any_of: Box<[NestedValidation]>,
    pub not: Option<Box<NestedValidation>>,
}

/// What stands below `allOf`, `anyOf`, `oneOf` and `not`. What would change the shape is kept to be refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NestedValidation {
    pub validation: ValueValidation,
    pub rules: Box<[Rule]>,
    pub items: Option<Box<NestedValidation>>,
    /// Sorted by name.
    pub properties: Box<[(Text, NestedValidation)]>,
    pub additional_properties: Option<Box<NestedValidation>>,
    pub forbidden: Option<Box<Forbidden>>,
}

/// What must not stand below a logical junctor, but for `type` in the patterns of `x-kubernetes-int-or-string`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forbidden {
    pub json_type: JsonType,
    pub nullable: bool,
    pub has_default: bool,
    pub has_title: bool,
    pub has_description: bool,
    pub extensions: Extensions,
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub rule: Text,
    pub message: Text,
    pub message_expression: Text,
    /// Empty: `FieldValueInvalid`.
    pub reason: Text,
    pub field_path: Text,
    pub optional_old_self: Option<bool>,
}

impl Structural {
    /// The schema of the property of this name.
    pub fn property(&self, name: &str) -> Option<&Structural> {
        let found = self.properties.binary_search_by(|(candidate, _)| short_text::order(candidate, name));
        found.ok().map(|index| &self.properties[index].1)
    }

    /// The schema of the values of a map.
    pub fn map_values(&self) -> Option<&Structural> {
        match &self.additional_properties {
            AdditionalProperties::Schema(schema) => Some(schema),
            _ => None,
        }
    }
}

/// Finds the properties of one object's fields. Both are sorted, so that the next field is mostly the next property.
struct Cursor<'a> {
    schema: &'a Structural,
    next: usize,
}

impl<'a> Cursor<'a> {
    fn new(schema: &'a Structural) -> Self {
        Cursor { schema, next: 0 }
    }

    fn find(&mut self, name: &str) -> Option<&'a Structural> {
        let properties = &self.schema.properties;
        if let Some((_, property)) = properties.get(self.next).filter(|next| short_text::same(&next.0, name)) {
            self.next += 1;
            return Some(property);
        }
        let index = properties.binary_search_by(|(candidate, _)| short_text::order(candidate, name)).ok()?;
        self.next = index + 1;
        Some(&properties[index].1)
    }
}

impl JsonType {
    /// As a schema writes it; empty where nothing is said.
    pub fn name(self) -> &'static str {
        match self {
            JsonType::Any => "",
            JsonType::Object => "object",
            JsonType::Array => "array",
            JsonType::String => "string",
            JsonType::Integer => "integer",
            JsonType::Number => "number",
            JsonType::Boolean => "boolean",
        }
    }

    pub fn parse(name: &str) -> Option<JsonType> {
        let all = [
            JsonType::Any,
            JsonType::Object,
            JsonType::Array,
            JsonType::String,
            JsonType::Integer,
            JsonType::Number,
            JsonType::Boolean,
        ];
        all.into_iter().find(|json_type| json_type.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_found_by_name() {
        let string = Structural { json_type: JsonType::String, ..Structural::default() };
        let schema = Structural {
            json_type: JsonType::Object,
            properties: Box::new([("a".into(), string.clone()), ("b".into(), string.clone())]),
            ..Structural::default()
        };
        assert_eq!(schema.property("b"), Some(&string));
        assert_eq!(schema.property("c"), None);
    }

    #[test]
    fn a_position_is_small() {
        assert!(size_of::<Structural>() <= 160, "{}", size_of::<Structural>());
    }
}
