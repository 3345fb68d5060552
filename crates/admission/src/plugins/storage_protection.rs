//! StorageObjectInUseProtection: volumes, claims and classes of volume attributes are not gone while somebody uses them.

// tidy: types PersistentVolume PersistentVolumeClaim

use rkube_machinery::{Status, Value};

use crate::{Attributes, ImmediatePlugin};

const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

pub struct StorageObjectInUseProtection;

impl ImmediatePlugin for StorageObjectInUseProtection {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && finalizer(attributes).is_some()
    }

    fn mutate(&self, attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        if let Some(finalizer) = finalizer(attributes) {
            let finalizers = object.object_mut("metadata").array_mut("finalizers");
            if !finalizers.iter().any(|one| one.as_str() == finalizer) {
                finalizers.push(finalizer.into());
            }
        }
        Ok(())
    }
}

fn finalizer(attributes: &Attributes<'_>) -> Option<&'static str> {
    PROTECTED.iter().find(|(group, resource, _)| attributes.is(group, resource)).map(|(_, _, finalizer)| *finalizer)
}
