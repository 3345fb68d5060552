//! ResourceQuota: how much a namespace may have in all.

mod validate;

use crate::strategy::{ResetFields, Strategy};
use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::columns::{AGE, NAME};
use crate::core::pod_spec::amounts;
use crate::fields::carry;
use crate::kind::{Column, Part, Row, Rules, Subresource};

pub static KIND: Row = Row {
    kind: "ResourceQuota",
    resource: "resourcequotas",
    singular: "resourcequota",
    short_names: &["quota"],
    type_name: "io.k8s.api.core.v1.ResourceQuota",
    storage_prefix: "resourcequotas",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text(
            "Request",
            "Request represents a minimum amount of cpu/memory that a container may consume.",
            |quota, _| usage(quota, false),
        ),
        Column::text(
            "Limit",
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on \
             the node.",
            |quota, _| usage(quota, true),
        ),
        AGE,
    ],
    strategy: Strategy { reset_fields: ResetFields::STATUS, returns_deleted_object: true, ..Strategy::DEFAULTS },
    rules: &QuotaRules,
    ..Row::DEFAULTS
};

struct QuotaRules;

impl Rules for QuotaRules {
    fn default(&self, quota: &mut Value) {
        if let Some(spec) = quota.find_mut("spec") {
            amounts::round_up_list(spec, "hard");
        }
        if let Some(status) = quota.find_mut("status") {
            amounts::round_up_list(status, "hard");
            amounts::round_up_list(status, "used");
        }
    }

    fn prepare_create(&self, quota: &mut Value) {
        quota.remove("status");
    }

    fn validate_create(&self, quota: &Value, errors: &mut Errors) {
        validate::spec(quota.get("spec"), errors);
    }

    fn prepare_update(&self, part: Part, quota: &mut Value, old: &Value) {
        carry(quota, old, if part == Part::Status { "spec" } else { "status" });
    }

    fn validate_update(&self, part: Part, quota: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return validate::status(quota, errors);
        }
        validate::spec(quota.get("spec"), errors);
        validate::scopes_stay(quota.get("spec"), old.get("spec"), errors);
    }

    /// New quotas whose requests do not fit below their limits.
    fn warnings(&self, quota: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = quota.get("spec").map("hard");
        let mut warnings = Vec::new();
        for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let (mut request_name, limit_name) = (format!("requests.{resource}"), format!("limits.{resource}"));
            if !hard.contains(&request_name) && matches!(resource, "cpu" | "memory") {
                request_name = resource.to_owned();
            }
            let (Some(request), Some(limit)) = (hard.get(&request_name), hard.get(&limit_name)) else { continue };
            if amounts::of(request) > amounts::of(limit) {
                warnings.push(format!(
                    "ResourceQuota {request_name} ({}) should be less than {limit_name} ({})",
                    request.as_str(),
                    limit.as_str()
                ));
            }
        }
        warnings
    }
}

/// What is used of what there is, for limits or for all else.
fn usage(quota: &Value, of_limits: bool) -> Value {
    let status = quota.get("status");
    let (hard, used) = (status.map("hard"), status.map("used"));
    let mut rows: Vec<(&str, &str)> = hard
        .iter()
        .map(|(name, amount)| (name.as_str(), amount.as_str()))
        .filter(|(name, _)| name.starts_with("limits.") == of_limits)
        .collect();
    rows.sort_unstable();
    let used = |name: &str| used.get(name).map_or("0", Value::as_str).to_owned();
    let texts: Vec<String> =
        rows.into_iter().map(|(name, amount)| format!("{name}: {}/{amount}", used(name))).collect();
    texts.join(", ").into()
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn usage_is_shown_in_two_columns() {
        let status = object! {
            "hard": object! { "limits.cpu": "2", "pods": "10", "cpu": "1" }, "used": object! { "pods": "3" },
        };
        let quota = object! { "status": status };
        assert_eq!(usage(&quota, false), Value::from("cpu: 0/1, pods: 3/10"));
        assert_eq!(usage(&quota, true), Value::from("limits.cpu: 0/2"));
    }

    #[test]
    fn requests_above_limits_are_hardly_meant() {
        let hard = object! { "cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "2Gi" };
        let quota = object! { "spec": object! { "hard": hard } };
        assert_eq!(QuotaRules.warnings(&quota, None), ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]);
    }
}
