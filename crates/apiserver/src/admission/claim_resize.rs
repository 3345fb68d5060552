//! PersistentVolumeClaimResize: a claim grows only if its class says that its volumes can.

use std::sync::Arc;

use futures::future::BoxFuture;
use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Status, Value};

use super::{Attributes, Operation, Plugin};
use crate::cache;
use crate::resources::Resources;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub struct PersistentVolumeClaimResize {
    classes: Option<Arc<cache::Resource>>,
}

impl PersistentVolumeClaimResize {
    pub fn new(resources: &Resources) -> Self {
        PersistentVolumeClaimResize { classes: resources.cache("storage.k8s.io", "v1", "storageclasses") }
    }

    fn check(&self, attributes: &Attributes, claim: &Value, old: &Value) -> Result<(), Status> {
        if asked(claim) <= asked(old) {
            return Ok(());
        }
        if old.get("status").str("phase") != "Bound" {
            return Err(attributes.forbidden(claim, "Only bound persistent volume claims can be expanded"));
        }
        let class = class_of(claim);
        let grows = !class.is_empty() && class == class_of(old) && self.allows_expansion(class);
        if grows {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(attributes.forbidden(claim, why))
    }

    fn allows_expansion(&self, class: &str) -> bool {
        let found = self.classes.as_ref().and_then(|classes| classes.get(&classes.key("", class)));
        found.is_some_and(|entry| entry.object.tree().bool("allowVolumeExpansion"))
    }
}

impl Plugin for PersistentVolumeClaimResize {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Update && attributes.is("", "persistentvolumeclaims")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let outcome = match (object, old) {
            (Some(claim), Some(old)) => self.check(attributes, claim, old),
            _ => Ok(()),
        };
        Box::pin(async { outcome })
    }
}

fn asked(claim: &Value) -> Quantity {
    let text = claim.at(&["spec", "resources", "requests"]).str("storage");
    Quantity::parse(text).unwrap_or(Quantity::ZERO)
}

fn class_of(claim: &Value) -> &str {
    let annotations = claim.at(&["metadata", "annotations"]);
    if annotations.has(CLASS_ANNOTATION) {
        return annotations.str(CLASS_ANNOTATION);
    }
    claim.get("spec").str("storageClassName")
}
