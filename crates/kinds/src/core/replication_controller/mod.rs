//! ReplicationController: so many pods of one template, with a plain selector. The older ReplicaSet.

use crate::strategy::{NameRule, ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, ErrorType, Errors, Path};
use rkube_machinery::selector::labels::Selector;

use crate::apps::template::{self, SPEC};
use crate::apps::{cells, numbers, replica_set};
use crate::columns::{self, AGE, NAME};
use crate::core::pod_spec::{self, PodOptions, go_form};
use crate::fields::carry;
use crate::kind::{Column, Part, Row, RowScale, Rules, Selectable, SelectorForm, Subresource};

pub static KIND: Row = Row {
    kind: "ReplicationController",
    resource: "replicationcontrollers",
    singular: "replicationcontroller",
    short_names: &["rc"],
    categories: &["all"],
    type_name: "io.k8s.api.core.v1.ReplicationController",
    storage_prefix: "controllers",
    subresources: &[Subresource::SCALE, Subresource::STATUS],
    scale: Some(RowScale { selector_form: SelectorForm::Labels, ..RowScale::WORKLOAD }),
    columns: &[
        NAME,
        cells::number("Desired", "doc:io.k8s.api.core.v1.ReplicationControllerSpec replicas", cells::desired),
        cells::number("Current", "doc:io.k8s.api.core.v1.ReplicationControllerStatus replicas", cells::current),
        cells::number("Ready", "doc:io.k8s.api.core.v1.ReplicationControllerStatus readyReplicas", cells::ready),
        AGE,
        cells::CONTAINERS,
        cells::IMAGES,
        Column::wide("Selector", "doc:io.k8s.api.core.v1.ReplicationControllerSpec selector", |controller, _| {
            columns::labels(controller.get("spec").map("selector")).into()
        }),
    ],
    selectable: &[Selectable {
        label: "status.replicas",
        value: |controller| controller.get("status").int("replicas").to_string(),
    }],
    strategy: Strategy {
        name_rule: NameRule::LongName,
        reset_fields: ResetFields::STATUS,
        orphans_dependents: true,
        ..Strategy::DEFAULTS
    },
    rules: &ReplicationControllerRules,
    ..Row::DEFAULTS
};

/// Annotations with this name say what of a ReplicaSet a controller cannot say.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";

struct ReplicationControllerRules;

impl Rules for ReplicationControllerRules {
    /// Selector and labels are those of the template where nothing else is said.
    fn default(&self, controller: &mut Value) {
        let labels = controller.at(&["spec", "template", "metadata", "labels"]).clone();
        let spec = controller.object_mut("spec");
        spec.set_if_absent("replicas", 1);
        if let Some(template) = spec.find_mut("template") {
            pod_spec::default_pod_template(template);
        }
        if labels.is_empty() {
            return;
        }
        if spec.map("selector").is_empty() {
            spec.set("selector", labels.clone());
        }
        let metadata = controller.object_mut("metadata");
        if metadata.map("labels").is_empty() {
            metadata.set("labels", labels);
        }
    }

    fn prepare_create(&self, controller: &mut Value) {
        template::prepare_create(controller);
    }

    fn validate_create(&self, controller: &Value, errors: &mut Errors) {
        validate_spec(controller.get("spec"), &template::options(None), errors);
    }

    fn prepare_update(&self, part: Part, controller: &mut Value, old: &Value) {
        if part == Part::Status {
            return carry(controller, old, "spec");
        }
        carry(controller, old, "status");
        template::drop_disabled(controller, old);
        if !template::same_specs(controller.get("spec"), old.get("spec")) {
            template::count_generation(controller, old);
        }
    }

    fn validate_update(&self, part: Part, controller: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return replica_set::validate_status(controller.get("status"), errors);
        }
        validate_spec(controller.get("spec"), &template::options(Some(old)), errors);
        validate_non_convertible(controller, old, errors);
    }

    /// A change warns of the template that it replaces, as clients know it.
    fn warnings(&self, controller: &Value, old: Option<&Value>) -> Vec<String> {
        if let Some(old) = old {
            let changed = controller.at(&["metadata", "generation"]) != old.at(&["metadata", "generation"]);
            return if changed { template::warnings(old) } else { Vec::new() };
        }
        let mut warnings: Vec<String> = template::name_warning(controller).into_iter().collect();
        warnings.extend(template::warnings(controller));
        warnings
    }
}

fn validate_spec(spec: &Value, options: &PodOptions, errors: &mut Errors) {
    numbers::validate_not_negative(SPEC, spec, &["minReadySeconds"], errors);
    let selector = spec.map("selector");
    if selector.is_empty() {
        errors.required(SPEC.child("selector"), "");
    }
    if !spec.has("replicas") {
        errors.required(SPEC.child("replicas"), "");
    }
    numbers::validate_not_negative(SPEC, spec, &["replicas"], errors);
    let (path, template) = (SPEC.child("template"), spec.get("template"));
    if template.is_null() {
        return errors.required(path, "");
    }
    let selector = Selector::from_labels(selector);
    template::validate(path, template, &selector, options, "ReplicationController", errors);
}

/// What came from a ReplicaSet and cannot be said here may not change.
fn validate_non_convertible(controller: &Value, old: &Value, errors: &mut Errors) {
    for (key, value) in old.at(&["metadata", "annotations"]).as_map().iter() {
        let Some((_, field)) = key.split_once('/').filter(|_| key.starts_with(NON_CONVERTIBLE)) else { continue };
        if field.contains('/') {
            continue;
        }
        if !field.contains("selector") {
            let value = BadValue::String(value.as_str().to_owned());
            errors.push(ErrorType::NotFound, Path::new(field), Some(value), "unknown non-convertible field");
            continue;
        }
        let selector = controller.at(&["spec", "selector"]);
        if !go_form::same_plain(selector, old.at(&["spec", "selector"])) {
            errors.invalid(SPEC.child("selector"), selector, "cannot update non-convertible selector");
        }
    }
}
