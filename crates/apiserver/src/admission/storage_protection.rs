//! StorageObjectInUseProtection: volumes, claims and classes of volume attributes are not gone while somebody uses them.

use futures::future::BoxFuture;
use rkube_machinery::{Status, Value};

use super::{Attributes, Operation, Plugin};

const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    ("storage.k8s.io", "volumeattributesclasses", "kubernetes.io/vac-protection"),
];

pub struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn handles(&self, attributes: &Attributes) -> bool {
        attributes.operation == Operation::Create && finalizer(attributes).is_some()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a mut Attributes,
        object: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        if let Some(finalizer) = finalizer(attributes) {
            let finalizers = object.object_mut("metadata").array_mut("finalizers");
            if !finalizers.iter().any(|one| one.as_str() == finalizer) {
                finalizers.push(finalizer.into());
            }
        }
        Box::pin(async { Ok(()) })
    }
}

fn finalizer(attributes: &Attributes) -> Option<&'static str> {
    PROTECTED.iter().find(|(group, resource, _)| attributes.is(group, resource)).map(|(_, _, finalizer)| *finalizer)
}
