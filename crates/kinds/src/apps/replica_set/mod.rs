//! ReplicaSet: so many pods of one template.

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use super::template::{self, SPEC, STATUS};
use super::{cells, numbers, selector};
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::PodOptions;
use crate::fields::carry;
use crate::kind::{Column, Part, Row, RowScale, Rules, Subresource};

pub static KIND: Row = Row {
    group: "apps",
    kind: "ReplicaSet",
    resource: "replicasets",
    singular: "replicaset",
    short_names: &["rs"],
    categories: &["all"],
    type_name: "io.k8s.api.apps.v1.ReplicaSet",
    storage_prefix: "replicasets",
    subresources: &[Subresource::SCALE, Subresource::STATUS],
    scale: Some(RowScale::WORKLOAD),
    columns: &[
        NAME,
        cells::number("Desired", "doc:io.k8s.api.apps.v1.ReplicaSetSpec replicas", cells::desired),
        cells::number("Current", "doc:io.k8s.api.apps.v1.ReplicaSetStatus replicas", cells::current),
        cells::number("Ready", "doc:io.k8s.api.apps.v1.ReplicaSetStatus readyReplicas", cells::ready),
        AGE,
        cells::CONTAINERS,
        cells::IMAGES,
        Column::wide("Selector", "doc:io.k8s.api.apps.v1.ReplicaSetSpec selector", cells::selector),
    ],
    strategy: Strategy { reset_fields: ResetFields::STATUS, ..Strategy::DEFAULTS },
    rules: &ReplicaSetRules,
    ..Row::DEFAULTS
};

struct ReplicaSetRules;

impl Rules for ReplicaSetRules {
    fn default(&self, set: &mut Value) {
        let spec = set.object_mut("spec");
        spec.set_if_absent("replicas", 1);
        template::default_template(spec);
    }

    fn prepare_create(&self, set: &mut Value) {
        template::prepare_create(set);
    }

    fn validate_create(&self, set: &Value, errors: &mut Errors) {
        validate_spec(set.get("spec"), &template::options(None), errors);
    }

    fn prepare_update(&self, part: Part, set: &mut Value, old: &Value) {
        if part == Part::Status {
            return carry(set, old, "spec");
        }
        carry(set, old, "status");
        template::drop_disabled(set, old);
        if !template::same_specs(set.get("spec"), old.get("spec")) {
            template::count_generation(set, old);
        }
    }

    fn validate_update(&self, part: Part, set: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(set.get("status"), errors);
        }
        validate_spec(set.get("spec"), &template::options(Some(old)), errors);
        let path = SPEC.child("selector");
        selector::validate_same(path, set.at(&["spec", "selector"]), old.at(&["spec", "selector"]), errors);
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        if let Some(old) = old {
            return template::warnings_of_change(set, old);
        }
        let mut warnings: Vec<String> = template::name_warning(set).into_iter().collect();
        warnings.extend(template::warnings(set));
        warnings
    }
}

fn validate_spec(spec: &Value, options: &PodOptions, errors: &mut Errors) {
    numbers::validate_not_negative(SPEC, spec, &["replicas", "minReadySeconds"], errors);
    let path = SPEC.child("selector");
    // The words speak of a deployment, as clients know them.
    let found = selector::validate(path, spec.get("selector"), "deployment", "invalid label selector", errors);
    if let Some(found) = found {
        template::validate(SPEC.child("template"), spec.get("template"), &found, options, "ReplicaSet", errors);
    }
}

/// The status of a set of replicas, of this kind and of the older one.
pub(crate) fn validate_status(status: &Value, errors: &mut Errors) {
    const COUNTS: &[&str] = &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    numbers::validate_not_negative(STATUS, status, COUNTS, errors);
    numbers::validate_parts(STATUS, status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], errors);
    numbers::validate_available(STATUS, status, "cannot be greater than readyReplicas", errors);
}
