//! The regular expressions of a schema, each compiled when a value first needs it.

use std::sync::OnceLock;

use rkube_cel::{Regex, compile_pattern};
use rkube_machinery::Text;
use rkube_machinery::schema::structural::{NestedValidation, Structural, ValueValidation};

/// The distinct patterns, sorted.
pub(super) struct Patterns(Box<[(Text, OnceLock<Box<Compiled>>)]>);

/// A pattern, or what is wrong with it in Go's words.
pub(super) type Compiled = Result<Regex, String>;

impl Patterns {
    pub(super) fn of(schema: &Structural) -> Self {
        let mut found = Vec::new();
        of_structural(schema, &mut found);
        found.sort_unstable();
        found.dedup();
        Patterns(found.into_iter().map(|pattern| (pattern, OnceLock::new())).collect())
    }

    /// The pattern, which must be one of the schema's.
    pub(super) fn get(&self, pattern: &Text) -> Option<&Compiled> {
        let index = self.0.binary_search_by(|(candidate, _)| candidate.cmp(pattern)).ok()?;
        let (pattern, compiled) = &self.0[index];
        Some(compiled.get_or_init(|| Box::new(compile_pattern(pattern))))
    }
}

fn of_structural(schema: &Structural, found: &mut Vec<Text>) {
    schema.validation.iter().for_each(|validation| of_validation(validation, found));
    schema.properties.iter().for_each(|(_, property)| of_structural(property, found));
    schema.items.as_deref().into_iter().chain(schema.map_values()).for_each(|below| of_structural(below, found));
}

fn of_validation(validation: &ValueValidation, found: &mut Vec<Text>) {
    if !validation.pattern.is_empty() {
        found.push(validation.pattern.clone());
    }
    let clauses = [&validation.all_of, &validation.any_of, &validation.one_of].into_iter().flatten();
    clauses.chain(validation.not.as_deref()).for_each(|clause| of_nested(clause, found));
}

fn of_nested(clause: &NestedValidation, found: &mut Vec<Text>) {
    of_validation(&clause.validation, found);
    clause.properties.iter().for_each(|(_, property)| of_nested(property, found));
    clause.items.iter().chain(&clause.additional_properties).for_each(|below| of_nested(below, found));
}
