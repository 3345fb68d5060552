//! DeviceTaintRule: a taint for all devices that are alike in some way.

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::{GROUP, names, taints};
use crate::columns::{AGE, NAME, since};
use crate::core::pod_spec::checks::dns_label;
use crate::core::pod_spec::validate_driver_name;
use crate::fields::{carry, carry_metadata};
use crate::kind::{Column, Part, Row, Rules, Scope, Subresource, renamed};
use crate::meta;

pub static KIND: Row = Row {
    group: GROUP,
    version: "v1beta2",
    kind: "DeviceTaintRule",
    resource: "devicetaintrules",
    singular: "devicetaintrule",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.resource.v1beta2.DeviceTaintRule",
    storage_prefix: "devicetaintrules",
    off_by_default: true,
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Key", "doc:io.k8s.api.resource.v1.DeviceTaint key", |rule, _| taint(rule).str("key").into()),
        Column::text("Value", "doc:io.k8s.api.resource.v1.DeviceTaint value", |rule, _| {
            taint(rule).str("value").into()
        }),
        Column::text("Effect", "doc:io.k8s.api.resource.v1.DeviceTaint effect", |rule, _| {
            taint(rule).str("effect").into()
        }),
        Column::text("TimeAdded", "doc:io.k8s.api.resource.v1.DeviceTaint timeAdded", |rule, now| {
            match taint(rule).str("timeAdded") {
                "" => "".into(),
                time => since(time, now).into(),
            }
        }),
        AGE,
    ],
    strategy: Strategy {
        has_generation: true,
        reset_fields: ResetFields::STATUS_ALONE,
        returns_deleted_object: true,
        ..Strategy::DEFAULTS
    },
    rules: &TaintRuleRules,
    ..Row::DEFAULTS
};

pub static ALPHA: Row = Row {
    version: "v1alpha3",
    type_name: "io.k8s.api.resource.v1alpha3.DeviceTaintRule",
    deprecation: "resource.k8s.io/v1alpha3 DeviceTaintRule is deprecated in v1.36+, unavailable in v1.39+",
    conversion: Some(renamed!("resource.k8s.io", "v1alpha3", stored as "v1beta2")),
    ..KIND
};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
const CONDITIONS_MAX: usize = 8;

struct TaintRuleRules;

impl Rules for TaintRuleRules {
    fn prepare_create(&self, rule: &mut Value) {
        rule.remove("status");
        stamp(rule, None);
    }

    fn validate_create(&self, rule: &Value, errors: &mut Errors) {
        validate(rule, None, errors);
    }

    /// A new effect counts from now.
    fn prepare_update(&self, part: Part, rule: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(rule, old, "spec");
            return carry_metadata(rule, old);
        }
        carry(rule, old, "status");
        let (now, before) = (taint(rule), taint(old));
        let changed = now.str("effect") != before.str("effect");
        if changed && now.str("timeAdded") == before.str("timeAdded") {
            rule.object_mut("spec").object_mut("taint").remove("timeAdded");
        }
        stamp(rule, Some(old));
    }

    fn validate_update(&self, part: Part, rule: &Value, old: &Value, errors: &mut Errors) {
        if part != Part::Status {
            return validate(rule, Some(old), errors);
        }
        let list = rule.get("status").list("conditions");
        meta::validate_conditions(STATUS.child("conditions"), list, errors);
        if list.len() > CONDITIONS_MAX {
            errors.too_many(STATUS.child("conditions"), list.len(), CONDITIONS_MAX);
        }
    }
}

fn taint(rule: &Value) -> &Value {
    rule.get("spec").get("taint")
}

fn stamp(rule: &mut Value, old: Option<&Value>) {
    let now = taints::now(rule, old);
    let taint = rule.object_mut("spec").object_mut("taint");
    taints::stamp(std::slice::from_mut(taint), now.as_ref());
}

fn validate(rule: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = SPEC.child("deviceSelector");
    let selector = rule.get("spec").get("deviceSelector");
    if selector.has("driver") {
        validate_driver_name(path.child("driver"), selector.str("driver"), errors);
    }
    if selector.has("pool") {
        names::pool(path.child("pool"), selector.str("pool"), errors);
    }
    if selector.has("device") {
        dns_label(path.child("device"), selector.str("device"), errors);
    }
    taints::validate_taint(SPEC.child("taint"), taint(rule), old.map(taint), errors);
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn rule(effect: &str, time: &str) -> Value {
        let fields = object! { "manager": "m", "time": "2026-01-02T00:00:00Z" };
        let taint = object! { "key": "a", "effect": effect, "timeAdded": time };
        object! {
            "metadata": object! { "managedFields": vec![fields] },
            "spec": object! { "taint": taint },
        }
    }

    #[test]
    fn a_new_effect_counts_from_now() {
        let old = rule("NoSchedule", "2026-01-01T00:00:00Z");
        let table = [
            (rule("NoSchedule", "2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z"),
            (rule("NoExecute", "2026-01-01T00:00:00Z"), "2026-01-02T00:00:00Z"),
            (rule("NoExecute", "2025-01-01T00:00:00Z"), "2025-01-01T00:00:00Z"),
        ];
        for (mut new, expected) in table {
            TaintRuleRules.prepare_update(Part::Main, &mut new, &old);
            assert_eq!(taint(&new).str("timeAdded"), expected);
        }
    }
}
