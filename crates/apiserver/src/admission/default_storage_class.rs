//! DefaultStorageClass: a claim that names no class gets the one that is marked as the default.

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_machinery::{Status, Value};

use super::{Attributes, Operation, Plugin, newest_default};
use crate::cache;
use crate::resources::Resources;

const DEFAULTS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub struct DefaultStorageClass {
    classes: Option<Arc<cache::Resource>>,
}

impl DefaultStorageClass {
    pub fn new(resources: &Resources) -> Self {
        DefaultStorageClass { classes: resources.cache("storage.k8s.io", "v1", "storageclasses") }
    }
}

impl Plugin for DefaultStorageClass {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && attributes.is("", "persistentvolumeclaims")
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let annotated = object.at(&["metadata", "annotations"]).has(CLASS_ANNOTATION);
        if !annotated
            && !object.get("spec").has("storageClassName")
            && let Some(name) = self.classes.as_ref().and_then(|classes| newest_default(classes, &DEFAULTS))
        {
            object.object_mut("spec").set("storageClassName", name);
        }
        Box::pin(async { Ok(()) })
    }
}
