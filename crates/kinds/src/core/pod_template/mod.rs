//! PodTemplate: a template of pods that stands on its own.

use crate::strategy::Strategy;
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::apps::{cells, template};
use crate::columns::{self, NAME};
use crate::core::pod_spec::{self, PodOptions};
use crate::kind::{Column, Part, Row, Rules};

pub static KIND: Row = Row {
    kind: "PodTemplate",
    resource: "podtemplates",
    singular: "podtemplate",
    type_name: "io.k8s.api.core.v1.PodTemplate",
    storage_prefix: "podtemplates",
    columns: &[
        NAME,
        Column::text("Containers", cells::CONTAINERS_WORDS, |object, _| {
            cells::of_containers(object.get("template"), "name")
        }),
        Column::text("Images", cells::IMAGES_WORDS, |object, _| cells::of_containers(object.get("template"), "image")),
        Column::text("Pod Labels", "The labels for the pod template.", |object, _| {
            columns::labels(object.at(&["template", "metadata", "labels"]).as_map()).into()
        }),
    ],
    strategy: Strategy { returns_deleted_object: true, ..Strategy::DEFAULTS },
    rules: &PodTemplateRules,
    ..Row::DEFAULTS
};

const TEMPLATE: Path<'static> = Path::new("template");

struct PodTemplateRules;

impl Rules for PodTemplateRules {
    fn default(&self, object: &mut Value) {
        template::default_template(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object.object_mut("metadata").set("generation", 1);
        drop_disabled(object, &Value::Null);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        pod_spec::validate_pod_template(TEMPLATE, object.get("template"), &PodOptions::for_create(), errors);
    }

    fn prepare_update(&self, _part: Part, object: &mut Value, old: &Value) {
        drop_disabled(object, old);
        if !template::same(object.get("template"), old.get("template")) {
            template::count_generation(object, old);
        }
    }

    fn validate_update(&self, _part: Part, object: &Value, old: &Value, errors: &mut Errors) {
        let options = PodOptions::for_update(old.get("template"));
        pod_spec::validate_pod_template(TEMPLATE, object.get("template"), &options, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let generation = |object: &Value| object.get("metadata").int("generation");
        match old {
            Some(old) if generation(object) == generation(old) => Vec::new(),
            _ => pod_spec::template_warnings(TEMPLATE, object.get("template")),
        }
    }
}

fn drop_disabled(object: &mut Value, old: &Value) {
    if let Some(spec) = object.find_mut("template").and_then(|template| template.find_mut("spec")) {
        pod_spec::drop_disabled(spec, old.at(&["template", "spec"]));
    }
}
