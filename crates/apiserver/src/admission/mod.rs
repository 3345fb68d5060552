//! Admission: what may change or refuse a write before it is stored. A plugin is a file and a line in [`Chain::new`].

mod default_tolerations;
mod namespace_lifecycle;
mod priority;
mod service_account;
mod taint_nodes;

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_machinery::host::Entropy;
use rkube_machinery::{GroupResource, Status, Value};

use crate::registry::Call;
use crate::resources::{Resources, Served};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// What plugins know of a write.
pub struct Attributes {
    pub operation: Operation,
    pub served: Arc<Served>,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

impl Attributes {
    pub fn new(call: &Call<'_>, operation: Operation) -> Attributes {
        Attributes {
            operation,
            served: call.served.clone(),
            subresource: call.info.subresource.clone(),
            namespace: call.info.namespace.clone(),
            name: call.info.name.clone(),
            warnings: Vec::new(),
        }
    }

    /// Whether this is about objects of this resource themselves, not a subresource.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.served.kind.resource == resource && self.served.kind.group == group
    }

    pub fn resource(&self) -> &GroupResource {
        &self.served.group_resource
    }

    /// The refusal of this write.
    pub fn forbidden(&self, object: &Value, why: impl AsRef<str>) -> Status {
        let metadata = object.get("metadata");
        let candidates = [self.name.as_str(), metadata.str("name"), metadata.str("generateName"), "Unknown"];
        let name = candidates.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        Status::forbidden(self.resource(), name, why)
    }
}

/// A plugin takes part in either step or both. `old` is there on updates and deletions, `object` on all but deletions.
pub trait Plugin: Send + Sync {
    fn handles(&self, attributes: &Attributes) -> bool;

    fn mutate<'a>(
        &'a self,
        _attributes: &'a mut Attributes,
        _object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(
        &'a self,
        _attributes: &'a mut Attributes,
        _object: Option<&'a Value>,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }
}

/// The plugins in their order.
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    pub fn new(resources: &Arc<Resources>, entropy: &Arc<dyn Entropy>) -> Chain {
        Chain {
            plugins: vec![
                Box::new(namespace_lifecycle::NamespaceLifecycle::new(resources)),
                Box::new(service_account::ServiceAccount::new(resources, entropy)),
                Box::new(taint_nodes::TaintNodesByCondition),
                Box::new(priority::Priority::new(resources)),
                Box::new(default_tolerations::DefaultTolerationSeconds),
            ],
        }
    }

    pub async fn mutate(
        &self,
        attributes: &mut Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                plugin.mutate(attributes, object, old).await?;
            }
        }
        Ok(())
    }

    pub async fn validate(
        &self,
        attributes: &mut Attributes,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        for plugin in &self.plugins {
            if plugin.handles(attributes) {
                plugin.validate(attributes, object, old).await?;
            }
        }
        Ok(())
    }
}
