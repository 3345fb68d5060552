//! A new object.

use rkube_machinery::field::Errors;
use rkube_machinery::{Text, Value, time};

use super::Lifecycle;
use crate::kind::Kind;

/// What a client sent, in the version of the request: with its defaults, without what clients may not set.
pub fn begin(kind: &Kind, object: &mut Value) {
    kind.rules.default(object);
    let metadata = object.object_mut("metadata");
    for field in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
}

/// Makes the object the one of this uid, made now, and of this name where it came without one. Gives the resource version
/// that it came with: none is stored.
pub fn identify(kind: &Kind, object: &mut Value, uid: String, name: Option<Text>, now: i64) -> Option<Value> {
    let metadata = object.object_mut("metadata");
    metadata.set("creationTimestamp", time::format_seconds(now));
    metadata.set("uid", uid);
    if let Some(name) = name {
        metadata.set("name", name);
    }
    let version = metadata.remove("resourceVersion");
    if kind.strategy.has_generation {
        metadata.set("generation", 1);
    }
    version
}

impl Lifecycle<'_> {
    /// From an object that was identified to the one that is stored, with the warnings that its client gets.
    pub fn create(&self, object: &mut Value) -> Result<Vec<String>, Errors> {
        let rules = &self.kind.rules;
        rules.prepare_create(object);
        rules.stamp(object, None, &self.requester);
        let mut errors = self.namespace_errors(object, None);
        errors.0.extend(self.kind.validate_create(object).0);
        if !errors.is_empty() {
            return Err(errors);
        }
        let warnings = rules.warnings(object, None);
        rules.canonicalize(object);
        // A new object without empty lists and maps is put in order when it is written.
        if self.kept_empties {
            self.schema.settle(object);
        }
        Ok(warnings)
    }
}
