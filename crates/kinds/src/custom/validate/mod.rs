//! Whether the values of an object are what its schema says, in upstream's words.
//!
//! A walk over value and schema, twice at most: the first only says whether all is right, stops where something is
//! not and allocates nothing. Only for a wrong object the second collects what is wrong, and there an object's old
//! form counts: what did not change and was wrong before may stay (ratcheting).

mod failure;
mod node;
mod number;
mod old;
mod trail;
mod walk;

use std::sync::Arc;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural::Structural;

use super::patterns::Patterns;
use node::Node;
use trail::Trail;
use walk::Walk;

/// A schema made ready to validate: shared by all objects of a version of a custom resource.
pub struct Validator {
    schema: Arc<Structural>,
    patterns: Patterns,
}

impl Validator {
    pub fn new(schema: Arc<Structural>) -> Self {
        let patterns = Patterns::of(&schema);
        Validator { schema, patterns }
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
