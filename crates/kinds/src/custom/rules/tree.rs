//! The rules of a schema as a tree that has only the positions at or above which there are rules.

use rkube_cel::escape;
use rkube_machinery::schema::structural::{NestedValidation, Rule, Structural};
use rkube_machinery::value::Text;

use super::compile::{Compiled, Compiler};
use super::declared::Declared;

/// The rules at a position and below it.
#[derive(Debug)]
pub struct Node {
    /// One for each of the schema's rules.
    pub rules: Box<[Compiled]>,
    /// Expressions cannot speak of this position, and yet it has rules.
    pub is_undeclared: bool,
    pub is_resource: bool,
    /// Whether a rule here speaks of `oldSelf`.
    pub has_transitions: bool,
    /// Whether one here or below does.
    pub needs_old: bool,
    pub items: Option<Box<Node>>,
    pub values: Option<Box<Node>>,
    /// Sorted by name.
    pub properties: Box<[(Text, Node)]>,
    /// By their place in `allOf`.
    pub all_of: Box<[(usize, Node)]>,
}

/// Where rules are written: in a schema, or in one of its `allOf`.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    Schema(&'a Structural),
    Nested(&'a NestedValidation),
}

impl<'a> Source<'a> {
    pub fn rules(self) -> &'a [Rule] {
        match self {
            Source::Schema(schema) => &schema.rules,
            Source::Nested(nested) => &nested.rules,
        }
    }

    pub fn items(self) -> Option<Source<'a>> {
        match self {
            Source::Schema(schema) => schema.items.as_deref().map(Source::Schema),
            Source::Nested(nested) => nested.items.as_deref().map(Source::Nested),
        }
    }

    pub fn values(self) -> Option<Source<'a>> {
        match self {
            Source::Schema(schema) => schema.map_values().map(Source::Schema),
            Source::Nested(nested) => nested.additional_properties.as_deref().map(Source::Nested),
        }
    }

    pub fn property(self, name: &str) -> Option<Source<'a>> {
        match self {
            Source::Schema(schema) => schema.property(name).map(Source::Schema),
            Source::Nested(nested) => {
                let found = nested.properties.iter().find(|(known, _)| known == name);
                found.map(|(_, property)| Source::Nested(property))
            }
        }
    }

    pub fn all_of(self) -> &'a [NestedValidation] {
        match self {
            Source::Schema(schema) => schema.validation.as_deref().map_or(&[], |validation| &validation.all_of),
            Source::Nested(nested) => &nested.validation.all_of,
        }
    }

    fn property_names(self) -> Vec<&'a Text> {
        match self {
            Source::Schema(schema) => schema.properties.iter().map(|(name, _)| name).collect(),
            Source::Nested(nested) => nested.properties.iter().map(|(name, _)| name).collect(),
        }
    }
}

/// The tree of the schema; none where it has no rules. Rules that are only in `allOf` do not count, as upstream has it.
pub fn compile(schema: &Structural, is_resource: bool) -> Option<Node> {
    if !has_rules(schema) {
        return None;
    }
    let declared = Some(Declared::new(schema, is_resource)).filter(|declared| declared.is_exposed());
    build(Source::Schema(schema), schema, is_resource, declared)
}

fn has_rules(schema: &Structural) -> bool {
    !schema.rules.is_empty()
        || schema.items.as_deref().is_some_and(has_rules)
        || schema.map_values().is_some_and(has_rules)
        || schema.properties.iter().any(|(_, property)| has_rules(property))
}

fn build(source: Source<'_>, schema: &Structural, is_resource: bool, declared: Option<Declared<'_>>) -> Option<Node> {
    let compiler = declared.and_then(|declared| Compiler::new(schema, declared)).filter(|_| !source.rules().is_empty());
    let rules: Box<[Compiled]> = match &compiler {
        Some(compiler) => source.rules().iter().map(|rule| compiler.compile(rule)).collect(),
        None => Box::default(),
    };
    let is_undeclared = compiler.is_none() && !source.rules().is_empty();
    let below = |source: Option<Source<'_>>, schema: Option<&Structural>, declared: Option<Declared<'_>>| {
        let (source, schema) = source.zip(schema)?;
        let declared = declared.filter(|declared| declared.is_exposed());
        build(source, schema, schema.extensions.embedded_resource, declared).map(Box::new)
    };
    let items = below(source.items(), schema.items.as_deref(), declared.and_then(Declared::items));
    let values = below(source.values(), schema.map_values(), declared.and_then(Declared::values));
    let properties: Box<[(Text, Node)]> = source
        .property_names()
        .into_iter()
        .filter_map(|name| {
            let (source, schema) = source.property(name).zip(schema.property(name))?;
            let declared = declared_property(name, schema, declared)?;
            let node = build(source, schema, schema.extensions.embedded_resource, Some(declared))?;
            Some((name.clone(), node))
        })
        .collect();
    let all_of: Box<[(usize, Node)]> = source
        .all_of()
        .iter()
        .enumerate()
        .filter_map(|(at, nested)| Some((at, build(Source::Nested(nested), schema, is_resource, declared)?)))
        .collect();
    let has_transitions = rules.iter().any(|rule| rule.is_transition);
    let mut children = items.iter().chain(&values).map(AsRef::as_ref);
    let needs_old = has_transitions
        || children.any(|node: &Node| node.needs_old)
        || properties.iter().any(|(_, node)| node.needs_old)
        || all_of.iter().any(|(_, node)| node.needs_old);
    let is_empty =
        rules.is_empty() && properties.is_empty() && all_of.is_empty() && items.is_none() && values.is_none();
    let node =
        || Node { rules, is_undeclared, is_resource, has_transitions, needs_old, items, values, properties, all_of };
    (!is_empty || is_undeclared).then(node)
}

/// How expressions know the property; none where they do not, and its rules are left out.
fn declared_property<'a>(name: &str, schema: &'a Structural, declared: Option<Declared<'a>>) -> Option<Declared<'a>> {
    match escape(name) {
        Some(identifier) => declared?.field(&identifier),
        None => {
            let own = Declared::new(schema, schema.extensions.embedded_resource);
            Some(own).filter(|declared| declared.is_exposed())
        }
    }
}
