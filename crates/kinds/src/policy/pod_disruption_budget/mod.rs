//! PodDisruptionBudget: how many pods of a set may be taken down at once.

use crate::strategy::{NameRule, Repeat, Repeats, ResetFields, Strategy};
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::{Value, json, names, object};

use crate::columns::{AGE, NAME};
use crate::fields::{carry, shown_selector};
use crate::kind::{Column, Part, Row, Rules, Subresource};
use crate::meta;

pub static KIND: Row = Row {
    group: "policy",
    kind: "PodDisruptionBudget",
    resource: "poddisruptionbudgets",
    singular: "poddisruptionbudget",
    short_names: &["pdb"],
    type_name: "io.k8s.api.policy.v1.PodDisruptionBudget",
    storage_prefix: "poddisruptionbudgets",
    subresources: &[Subresource::STATUS],
    columns: &[
        NAME,
        Column::text("Min Available", "The minimum number of pods that must be available.", |budget, _| {
            bound(budget, "minAvailable")
        }),
        Column::text("Max Unavailable", "The maximum number of pods that may be unavailable.", |budget, _| {
            bound(budget, "maxUnavailable")
        }),
        Column {
            kind: "integer",
            ..Column::text(
                "Allowed Disruptions",
                "Calculated number of pods that may be disrupted at this time.",
                |budget, _| budget.get("status").int("disruptionsAllowed").into(),
            )
        },
        AGE,
    ],
    strategy: Strategy {
        name_rule: NameRule::Common,
        checks_finalizers: false,
        repeats_meta: Repeats::all(Repeat::Nothing),
        unconditional_update: false,
        has_generation: true,
        reset_fields: ResetFields::STATUS,
        ..Strategy::DEFAULTS
    },
    rules: &BudgetRules,
    ..Row::DEFAULTS
};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
const BOUNDS: [&str; 2] = ["minAvailable", "maxUnavailable"];
const COUNTS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

/// In an older version, a selector with this key alone stood for all pods or none.
const OLD_EMPTY_SELECTOR: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

struct BudgetRules;

impl Rules for BudgetRules {
    fn default(&self, budget: &mut Value) {
        if let Some(selector) = budget.find_mut("spec").and_then(|spec| spec.find_mut("selector")) {
            strip_old_key(selector);
        }
    }

    fn prepare_create(&self, budget: &mut Value) {
        budget.remove("status");
    }

    fn validate_create(&self, budget: &Value, errors: &mut Errors) {
        validate_spec(budget.get("spec"), false, errors);
    }

    fn prepare_update(&self, part: Part, budget: &mut Value, old: &Value) {
        carry(budget, old, if part == Part::Status { "spec" } else { "status" });
    }

    fn validate_update(&self, part: Part, budget: &Value, old: &Value, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(budget.get("status"), errors);
        }
        let mut found = Errors::new();
        meta::validate_label_selector(Path::ROOT, old.get("spec").get("selector"), false, &mut found);
        validate_spec(budget.get("spec"), !found.is_empty(), errors);
    }
}

/// The key of old goes where it stands beside others; alone, it still selects nothing.
fn strip_old_key(selector: &mut Value) {
    let is_old = |requirement: &Value| requirement.str("key") == OLD_EMPTY_SELECTOR;
    let requirements = selector.list("matchExpressions");
    let nothing = selector.map("matchLabels").is_empty()
        && requirements.len() == 1
        && requirements[0].str("operator") == "Exists"
        && requirements[0].list("values").is_empty();
    if nothing || !requirements.iter().any(is_old) {
        return;
    }
    let kept: Vec<Value> = requirements.iter().filter(|requirement| !is_old(requirement)).cloned().collect();
    if kept.is_empty() {
        selector.remove("matchExpressions");
    } else {
        selector.set("matchExpressions", kept);
    }
}

/// `lenient` lets label values pass that no label can have.
fn validate_spec(spec: &Value, lenient: bool, errors: &mut Errors) {
    if BOUNDS.iter().all(|field| spec.has(field)) {
        let shown = object! {
            "MinAvailable": spec.get("minAvailable").clone(), "Selector": shown_selector(spec.get("selector")),
            "MaxUnavailable": spec.get("maxUnavailable").clone(),
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy").clone(),
        };
        errors.invalid(
            SPEC,
            BadValue::Text(json::to_string(&shown)),
            "minAvailable and maxUnavailable cannot be both set",
        );
    }
    for field in BOUNDS {
        if spec.has(field) {
            validate_bound(SPEC.child(field), spec.get(field), errors);
        }
    }
    meta::validate_label_selector(SPEC.child("selector"), spec.get("selector"), lenient, errors);
    let policy = spec.str("unhealthyPodEvictionPolicy");
    if spec.has("unhealthyPodEvictionPolicy") && !matches!(policy, "AlwaysAllow" | "IfHealthyBudget") {
        let path = SPEC.child("unhealthyPodEvictionPolicy");
        errors.not_supported(path, policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

/// A number that is not negative, or up to 100 percent.
fn validate_bound(path: Path<'_>, bound: &Value, errors: &mut Errors) {
    let Value::String(text) = bound else {
        let number = bound.as_int().unwrap_or(0);
        if number < 0 {
            errors.invalid(path, number, "must be greater than or equal to 0");
        }
        return;
    };
    let messages = names::percent(text);
    let digits = text.trim_end_matches('%');
    // A number too large to read is the largest there is.
    if messages.is_empty() && digits.parse::<i64>().unwrap_or(i64::MAX) > 100 {
        errors.invalid(path, bound, "must not be greater than 100%");
    }
    for message in messages {
        errors.invalid(path, bound, message);
    }
}

fn validate_status(status: &Value, errors: &mut Errors) {
    meta::validate_conditions(STATUS.child("conditions"), status.list("conditions"), errors);
    for field in COUNTS {
        if status.int(field) < 0 {
            errors.invalid(STATUS.child(field), status.int(field), "must be greater than or equal to 0");
        }
    }
}

fn bound(budget: &Value, field: &str) -> Value {
    match budget.get("spec").get(field) {
        Value::Null => "N/A".into(),
        Value::Int(number) => number.to_string().into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        let table: [(Value, &str); 7] = [
            ("50%".into(), ""),
            ("100%".into(), ""),
            ("101%".into(), "must not be greater than 100%"),
            (3.into(), ""),
            (Value::Int(-1), "must be greater than or equal to 0"),
            ("99999999999999999999%".into(), "must not be greater than 100%"),
            ("5".into(), "regex used for validation is '[0-9]+%')"),
        ];
        for (bound, want) in table {
            let mut errors = Errors::new();
            validate_bound(SPEC, &bound, &mut errors);
            let text = errors.0.first().map(ToString::to_string).unwrap_or_default();
            assert_eq!(text.is_empty(), want.is_empty(), "{text}");
            assert!(text.ends_with(want), "{text}");
        }
    }

    #[test]
    fn the_key_of_old_stands_alone_or_goes() {
        let requirement = |operator: &str| object! { "key": OLD_EMPTY_SELECTOR, "operator": operator };
        let other = object! { "key": "a", "operator": "Exists" };
        let table = [
            (vec![requirement("Exists")], 1),
            (vec![requirement("DoesNotExist")], 0),
            (vec![requirement("Exists"), other.clone()], 1),
            (vec![other], 1),
        ];
        for (requirements, want) in table {
            let selector = object! { "matchExpressions": requirements };
            let mut budget = object! { "spec": object! { "selector": selector } };
            BudgetRules.default(&mut budget);
            assert_eq!(budget.at(&["spec", "selector"]).list("matchExpressions").len(), want);
        }
    }

    #[test]
    fn both_bounds_show_the_whole_spec() {
        let selector = object! { "matchLabels": Value::object() };
        let spec = object! { "minAvailable": 1, "maxUnavailable": "5%", "selector": selector };
        let mut errors = Errors::new();
        validate_spec(&spec, false, &mut errors);
        assert_eq!(
            errors.summary(),
            "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{},\"MaxUnavailable\":\"5%\",\
             \"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"
        );
    }
}
