//! What plugins look up.

use std::sync::Arc;

use rkube_catalog::{Items, Object, Resource};

use crate::Guardian;

/// The objects of a resource that a plugin looks at; where it is not served there are none.
pub struct Objects(pub Option<Arc<Resource>>);

impl Objects {
    /// The object of this name; of cluster-scoped ones `namespace` is empty.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.0.as_ref()?.find(namespace, name).map(|entry| entry.object)
    }

    /// Where the object of this name is.
    pub fn guardian(&self, namespace: &str, name: &str) -> Option<Guardian> {
        let resource = self.0.clone()?;
        let key = resource.key(namespace, name);
        Some(Guardian { resource, key })
    }

    /// Those of a namespace, by name.
    pub fn within(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.0.as_ref().map(|objects| objects.within(namespace)).unwrap_or_default()
    }

    pub fn all(&self) -> Items {
        self.0.as_ref().map(|objects| objects.snapshot().0).unwrap_or_default()
    }
}
