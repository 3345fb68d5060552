//! Workload: the groups of pods that something larger is made of. Off unless it is asked for.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names;

use super::templates;
use crate::columns::{AGE, NAME};
use crate::core::pod_spec::checks::Seen;
use crate::kind::{Part, Row, Rules};

pub static KIND: Row = Row {
    group: "scheduling.k8s.io",
    version: "v1alpha2",
    kind: "Workload",
    resource: "workloads",
    singular: "workload",
    type_name: "io.k8s.api.scheduling.v1alpha2.Workload",
    storage_prefix: "workloads",
    off_by_default: true,
    columns: &[NAME, AGE],
    rules: &WorkloadRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");
const TEMPLATES_MAX: usize = 8;

struct WorkloadRules;

impl Rules for WorkloadRules {
    fn prepare_create(&self, workload: &mut Value) {
        drop_disabled(workload, &Value::Null);
    }

    fn validate_create(&self, workload: &Value, errors: &mut Errors) {
        let spec = workload.get("spec");
        if spec.has("controllerRef") {
            validate_controller(SPEC.child("controllerRef"), spec.get("controllerRef"), errors);
        }
        let path = SPEC.child("podGroupTemplates");
        if validate_count(path, spec.list("podGroupTemplates").len(), errors) {
            validate_templates(path, spec.list("podGroupTemplates"), errors);
        }
    }

    fn prepare_update(&self, _part: Part, workload: &mut Value, old: &Value) {
        drop_disabled(workload, old);
    }

    fn validate_update(&self, _part: Part, workload: &Value, old: &Value, errors: &mut Errors) {
        let (spec, old) = (workload.get("spec"), old.get("spec"));
        if spec.get("controllerRef") != old.get("controllerRef") {
            errors.invalid(SPEC.child("controllerRef"), &Value::Null, "field is immutable");
        }
        if spec.list("podGroupTemplates") != old.list("podGroupTemplates") {
            let path = SPEC.child("podGroupTemplates");
            errors.invalid(path, &Value::Null, "field is immutable");
            validate_count(path, spec.list("podGroupTemplates").len(), errors);
        }
    }
}

fn drop_disabled(workload: &mut Value, old: &Value) {
    let old = old.get("spec").list("podGroupTemplates");
    for (index, template) in workload.object_mut("spec").list_mut("podGroupTemplates").iter_mut().enumerate() {
        templates::drop_disabled(template, old.get(index).unwrap_or(&Value::Null));
    }
}

fn validate_controller(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    let group = reference.str("apiGroup");
    if !group.is_empty() {
        for message in names::long_name(group) {
            errors.invalid(path.child("apiGroup"), group, message);
        }
    }
    templates::require(path, reference, "kind", names::path_segment_name, errors);
    templates::require(path, reference, "name", names::path_segment_name, errors);
}

/// Some, but not too many.
fn validate_count(path: Path<'_>, count: usize, errors: &mut Errors) -> bool {
    if count > TEMPLATES_MAX {
        errors.too_many(path, count, TEMPLATES_MAX);
    }
    if count == 0 {
        errors.required(path, "");
    }
    (1..=TEMPLATES_MAX).contains(&count)
}

fn validate_templates(path: Path<'_>, all: &[Value], errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, template) in all.iter().enumerate() {
        if !seen.add(template.str("name")) {
            errors.duplicate(path.index(index), template);
        }
    }
    for (index, template) in all.iter().enumerate() {
        let path = path.index(index);
        templates::require(path, template, "name", names::short_name, errors);
        templates::validate_policy(path.child("schedulingPolicy"), template.get("schedulingPolicy"), errors);
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn templates_have_names_of_their_own() {
        let template = |name: &str| {
            let policy = object! { "basic": Value::object() };
            object! { "name": name, "schedulingPolicy": policy, "schedulingConstraints": Value::Null }
        };
        let spec = object! {
            "controllerRef": object! { "kind": "a/b" }, "podGroupTemplates": vec![template("a"), template("a")],
        };
        let mut errors = Errors::new();
        WorkloadRules.validate_create(&object! { "spec": spec }, &mut errors);
        let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
                "spec.controllerRef.name: Required value",
                "spec.podGroupTemplates[1]: Duplicate value: {\"name\":\"a\",\"schedulingPolicy\":{\"basic\":{}},\
                 \"schedulingConstraints\":null}",
            ]
        );
    }
}
