//! What validating and mutating policies share.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names;

use super::cel::Declarations;
use super::{FAILURE_POLICIES, expressions, match_resources};
use crate::meta;

pub const SPEC: Path<'static> = Path::new("spec");

pub fn default(policy: &mut Value) {
    let spec = policy.object_mut("spec");
    spec.set_if_absent("failurePolicy", "Fail");
    match_resources::default(spec, "matchConstraints");
}

/// The part of the spec before its variables; `old` is there on update.
pub fn validate_head(policy: &Value, old: Option<&Value>, mutating: bool, errors: &mut Errors) {
    let spec = policy.get("spec");
    let failure_policy = spec.get("failurePolicy");
    if failure_policy.is_null() {
        errors.required(SPEC.child("failurePolicy"), "");
    } else if !FAILURE_POLICIES.contains(&failure_policy.as_str()) {
        errors.not_supported(SPEC.child("failurePolicy"), failure_policy, FAILURE_POLICIES);
    }
    if spec.has("paramKind") {
        validate_param_kind(SPEC.child("paramKind"), spec.get("paramKind"), errors);
    }
    let path = SPEC.child("matchConstraints");
    if spec.has("matchConstraints") {
        let constraints = spec.get("matchConstraints");
        match_resources::validate(path, constraints, errors);
        if constraints.list("resourceRules").is_empty() {
            errors.required(path.child("resourceRules"), "");
        }
        if mutating {
            match_resources::validate_mutable(path, constraints, errors);
        }
    } else {
        errors.required(path, "");
    }
    let unchanged = old.is_some_and(|old| {
        let old = old.get("spec");
        ["paramKind", "matchConditions"].iter().all(|field| meta::same(spec.get(field), old.get(field)))
    });
    if !unchanged {
        let path = SPEC.child("matchConditions");
        expressions::validate_match_conditions(path, spec, spec.has("paramKind"), errors);
    }
}

/// What a policy's expressions may speak of.
pub fn declarations(spec: &Value) -> Declarations {
    Declarations { params: spec.has("paramKind"), authorizer: true, ..Declarations::default() }
}

fn validate_param_kind(path: Path<'_>, kind: &Value, errors: &mut Errors) {
    let api_version = kind.str("apiVersion");
    validate_api_version(path.child("apiVersion"), api_version, errors);
    let name = kind.str("kind");
    if name.is_empty() {
        return errors.required(path.child("kind"), "");
    }
    let messages = names::dns1035_label(&name.to_lowercase());
    if !messages.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", messages.join(","));
        errors.invalid(path.child("kind"), name, detail);
    }
}

fn validate_api_version(path: Path<'_>, api_version: &str, errors: &mut Errors) {
    if api_version.is_empty() {
        return errors.required(path, "");
    }
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, version)) if version.contains('/') => {
            return errors.invalid(path, api_version, format!("unexpected GroupVersion string: {api_version}"));
        }
        Some(parts) => parts,
    };
    let messages = if group.is_empty() { Vec::new() } else { names::dns1123_subdomain(group) };
    if !messages.is_empty() {
        errors.invalid(path, group, messages.join(","));
    }
    if version.is_empty() {
        return errors.invalid(path, api_version, "version must be specified");
    }
    let messages = names::dns1035_label(version);
    if !messages.is_empty() {
        errors.invalid(path, version, messages.join(","));
    }
}

pub fn param_kind(policy: &Value, _now: i64) -> Value {
    let kind = policy.at(&["spec", "paramKind"]);
    if kind.is_null() {
        return "<unset>".into();
    }
    format!("{}/{}", kind.str("apiVersion"), kind.str("kind")).into()
}
