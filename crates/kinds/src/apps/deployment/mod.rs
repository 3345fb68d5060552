//! Deployment: pods of one template, moved to the next template bit by bit.

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::managed::Reset;
use rkube_machinery::selector::labels::Selector;

use super::template::{self, SPEC, STATUS};
use super::{cells, numbers, selector};
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::{PodOptions, go_form};
use crate::fields::{carry, carry_inner};
use crate::kind::{Column, Part, Row, RowScale, Rules, Subresource};

pub static KIND: Row = Row {
    group: "apps",
    kind: "Deployment",
    resource: "deployments",
    singular: "deployment",
    short_names: &["deploy"],
    categories: &["all"],
    type_name: "io.k8s.api.apps.v1.Deployment",
    storage_prefix: "deployments",
    subresources: &[Subresource::SCALE, Subresource::STATUS],
    scale: Some(RowScale::WORKLOAD),
    columns: &[
        NAME,
        Column::text("Ready", "Number of the pod with ready state", cells::ready_of_desired),
        Column::text("Up-to-date", "doc:io.k8s.api.apps.v1.DeploymentStatus updatedReplicas", |object, _| {
            object.get("status").int("updatedReplicas").into()
        }),
        Column::text("Available", "doc:io.k8s.api.apps.v1.DeploymentStatus availableReplicas", |object, _| {
            object.get("status").int("availableReplicas").into()
        }),
        AGE,
        cells::CONTAINERS,
        cells::IMAGES,
        Column::wide("Selector", "doc:io.k8s.api.apps.v1.DeploymentSpec selector", shown_selector),
    ],
    strategy: Strategy {
        reset_fields: ResetFields {
            status: Reset::Fields(&[&["spec"], &["metadata", "labels"]]),
            ..ResetFields::STATUS
        },
        ..Strategy::DEFAULTS
    },
    rules: &DeploymentRules,
    ..Row::DEFAULTS
};

/// Where a rollback of an older API is kept: the revision to go back to.
const ROLLBACK: &str = "deprecated.deployment.rollback.to";
/// How many pods more and fewer than asked for there may be during a change.
const STEP: &str = "25%";
const REVISIONS_KEPT: i64 = 10;
const PROGRESS_SECONDS: i64 = 600;

struct DeploymentRules;

impl Rules for DeploymentRules {
    fn default(&self, deployment: &mut Value) {
        default_rollback(deployment);
        let spec = deployment.object_mut("spec");
        spec.set_if_absent("replicas", 1);
        let strategy = spec.object_mut("strategy");
        strategy.set_default("type", "RollingUpdate");
        if strategy.str("type") == "RollingUpdate" {
            let rolling = strategy.object_mut("rollingUpdate");
            rolling.set_if_absent("maxUnavailable", STEP);
            rolling.set_if_absent("maxSurge", STEP);
        }
        spec.set_if_absent("revisionHistoryLimit", REVISIONS_KEPT);
        spec.set_if_absent("progressDeadlineSeconds", PROGRESS_SECONDS);
        template::default_template(spec);
    }

    fn prepare_create(&self, deployment: &mut Value) {
        template::prepare_create(deployment);
    }

    fn validate_create(&self, deployment: &Value, errors: &mut Errors) {
        validate_spec(deployment, &template::options(None), errors);
    }

    fn prepare_update(&self, part: Part, deployment: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(deployment, old, "spec");
            return carry_inner(deployment, old, "metadata", "labels");
        }
        carry(deployment, old, "status");
        template::drop_disabled(deployment, old);
        // Annotations count too: they are passed on to replica sets.
        let annotations = |object: &Value| object.at(&["metadata", "annotations"]).clone();
        if !template::same_specs(deployment.get("spec"), old.get("spec"))
            || !go_form::same_plain(&annotations(deployment), &annotations(old))
        {
            template::count_generation(deployment, old);
        }
    }

    fn validate_update(&self, part: Part, deployment: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(deployment.get("status"), old.get("status"), errors);
        }
        validate_spec(deployment, &template::options(Some(old)), errors);
        let path = SPEC.child("selector");
        selector::validate_same(path, deployment.at(&["spec", "selector"]), old.at(&["spec", "selector"]), errors);
    }

    fn warnings(&self, deployment: &Value, old: Option<&Value>) -> Vec<String> {
        if let Some(old) = old {
            return template::warnings_of_change(deployment, old);
        }
        let mut warnings: Vec<String> = template::name_warning(deployment).into_iter().collect();
        warnings.extend(template::warnings(deployment));
        warnings
    }
}

/// The revision to go back to is kept as a number, and not at all where it is empty.
fn default_rollback(deployment: &mut Value) {
    let annotations = deployment.find_mut("metadata").and_then(|metadata| metadata.find_mut("annotations"));
    let Some(annotations) = annotations.filter(|annotations| annotations.has(ROLLBACK)) else { return };
    match annotations.str(ROLLBACK) {
        "" => {
            annotations.remove(ROLLBACK);
        }
        text => {
            if let Ok(revision) = text.parse::<i64>() {
                annotations.set(ROLLBACK, revision.to_string());
            }
        }
    }
}

fn validate_spec(deployment: &Value, options: &PodOptions, errors: &mut Errors) {
    let spec = deployment.get("spec");
    numbers::validate_not_negative(SPEC, spec, &["replicas"], errors);
    let path = SPEC.child("selector");
    let found = selector::validate(path, spec.get("selector"), "deployment", "invalid label selector", errors);
    if let Some(found) = found {
        template::validate(SPEC.child("template"), spec.get("template"), &found, options, "ReplicaSet", errors);
    }
    validate_strategy(SPEC.child("strategy"), spec.get("strategy"), errors);
    numbers::validate_not_negative(SPEC, spec, &["minReadySeconds", "revisionHistoryLimit"], errors);
    let rollback = deployment.at(&["metadata", "annotations"]).str(ROLLBACK).parse::<i64>();
    if let Ok(revision) = rollback {
        numbers::validate_number(SPEC.child("rollback").child("version"), revision, errors);
    }
    if spec.has("progressDeadlineSeconds") {
        let (path, seconds) = (SPEC.child("progressDeadlineSeconds"), spec.int("progressDeadlineSeconds"));
        numbers::validate_number(path, seconds, errors);
        if seconds <= spec.int("minReadySeconds") {
            errors.invalid(path, seconds, "must be greater than minReadySeconds");
        }
    }
}

fn validate_strategy(path: Path<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = strategy.get("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.str("type") {
        "Recreate" if !rolling.is_null() => {
            errors.forbidden(rolling_path, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" if rolling.is_null() => {
            errors.required(rolling_path, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => validate_rolling_update(rolling_path, rolling, errors),
        _ => {
            let shown = BadValue::Text(go_form::go_json("DeploymentStrategy", strategy));
            errors.not_supported(path, shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn validate_rolling_update(path: Path<'_>, rolling: &Value, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
    let unavailable_path = path.child("maxUnavailable");
    numbers::validate_count_or_percent(unavailable_path, unavailable, errors);
    numbers::validate_count_or_percent(path.child("maxSurge"), surge, errors);
    if numbers::count_or_percent(unavailable) == 0 && numbers::count_or_percent(surge) == 0 {
        errors.invalid(unavailable_path, unavailable, "may not be 0 when `maxSurge` is 0");
    }
    numbers::validate_at_most_all(unavailable_path, unavailable, errors);
}

fn validate_status(status: &Value, old: &Value, errors: &mut Errors) {
    const COUNTS: &[&str] = &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    numbers::validate_not_negative(STATUS, status, COUNTS, errors);
    numbers::validate_parts(STATUS, status, &["updatedReplicas", "readyReplicas", "availableReplicas"], errors);
    numbers::validate_available(STATUS, status, "cannot be greater than readyReplicas", errors);
    numbers::validate_collisions(STATUS, status, old, errors);
}

fn shown_selector(deployment: &Value, _now: i64) -> Value {
    match Selector::from_label_selector(deployment.at(&["spec", "selector"])) {
        Ok(selector) => selector.to_string().into(),
        Err(_) => "<invalid>".into(),
    }
}
