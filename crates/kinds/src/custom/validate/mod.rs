//! Whether the values of an object are what its schema says, in upstream's words.
//!
//! A walk over value and schema, twice at most: the first only says whether all is right, stops where something is
//! not and allocates nothing. Only for a wrong object the second collects what is wrong, and there an object's old
//! form counts: what did not change and was wrong before may stay (ratcheting).
//!
//! Objects come sorted at every level, as custom resources are held: fields of large maps are found by halving.

mod failure;
mod node;
mod number;
mod old;
mod walk;

use std::sync::Arc;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::ListType;
use rkube_machinery::schema::structural::Structural;
use rkube_machinery::schema::structural::Trail;

use super::embedded::validate_embedded;
use super::lists::validate_lists;
use super::patterns::Patterns;
use node::Node;
use walk::Walk;

/// A schema made ready to validate: shared by all objects of a version of a custom resource.
pub struct Validator {
    schema: Arc<Structural>,
    patterns: Patterns,
    has_embedded: bool,
    has_unique_lists: bool,
}

impl Validator {
    pub fn new(schema: Arc<Structural>) -> Self {
        let patterns = Patterns::of(&schema);
        let has_embedded = any(&schema, &|schema| schema.extensions.embedded_resource);
        let has_unique_lists =
            any(&schema, &|schema| matches!(schema.extensions.list_type, Some(ListType::Set | ListType::Map)));
        Validator { schema, patterns, has_embedded, has_unique_lists }
    }

    pub fn schema(&self) -> &Arc<Structural> {
        &self.schema
    }

    /// All that is wrong with the values of an object. Where it had an old form, what stayed wrong there is left out.
    pub fn validate(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        self.validate_against(&self.schema, object, old, Path::ROOT, errors);
    }

    /// The same for the status alone; for nothing where the schema does not have one.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        let status = object.as_map().get("status");
        if let (Some(schema), Some(status)) = (self.schema.property("status"), status) {
            let old = old.and_then(|old| old.as_map().get("status"));
            self.validate_against(schema, status, old, Path::new("status"), errors);
        }
    }

    /// What is wrong with embedded objects, where the schema has any.
    pub fn validate_embedded(&self, object: &Value, errors: &mut Errors) {
        if self.has_embedded {
            validate_embedded(&self.schema, object, errors);
        }
    }

    /// Items that are there more than once, where the schema has lists that may not repeat any. What was wrong before,
    /// anywhere in the object, may stay.
    pub fn validate_lists(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        if !self.has_unique_lists {
            return;
        }
        let mut found = Errors::new();
        validate_lists(&self.schema, object, &mut found);
        let mut before = Errors::new();
        if let Some(old) = old.filter(|_| !found.is_empty()) {
            validate_lists(&self.schema, old, &mut before);
        }
        if before.is_empty() {
            errors.extend(found);
        }
    }

    /// A value at this path against a schema that is part of this validator's.
    pub fn validate_against(
        &self,
        schema: &Structural,
        value: &Value,
        old: Option<&Value>,
        path: Path<'_>,
        errors: &mut Errors,
    ) {
        let node = Node::Structural(schema);
        let quiet = Walk { patterns: &self.patterns, quiet: true };
        if !quiet.node(node, value, None, &Trail::ROOT).failed {
            return;
        }
        let walk = Walk { patterns: &self.patterns, quiet: false };
        for failure in walk.node(node, value, old, &Trail::ROOT).failures {
            failure.report(path, errors);
        }
    }
}

/// Whether this holds for a schema, or for one below it.
fn any(schema: &Structural, holds: &dyn Fn(&Structural) -> bool) -> bool {
    let below = schema.items.as_deref().into_iter().chain(schema.map_values());
    let mut all = schema.properties.iter().map(|(_, property)| property).chain(below);
    holds(schema) || all.any(|below| any(below, holds))
}
