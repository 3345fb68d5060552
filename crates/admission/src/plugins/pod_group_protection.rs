//! PodGroupProtection: a group of pods stays until no pod is in it. A controller says when that is.

// tidy: types PodGroup

use rkube_machinery::{Status, Value};

use crate::{Attributes, ImmediatePlugin};

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

pub struct PodGroupProtection;

impl ImmediatePlugin for PodGroupProtection {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && attributes.is("scheduling.k8s.io", "podgroups")
    }

    fn mutate(&self, _attributes: &mut Attributes<'_>, group: &mut Value) -> Result<(), Status> {
        protect(group.object_mut("metadata"));
        Ok(())
    }
}

fn protect(metadata: &mut Value) {
    let mut finalizers = metadata.list("finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer.as_str() == FINALIZER) {
        finalizers.push(FINALIZER.into());
        metadata.set("finalizers", finalizers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_protected_once() {
        let mut metadata = Value::object();
        metadata.set("finalizers", vec![Value::from("example.com/first")]);
        for _ in 0..2 {
            protect(&mut metadata);
            let finalizers: Vec<_> = metadata.list("finalizers").iter().map(Value::as_str).collect();
            assert_eq!(finalizers, ["example.com/first", FINALIZER]);
        }
    }
}
