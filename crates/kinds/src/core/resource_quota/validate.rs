//! The checks of a quota: amounts of resources, and scopes that fit them.

use std::collections::BTreeMap;

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use crate::core::pod_spec::checks::Seen;
use crate::core::pod_spec::go_form::go_json;
use crate::core::pod_spec::resources;
use crate::fields::texts;

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
/// No object is in both scopes of a pair.
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];
/// Resources without a domain that quotas count.
const COUNTED: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const OF_PODS: &[&str] = &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

pub(super) fn spec(spec: &Value, errors: &mut Errors) {
    validate_amounts(SPEC.child("hard"), spec.get("hard"), errors);
    validate_scopes(spec, errors);
    if spec.has("scopeSelector") {
        validate_selector(spec, errors);
    }
}

pub(super) fn status(quota: &Value, errors: &mut Errors) {
    if quota.get("metadata").str("resourceVersion").is_empty() {
        errors.required(Path::new("resourceVersion"), "");
    }
    for field in ["hard", "used"] {
        validate_amounts(STATUS.child(field), quota.get("status").get(field), errors);
    }
}

/// Scopes stay what they are, in any order.
pub(super) fn scopes_stay(spec: &Value, old: &Value, errors: &mut Errors) {
    let covers = |one: &Value, other: &Value| {
        let other = Seen::of(texts(other, "scopes"));
        texts(one, "scopes").all(|scope| other.has(scope))
    };
    if !covers(spec, old) || !covers(old, spec) {
        errors.invalid(SPEC.child("scopes"), spec.get("scopes"), "field is immutable");
    }
}

fn validate_amounts(path: Path<'_>, list: &Value, errors: &mut Errors) {
    for (name, amount) in list.as_map().iter() {
        let path = path.key(name);
        if !COUNTED.contains(&name.as_str()) {
            resources::validate_resource(path, name, errors);
            if !name.contains('/') && !is_counted(name) {
                errors.invalid(path, name.as_str(), "must be a standard resource for quota");
            }
        }
        resources::validate_amount(path, name, amount, errors);
    }
}

fn validate_scopes(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("scopes");
    let mut unrelated = UnrelatedResources::new(spec);
    for scope in texts(spec, "scopes") {
        if !SCOPES.contains(&scope) {
            errors.invalid(path, spec.get("scopes"), "unsupported scope");
        }
        for _ in 0..unrelated.of(scope) {
            if errors.is_full() {
                break;
            }
            errors.invalid(path, spec.get("scopes"), "unsupported scope applied to resource");
        }
    }
    for pair in OPPOSITES {
        if pair.iter().all(|one| texts(spec, "scopes").any(|scope| scope == *one)) {
            errors.invalid(path, spec.get("scopes"), "conflicting scopes");
        }
    }
}

fn validate_selector(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("scopeSelector");
    let path = path.child("matchExpressions");
    let selector = spec.get("scopeSelector");
    let requirements = selector.list("matchExpressions");
    let mut unrelated = UnrelatedResources::new(spec);
    for requirement in requirements {
        let scope = requirement.str("scopeName");
        if !SCOPES.contains(&scope) {
            errors.invalid(path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..unrelated.of(scope) {
            if errors.is_full() {
                break;
            }
            let shown = BadValue::Text(go_json("ScopeSelector", selector));
            errors.invalid(path, shown, "unsupported scope applied to resource");
        }
        validate_requirement(path, requirement, errors);
    }
    for pair in OPPOSITES {
        if pair.iter().all(|one| requirements.iter().any(|requirement| requirement.str("scopeName") == *one)) {
            errors.invalid(path, spec.get("scopes"), "conflicting scopes");
        }
    }
}

fn validate_requirement(path: Path<'_>, requirement: &Value, errors: &mut Errors) {
    let operator = requirement.str("operator");
    let plain = !matches!(requirement.str("scopeName"), "PriorityClass" | "VolumeAttributesClass");
    if plain && SCOPES.contains(&requirement.str("scopeName")) && operator != "Exists" {
        let words = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                     ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                     or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(path.child("operator"), operator, words);
    }
    let values = requirement.list("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(path.child("values"), words);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(path.child("values"), requirement.get("values"), words);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(path.child("operator"), other, "not a valid selector operator"),
    }
}

/// How many resources of the quota have nothing to do with a scope, counted once.
struct UnrelatedResources<'a> {
    spec: &'a Value,
    counts: BTreeMap<&'static str, usize>,
}

impl<'a> UnrelatedResources<'a> {
    fn new(spec: &'a Value) -> Self {
        UnrelatedResources { spec, counts: BTreeMap::new() }
    }

    fn of(&mut self, scope: &str) -> usize {
        let Some(scope) = SCOPES.iter().find(|known| **known == scope) else { return 0 };
        *self.counts.entry(scope).or_insert_with(|| {
            let names = self.spec.map("hard").keys();
            names.filter(|name| is_counted(name) && !fits(scope, name)).count()
        })
    }
}

fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            OF_PODS.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn is_counted(resource: &str) -> bool {
    COUNTED.contains(&resource) || resources::is_quota_huge_page(resource)
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn check(value: Value) -> Vec<String> {
        let mut errors = Errors::new();
        spec(&value, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn resources_are_known_and_amounts_right() {
        let right = object! { "cpu": "1", "requests.hugepages-2Mi": "2Mi", "count/jobs.batch": "3", "a.b/c": "1" };
        assert_eq!(check(object! { "hard": right }), Vec::<String>::new());
        assert_eq!(
            check(object! { "hard": object! { "pods": "500m", "storage": "-1", "x": "1" } }),
            [
                "spec.hard[pods]: Invalid value: \"500m\": must be an integer",
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
                "spec.hard[storage]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[x]: Invalid value: \"x\": must be a standard resource type or fully qualified",
                "spec.hard[x]: Invalid value: \"x\": must be a standard resource for quota",
            ]
        );
    }

    #[test]
    fn scopes_fit_their_resources() {
        let scopes = vec!["BestEffort".into(), "NotBestEffort".into(), "X".into()];
        let shown = "[\"BestEffort\",\"NotBestEffort\",\"X\"]";
        assert_eq!(
            check(object! { "hard": object! { "cpu": "1" }, "scopes": scopes }),
            [
                format!("spec.scopes: Invalid value: {shown}: unsupported scope applied to resource"),
                format!("spec.scopes: Invalid value: {shown}: unsupported scope"),
                format!("spec.scopes: Invalid value: {shown}: conflicting scopes"),
            ]
        );
    }

    #[test]
    fn selectors_ask_what_their_scope_can_answer() {
        let requirement = |scope: &str, operator: &str| object! { "scopeName": scope, "operator": operator };
        let table = [
            ("PriorityClass", "In", "spec.scopeSelector.matchExpressions.values: Required value"),
            ("BestEffort", "Exists", ""),
            ("BestEffort", "DoesNotExist", "spec.scopeSelector.matchExpressions.operator: Invalid value"),
            ("PriorityClass", "X", "spec.scopeSelector.matchExpressions.operator: Invalid value: \"X\": not a valid"),
        ];
        for (scope, operator, want) in table {
            let selector = object! { "matchExpressions": vec![requirement(scope, operator)] };
            let found = check(object! { "scopeSelector": selector });
            assert_eq!(found.is_empty(), want.is_empty(), "{found:?}");
            assert!(found.iter().all(|text| text.starts_with(want)), "{found:?}");
        }
    }
}
