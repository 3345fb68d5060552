//! What plugins look up.

use std::sync::Arc;

use rkube_catalog::{Guard, Items, Object, Resource};

/// The objects of a resource that a plugin looks at; where it is not served there are none.
pub struct Objects(pub Option<Arc<Resource>>);

impl Objects {
    /// The object of this name; of cluster-scoped ones `namespace` is empty.
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.0.as_ref()?.find(namespace, name).map(|entry| entry.object)
    }

    /// The object of this name, and what says that it is still the same.
    pub fn guarded(&self, namespace: &str, name: &str) -> Option<(Arc<Object>, Guard)> {
        let resource = self.0.as_ref()?;
        let key = resource.key(namespace, name);
        let entry = resource.get(&key)?;
        Some((entry.object, Guard { key: key.into(), revision: entry.revision }))
    }

    /// Those of a namespace, by name.
    pub fn within(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.0.as_ref().map(|objects| objects.within(namespace)).unwrap_or_default()
    }

    pub fn all(&self) -> Items {
        self.0.as_ref().map(|objects| objects.snapshot().0).unwrap_or_default()
    }
}
