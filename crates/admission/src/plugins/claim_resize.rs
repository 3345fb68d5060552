//! PersistentVolumeClaimResize: a claim grows only if its class says that its volumes can.

// tidy: types PersistentVolumeClaim StorageClass

use rkube_machinery::quantity::Quantity;
use rkube_machinery::{Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub struct PersistentVolumeClaimResize {
    pub classes: Objects,
}

impl ImmediatePlugin for PersistentVolumeClaimResize {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_update() && attributes.is("", "persistentvolumeclaims")
    }

    fn validate(&self, attributes: &mut Attributes<'_>, claim: &Value) -> Result<(), Status> {
        let Some(old) = attributes.old.filter(|old| asked(claim) > asked(old)) else { return Ok(()) };
        if old.get("status").str("phase") != "Bound" {
            return Err(attributes.forbidden(claim, "Only bound persistent volume claims can be expanded"));
        }
        let class = class_of(claim);
        let found = self.classes.find("", class).filter(|_| !class.is_empty() && class == class_of(old));
        if found.is_some_and(|class| class.tree().bool("allowVolumeExpansion")) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(attributes.forbidden(claim, why))
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
