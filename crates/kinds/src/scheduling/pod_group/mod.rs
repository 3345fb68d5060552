//! PodGroup: pods that are placed together. Off unless it is asked for.

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::managed::Reset;

use super::templates;
use crate::columns::{AGE, NAME, NONE};
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    group: "scheduling.k8s.io",
    version: "v1alpha2",
    kind: "PodGroup",
    resource: "podgroups",
    singular: "podgroup",
    type_name: "io.k8s.api.scheduling.v1alpha2.PodGroup",
    storage_prefix: "podgroups",
    off_by_default: true,
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Policy", "doc:io.k8s.api.scheduling.v1alpha2.PodGroupSpec schedulingPolicy", |group, _| {
            let policy = group.at(&["spec", "schedulingPolicy"]);
            if policy.has("gang") { "Gang".into() } else { "Basic".into() }
        }),
        Column::text("Workload", "Name of the referenced Workload object", |group, _| {
            let reference = group.at(&["spec", "podGroupTemplateRef"]);
            if reference.is_null() { NONE.into() } else { reference.get("workload").str("workloadName").into() }
        }),
        Column::text("Status", "Status of the PodGroup", status),
        AGE,
    ],
    strategy: Strategy {
        reset_fields: ResetFields { status: Reset::Fields(&[&["metadata"], &["spec"]]), ..ResetFields::NONE },
        ..Strategy::DEFAULTS
    },
    rules: &PodGroupRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
struct PodGroupRules;

impl Rules for PodGroupRules {
    fn default(&self, group: &mut Value) {
        group.object_mut("spec").set_if_absent("disruptionMode", "Pod");
    }

    fn prepare_create(&self, group: &mut Value) {
        group.remove("status");
        templates::drop_disabled(group.object_mut("spec"), &Value::Null);
    }

    fn validate_create(&self, group: &Value, errors: &mut Errors) {
        let spec = group.get("spec");
        if spec.has("podGroupTemplateRef") {
            let path = SPEC.child("podGroupTemplateRef");
            templates::validate_template_reference(path, spec.get("podGroupTemplateRef"), errors);
        }
        templates::validate_policy(SPEC.child("schedulingPolicy"), spec.get("schedulingPolicy"), errors);
    }

    fn prepare_update(&self, part: Part, group: &mut Value, old: &Value) {
        if part != Part::Status {
            carry(group, old, "status");
            return templates::drop_disabled(group.object_mut("spec"), old.get("spec"));
        }
        carry(group, old, "spec");
        carry_metadata(group, old);
        if old.get("spec").list("resourceClaims").is_empty()
            && let Some(status) = group.find_mut("status")
        {
            status.remove("resourceClaimStatuses");
        }
    }

    fn validate_update(&self, part: Part, group: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            let conditions = group.get("status").list("conditions");
            return meta::validate_conditions(STATUS.child("conditions"), conditions, errors);
        }
        let (spec, old) = (group.get("spec"), old.get("spec"));
        for field in ["podGroupTemplateRef", "schedulingPolicy"] {
            if spec.get(field) != old.get(field) {
                errors.invalid(SPEC.child(field), &Value::Null, "field is immutable");
            }
        }
        // What was there before its feature was off may stay, but not change.
        for field in ["schedulingConstraints", "disruptionMode", "priorityClassName", "priority"] {
            let given = if field == "priorityClassName" { !spec.str(field).is_empty() } else { spec.has(field) };
            if given && spec.get(field) != old.get(field) {
                errors.forbidden(SPEC.child(field), "");
            }
        }
    }

    /// As objects read: the default holds although a new group may not say so itself.
    fn canonicalize(&self, group: &mut Value) {
        self.default(group);
    }
}

fn status(group: &Value, _now: i64) -> Value {
    let conditions = group.get("status").list("conditions");
    let last = |kind: &str| conditions.iter().rfind(|condition| condition.str("type") == kind);
    if let Some(target) = last("DisruptionTarget") {
        return target.str("reason").into();
    }
    match last("PodGroupScheduled").map(|condition| condition.str("status")) {
        Some("True") => "Scheduled".into(),
        Some(_) => "Unschedulable".into(),
        None => "Pending".into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn what_features_that_are_off_would_say_is_dropped() {
        let spec = object! {
            "schedulingPolicy": object! { "basic": Value::object() }, "priority": 5, "disruptionMode": "PodGroup",
        };
        let mut group = object! { "metadata": object! { "name": "g", "namespace": "n" }, "spec": spec };
        PodGroupRules.default(&mut group);
        PodGroupRules.prepare_create(&mut group);
        assert!(Kind::of(&KIND).validate_create(&group).is_empty());
        PodGroupRules.canonicalize(&mut group);
        assert_eq!(group.get("spec").str("disruptionMode"), "Pod");
        assert!(!group.get("spec").has("priority"));
        let mut changed = group.clone();
        changed.object_mut("spec").set("disruptionMode", "PodGroup");
        changed.object_mut("spec").set("schedulingPolicy", object! { "gang": object! { "minCount": 2 } });
        PodGroupRules.prepare_update(Part::Main, &mut changed, &group);
        let mut errors = Errors::new();
        PodGroupRules.validate_update(Part::Main, &changed, &group, &mut errors);
        assert_eq!(
            errors.summary(),
            "[spec.schedulingPolicy: Invalid value: null: field is immutable, spec.disruptionMode: Forbidden]"
        );
    }
}
