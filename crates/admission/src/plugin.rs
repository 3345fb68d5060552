//! What a plugin is.

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_catalog::{Object, Resource};
use rkube_machinery::{Status, Value};

use crate::Attributes;

/// What a plugin answers: at once, or when it has waited. Only what waits pays for a future of its own.
pub enum Step<'a> {
    Now(Result<(), Status>),
    Later(BoxFuture<'a, Result<(), Status>>),
}

/// Where the object is that a new one rests upon.
pub struct Guardian {
    pub resource: Arc<Resource>,
    pub key: String,
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

    /// The object that a new one rests upon: it is stored only while that is as the plugin last saw it.
    fn guardian(&self, _attributes: &Attributes<'_>) -> Option<Guardian> {
        None
    }

    /// Looks at that object (`None`: it is not there) when the new one is about to be stored, and again whenever it was
    /// written meanwhile.
    fn check_guardian(&self, _attributes: &Attributes<'_>, _guardian: Option<&Object>) -> Result<(), Status> {
        Ok(())
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
