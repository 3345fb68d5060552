//! The `scale` subresource: how many replicas an object has and should have, the same for all kinds that have one.

use crate::strategy::NameRule;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::selector::labels::{ParseError, Selector};
use rkube_machinery::{Text, Value, object};

use crate::apps::cells;
use crate::columns::AGE;
use crate::kind::{Column, ScalePaths, SelectorForm};
use crate::meta;

/// What tables show of a scale.
pub const COLUMNS: &[Column] = &[
    Column::text("Name", "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta name", |scale, _| {
        scale.get("metadata").str("name").into()
    }),
    cells::number("Desired", "doc:io.k8s.api.autoscaling.v1.ScaleSpec replicas", cells::desired),
    cells::number("Available", "doc:io.k8s.api.autoscaling.v1.ScaleStatus replicas", cells::current),
    AGE,
];

/// What a scale has of the object's metadata.
static METADATA: [[Text; 2]; 5] = [
    metadata("name"),
    metadata("namespace"),
    metadata("uid"),
    metadata("resourceVersion"),
    metadata("creationTimestamp"),
];

const fn metadata(field: &'static str) -> [Text; 2] {
    [Text::new_static("metadata"), Text::new_static(field)]
}

impl ScalePaths {
    /// Where all lies that a scale is made of.
    pub fn sources(&self) -> Vec<&[Text]> {
        let own = [&*self.spec_replicas, &*self.status_replicas, &*self.selector];
        METADATA.iter().map(<[Text; 2]>::as_slice).chain(own).collect()
    }

    /// The object's scale, without managed fields.
    pub fn scale_of(&self, object: &Value) -> Result<Value, ParseError> {
        let selector = object.at(&self.selector);
        let selector = match self.selector_form {
            SelectorForm::LabelSelector => Selector::from_label_selector(selector)?.to_string(),
            SelectorForm::Labels => Selector::from_labels(selector.as_map()).to_string(),
            SelectorForm::Text if self.selector.is_empty() => String::new(),
            SelectorForm::Text => selector.as_str().to_owned(),
        };
        let mut metadata = Value::object();
        for [parent, field] in &METADATA {
            let value = object.get(parent).get(field);
            if !value.is_null() {
                metadata.set(field, value.clone());
            }
        }
        let replicas = |path: &[Text]| object.at(path).as_int().unwrap_or(0);
        let mut status = object! { "replicas": replicas(&self.status_replicas) };
        if !selector.is_empty() {
            status.set("selector", selector);
        }
        Ok(object! {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": object! { "replicas": replicas(&self.spec_replicas) },
            "status": status,
        })
    }

    /// Takes over into the object what the scale asks for.
    pub fn write_scale(&self, scale: &Value, object: &mut Value) {
        let Some((last, path)) = self.spec_replicas.split_last() else { return };
        let parent = path.iter().fold(object, |parent, field| parent.object_mut(field));
        parent.set(last, scale.get("spec").int("replicas"));
    }
}

/// What is wrong with a scale that a client writes.
pub fn validate(scale: &Value) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("metadata");
    let metadata = scale.get("metadata");
    meta::validate(path, metadata, true, NameRule::Subdomain, &mut errors);
    meta::validate_known_finalizers(path, metadata, &mut errors);
    let replicas = scale.get("spec").int("replicas");
    if replicas < 0 {
        let path = Path::new("spec");
        errors.invalid(path.child("replicas"), replicas, "must be greater than or equal to 0");
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> ScalePaths {
        crate::find("apps", "v1", "deployments").unwrap().scale.clone().unwrap()
    }

    fn deployment() -> Value {
        object! {
            "metadata": object! { "name": "a", "namespace": "n", "uid": "u", "labels": object! { "x": "y" } },
            "spec": object! {
                "replicas": 3,
                "selector": object! { "matchLabels": object! { "b": "2", "a": "1" } },
            },
            "status": object! { "replicas": 2 },
        }
    }

    #[test]
    fn a_scale_is_read_and_written() {
        let mut deployment = deployment();
        let mut scale = workload().scale_of(&deployment).unwrap();
        assert_eq!(scale.get("metadata"), &object! { "name": "a", "namespace": "n", "uid": "u" });
        assert_eq!(scale.get("spec"), &object! { "replicas": 3 });
        assert_eq!(scale.get("status"), &object! { "replicas": 2, "selector": "a=1,b=2" });
        scale.object_mut("spec").set("replicas", 5);
        workload().write_scale(&scale, &mut deployment);
        assert_eq!(deployment.get("spec").int("replicas"), 5);
    }

    #[test]
    fn plain_selectors_are_read_too() {
        let paths = ScalePaths { selector_form: SelectorForm::Labels, ..workload() };
        let controller = object! { "spec": object! { "selector": object! { "app": "a" } } };
        assert_eq!(paths.scale_of(&controller).unwrap().get("status").str("selector"), "app=a");
    }

    #[test]
    fn a_scale_is_checked() {
        let texts = |replicas: i64| -> Vec<String> {
            let mut scale = workload().scale_of(&deployment()).unwrap();
            scale.object_mut("spec").set("replicas", replicas);
            validate(&scale).0.iter().map(ToString::to_string).collect()
        };
        assert!(texts(0).is_empty());
        assert_eq!(texts(-1), ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]);
    }
}
