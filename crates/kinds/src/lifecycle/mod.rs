//! The life cycle of an object of any kind, from its defaults to the form in which it is stored: what a create, an update
//! and a delete make of it. The write engine runs these functions between the phases of admission, and the properties in
//! `tests/proofs` run the same.
//!
//! Pure functions: who asks, the time, the uid and the namespace are passed in.

mod create;
mod delete;
mod update;

use rkube_machinery::Value;
use rkube_machinery::field::Errors;
use rkube_machinery::managed::Reset;
use rkube_machinery::schema::Schema;

use crate::kind::{Kind, Part, Requester};

pub use create::{begin, identify};
pub use delete::{Deletion, Fate, is_finished};

/// One write of an object. Custom resources are in the version of the request, others in the stored one.
pub struct Lifecycle<'a> {
    pub kind: &'a Kind,
    /// Of the version in which objects are stored.
    pub schema: &'a Schema,
    /// What is written.
    pub part: Part,
    pub requester: Requester<'a>,
    /// Gives the namespace that the object is in; null where there is none.
    pub namespace: &'a dyn Fn() -> Value,
    /// Whether there may be lists or maps that are there and empty. Rules can tell them from absent ones, and storage
    /// cannot.
    pub kept_empties: bool,
}

impl Lifecycle<'_> {
    /// What is wrong with an object because of its namespace; `old` on update.
    fn namespace_errors(&self, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        self.kind.rules.validate_in_namespace(self.part, object, old, self.namespace, &mut errors);
        errors
    }

    /// The object as storage gives it back. Only what came with empty lists or maps can have any that are to be told
    /// from none. `old` is what it was before.
    fn settle(&self, object: &mut Value, old: &Value) {
        match self.kept_empties {
            true => self.schema.settle(object),
            false => self.schema.complete_beside(object, old, self.carried()),
        }
    }

    /// A field that an update leaves exactly as it was, whatever was sent.
    fn carried(&self) -> Option<&'static str> {
        match (self.part, self.kind.strategy.reset_fields.status) {
            (Part::Status, Reset::Fields(fields)) if fields.contains(&["spec"].as_slice()) => Some("spec"),
            _ => None,
        }
    }
}
