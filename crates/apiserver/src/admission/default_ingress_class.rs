//! DefaultIngressClass: an ingress that names no class gets the one that is marked as the default.

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_machinery::{Status, Value};

use super::{Attributes, Operation, Plugin, newest_default};
use crate::cache;
use crate::resources::Resources;

const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub struct DefaultIngressClass {
    classes: Option<Arc<cache::Resource>>,
}

impl DefaultIngressClass {
    pub fn new(resources: &Resources) -> Self {
        DefaultIngressClass { classes: resources.cache("networking.k8s.io", "v1", "ingressclasses") }
    }
}

impl Plugin for DefaultIngressClass {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && attributes.is("networking.k8s.io", "ingresses")
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let annotated = object.at(&["metadata", "annotations"]).has(CLASS_ANNOTATION);
        if !annotated
            && !object.get("spec").has("ingressClassName")
            && let Some(name) = self.classes.as_ref().and_then(|classes| newest_default(classes, &[DEFAULT]))
        {
            object.object_mut("spec").set("ingressClassName", name);
        }
        Box::pin(async { Ok(()) })
    }
}
