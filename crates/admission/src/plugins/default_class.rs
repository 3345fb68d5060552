//! DefaultStorageClass and DefaultIngressClass: what names no class gets the one that is marked as the default.

// tidy: types Ingress IngressClass PersistentVolumeClaim StorageClass

use rkube_machinery::{Status, Value};

use crate::{Attributes, ImmediatePlugin, Objects};

pub struct DefaultClass {
    group: &'static str,
    resource: &'static str,
    /// The field of the spec that names the class, and the annotation that did so before there was one.
    field: &'static str,
    old_annotation: &'static str,
    classes: Objects,
    /// What marks a class as the default.
    marks: &'static [&'static str],
}

impl DefaultClass {
    pub fn of_claims(classes: Objects) -> Self {
        DefaultClass {
            group: "",
            resource: "persistentvolumeclaims",
            field: "storageClassName",
            old_annotation: "volume.beta.kubernetes.io/storage-class",
            classes,
            marks: &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
        }
    }

    pub fn of_ingresses(classes: Objects) -> Self {
        DefaultClass {
            group: "networking.k8s.io",
            resource: "ingresses",
            field: "ingressClassName",
            old_annotation: "kubernetes.io/ingress.class",
            classes,
            marks: &["ingressclass.kubernetes.io/is-default-class"],
        }
    }
}

impl ImmediatePlugin for DefaultClass {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is_create() && attributes.is(self.group, self.resource)
    }

    fn mutate(&self, _attributes: &mut Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let annotated = object.at(&["metadata", "annotations"]).has(self.old_annotation);
        if !annotated
            && !object.get("spec").has(self.field)
            && let Some(name) = newest_default(&self.classes.all(), self.marks)
        {
            object.object_mut("spec").set(self.field, name);
        }
        Ok(())
    }
}

/// The newest class that one of these annotations marks as the default; of equally new ones the first by name.
fn newest_default<'a>(classes: &'a rkube_catalog::Items, annotations: &[&str]) -> Option<&'a str> {
    let values = classes.values().map(|entry| entry.object.tree());
    let defaults = values.filter(|class| {
        let given = class.at(&["metadata", "annotations"]);
        annotations.iter().any(|annotation| given.str(annotation) == "true")
    });
    let newest = defaults.min_by_key(|class| {
        let metadata = class.get("metadata");
        (std::cmp::Reverse(metadata.str("creationTimestamp")), metadata.str("name"))
    });
    newest.map(|class| class.get("metadata").str("name"))
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn of_several_default_classes_the_newest_counts() {
        let snapshot = rkube_catalog::Snapshot::unfed(rkube_kinds::all());
        let classes = snapshot.resource("storage.k8s.io", "v1", "storageclasses").unwrap();
        let table = [("a", "2020", "true"), ("c", "2021", "true"), ("b", "2021", "true"), ("d", "2022", "false")];
        let stored = table.map(|(name, year, default)| {
            let created = format!("{year}-01-01T00:00:00Z");
            let annotations = object! { "d": default };
            let metadata = object! { "name": name, "creationTimestamp": created, "annotations": annotations };
            object! { "metadata": metadata }
        });
        classes.fill(&stored, 1);
        let classes = classes.snapshot().0;
        assert_eq!(newest_default(&classes, &["other", "d"]), Some("b"));
        assert_eq!(newest_default(&classes, &["other"]), None);
    }
}
