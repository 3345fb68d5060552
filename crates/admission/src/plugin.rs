//! What a plugin is.

use futures::future::BoxFuture;
use rkube_catalog::Guard;
use rkube_machinery::{Status, Value};

use crate::Attributes;

/// What a plugin answers: at once, or when it has waited. Only what waits pays for a future of its own.
pub enum Step<'a> {
    Now(Result<(), Status>),
    Later(BoxFuture<'a, Result<(), Status>>),
}

/// A plugin takes part in either phase or both. Objects are in the form in which they are stored.
pub trait Plugin: Send + Sync {
    /// Whether the plugin has to do with such a write at all. Asked about every write: quick, and waits for nothing.
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    /// May change the object. On deletions it is null, and what goes is `attributes.old`.
    fn mutate<'a>(&'a self, _attributes: &'a mut Attributes<'_>, _object: &'a mut Value) -> Step<'a> {
        Step::Now(Ok(()))
    }

    /// Looks at the object as it will be stored. On deletions it is null, and what goes is `attributes.old`.
    fn validate<'a>(&'a self, _attributes: &'a mut Attributes<'_>, _object: &'a Value) -> Step<'a> {
        Step::Now(Ok(()))
    }

    /// Asked last, when a new object is about to be stored: what must then be as the plugin sees it now. If it is not, the
    /// plugin is asked again.
    fn guard(&self, _attributes: &Attributes<'_>) -> Result<Option<Guard>, Status> {
        Ok(None)
    }
}

/// A plugin that never waits.
pub trait ImmediatePlugin: Send + Sync {
    fn handles(&self, attributes: &Attributes<'_>) -> bool;

    fn mutate(&self, _attributes: &mut Attributes<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    fn validate(&self, _attributes: &mut Attributes<'_>, _object: &Value) -> Result<(), Status> {
        Ok(())
    }
}

/// A plugin that never waits, as one that may.
pub struct Immediate<P>(pub P);

impl<P: ImmediatePlugin> Plugin for Immediate<P> {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        self.0.handles(attributes)
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes<'_>, object: &'a mut Value) -> Step<'a> {
        Step::Now(self.0.mutate(attributes, object))
    }

    fn validate<'a>(&'a self, attributes: &'a mut Attributes<'_>, object: &'a Value) -> Step<'a> {
        Step::Now(self.0.validate(attributes, object))
    }
}
