//! Tolerations, gates and claims: what decides when and where a pod may run.

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::{Value, names};

use super::checks::{Seen, dns_label, dns_subdomain, one_of, qualified_name};
use super::go_form::go_json;
use super::options::PodOptions;
use crate::meta;

/// Taints that a pod can live with.
pub fn validate_tolerations(path: Path<'_>, tolerations: &[Value], options: &PodOptions, errors: &mut Errors) {
    for (index, toleration) in tolerations.iter().enumerate() {
        validate_toleration(path.index(index), toleration, options, errors);
    }
}

fn validate_toleration(path: Path<'_>, toleration: &Value, options: &PodOptions, errors: &mut Errors) {
    let (key, operator) = (toleration.str("key"), toleration.str("operator"));
    let (value, effect) = (toleration.str("value"), toleration.str("effect"));
    if !key.is_empty() {
        meta::validate_label_name(path.child("key"), key, errors);
    } else if operator != "Exists" {
        let words = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(path.child("operator"), operator, words);
    }
    if toleration.has("tolerationSeconds") && effect != "NoExecute" {
        let words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(path.child("effect"), effect, words);
    }
    match operator {
        "Equal" | "" => {
            let messages = names::label_value(value);
            if !messages.is_empty() {
                errors.invalid(path.child("operator"), value, messages.join(";"));
            }
        }
        "Exists" if value.is_empty() => {}
        "Exists" => errors.invalid(path.child("operator"), value, "value must be empty when `operator` is 'Exists'"),
        "Lt" | "Gt" if options.comparing_tolerations => validate_number(path.child("value"), value, errors),
        "Lt" | "Gt" => errors.not_supported(path.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]),
        other => errors.not_supported(path.child("operator"), other, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        one_of(path.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
    }
}

/// A whole number of 64 bits, without leading zeros.
fn validate_number(path: Path<'_>, value: &str, errors: &mut Errors) {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !numeric || (digits.starts_with('0') && value != "0") {
        errors.invalid(path, value, "must be a valid decimal integer in canonical form");
    }
    if value.parse::<i64>().is_err() {
        let why = if numeric { "value out of range" } else { "invalid syntax" };
        let shown = rkube_machinery::field::quote(value);
        errors.invalid(path, value, format!("strconv.ParseInt: parsing {shown}: {why}"));
    }
}

pub(super) fn validate_readiness_gates(path: Path<'_>, gates: &[Value], errors: &mut Errors) {
    for (index, gate) in gates.iter().enumerate() {
        qualified_name(path.index(index).child("conditionType"), gate.str("conditionType"), errors);
    }
}

pub(super) fn validate_scheduling_gates(path: Path<'_>, gates: &[Value], errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, gate) in gates.iter().enumerate() {
        let name = gate.str("name");
        qualified_name(path.index(index), name, errors);
        if !seen.add(name) {
            errors.duplicate(path.index(index), name);
        }
    }
}

/// Devices that the pod claims; static pods cannot.
pub(super) fn validate_resource_claims(path: Path<'_>, claims: &[Value], is_static: bool, errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, claim) in claims.iter().enumerate() {
        if is_static {
            errors.forbidden(Path::ROOT.key(""), "static pods do not support resource claims");
            continue;
        }
        let path = path.index(index);
        let name = claim.str("name");
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else if !seen.add(name) {
            errors.duplicate(path.child("name"), name);
        } else {
            dns_label(path.child("name"), name, errors);
        }
        let shown = || BadValue::Text(go_json("PodResourceClaim", claim));
        match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => {
                let words = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(path, shown(), words);
            }
            (false, false) => {
                let words = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(path, shown(), words);
            }
            _ => {}
        }
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if claim.has(field) {
                dns_subdomain(path.child(field), claim.str(field), errors);
            }
        }
    }
}

pub(super) fn validate_scheduling_group(path: Path<'_>, group: &Value, errors: &mut Errors) {
    let path = path.child("podGroupName");
    if group.has("podGroupName") {
        dns_subdomain(path, group.str("podGroupName"), errors);
    } else {
        errors.invalid(path, &Value::Null, "must specify one of: `podGroupName`");
    }
}
