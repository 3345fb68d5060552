//! A schema as the walk sees it: a position of the structural schema, or a clause below a logical junctor.

use rkube_machinery::Text;
use rkube_machinery::schema::structural::{
    AdditionalProperties, JsonType, NestedValidation, Structural, ValueValidation,
};

use crate::custom::formats::Format;

#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    Structural(&'a Structural),
    Nested(&'a NestedValidation),
}

/// What is said of fields that no property has.
pub(super) enum Others<'a> {
    Anything,
    Nothing,
    Schema(Node<'a>),
}

/// A format that says something of the values here.
#[derive(Clone, Copy)]
pub(super) struct FormatOf<'a> {
    pub(super) name: &'a str,
    /// None: of a number.
    pub(super) text: Option<Format>,
}

impl<'a> Node<'a> {
    /// What the value may be; empty: anything.
    pub(super) fn types(self) -> &'static [JsonType] {
        match self.json_type() {
            _ if self.is_int_or_string() => &[JsonType::Integer, JsonType::String],
            JsonType::Any => &[],
            JsonType::Object => &[JsonType::Object],
            JsonType::Array => &[JsonType::Array],
            JsonType::String => &[JsonType::String],
            JsonType::Integer => &[JsonType::Integer],
            JsonType::Number => &[JsonType::Number],
            JsonType::Boolean => &[JsonType::Boolean],
        }
    }

    fn json_type(self) -> JsonType {
        match self {
            Node::Structural(schema) => schema.json_type,
            Node::Nested(clause) => clause.forbidden.as_ref().map_or(JsonType::Any, |forbidden| forbidden.json_type),
        }
    }

    fn is_int_or_string(self) -> bool {
        match self {
            Node::Structural(schema) => schema.extensions.int_or_string,
            Node::Nested(clause) => clause.forbidden.as_ref().is_some_and(|it| it.extensions.int_or_string),
        }
    }

    pub(super) fn nullable(self) -> bool {
        match self {
            Node::Structural(schema) => schema.nullable,
            Node::Nested(clause) => clause.forbidden.as_ref().is_some_and(|forbidden| forbidden.nullable),
        }
    }

    pub(super) fn validation(self) -> Option<&'a ValueValidation> {
        match self {
            Node::Structural(schema) => schema.validation.as_deref(),
            Node::Nested(clause) => Some(&clause.validation),
        }
    }

    /// The format; none where it is not known for the type.
    pub(super) fn format(self) -> Option<FormatOf<'a>> {
        let name = self.validation().map_or("", |validation| validation.format.as_str());
        if name.is_empty() {
            return None;
        }
        match self.types() {
            [JsonType::Integer] => matches!(name, "int32" | "int64").then_some(FormatOf { name, text: None }),
            [JsonType::Number] => matches!(name, "float" | "double").then_some(FormatOf { name, text: None }),
            [JsonType::Object | JsonType::Array | JsonType::Boolean] => None,
            _ => Format::find(name).map(|format| FormatOf { name, text: Some(format) }),
        }
    }

    pub(super) fn items(self) -> Option<Node<'a>> {
        match self {
            Node::Structural(schema) => schema.items.as_deref().map(Node::Structural),
            Node::Nested(clause) => clause.items.as_deref().map(Node::Nested),
        }
    }

    pub(super) fn properties(self) -> Properties<'a> {
        match self {
            Node::Structural(schema) => Properties::Structural(&schema.properties),
            Node::Nested(clause) => Properties::Nested(&clause.properties),
        }
    }

    pub(super) fn others(self) -> Others<'a> {
        match self {
            Node::Structural(schema) => match &schema.additional_properties {
                AdditionalProperties::Schema(values) => Others::Schema(Node::Structural(values)),
                AdditionalProperties::Allowed(false) => Others::Nothing,
                AdditionalProperties::Allowed(true) | AdditionalProperties::Absent => Others::Anything,
            },
            Node::Nested(clause) => match &clause.additional_properties {
                Some(values) => Others::Schema(Node::Nested(values)),
                None => Others::Anything,
            },
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Properties<'a> {
    Structural(&'a [(Text, Structural)]),
    Nested(&'a [(Text, NestedValidation)]),
}

impl<'a> Properties<'a> {
    pub(super) fn len(self) -> usize {
        match self {
            Properties::Structural(list) => list.len(),
            Properties::Nested(list) => list.len(),
        }
    }

    pub(super) fn at(self, index: usize) -> (&'a Text, Node<'a>) {
        match self {
            Properties::Structural(list) => (&list[index].0, Node::Structural(&list[index].1)),
            Properties::Nested(list) => (&list[index].0, Node::Nested(&list[index].1)),
        }
    }

    pub(super) fn contains(self, name: &str) -> bool {
        match self {
            Properties::Structural(list) => list.binary_search_by(|entry| entry.0.as_str().cmp(name)).is_ok(),
            Properties::Nested(list) => list.binary_search_by(|entry| entry.0.as_str().cmp(name)).is_ok(),
        }
    }
}
