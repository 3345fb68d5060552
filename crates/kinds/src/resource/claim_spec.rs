//! What a claim asks for: devices, by class and selectors, and how they belong together.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::configuration::{self, CONFIGURATIONS_MAX};
use super::lists::{set, slice};
use super::{names, selector, taints};
use crate::core::pod_spec::checks::{NOT_POSITIVE, dns_label, dns_subdomain};

pub(super) const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;

pub(super) fn validate(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let path = path.child("devices");
    let devices = spec.get("devices");
    set(path.child("requests"), devices.list("requests"), REQUESTS_MAX, name, errors, validate_request);
    let constraints = devices.list("constraints");
    slice(path.child("constraints"), constraints, CONSTRAINTS_MAX, errors, |path, constraint, errors| {
        validate_constraint(path, constraint, devices, errors);
    });
    slice(path.child("config"), devices.list("config"), CONFIGURATIONS_MAX, errors, |path, config, errors| {
        validate_references(path.child("requests"), config.list("requests"), devices, errors);
        configuration::validate(path, config, false, errors);
    });
}

/// Names of requests, each once. `devices` is what the claim asks for.
pub(super) fn validate_references(path: Path<'_>, names: &[Value], devices: &Value, errors: &mut Errors) {
    set(path, names, REQUESTS_MAX, Value::as_str, errors, |path, name, errors| {
        validate_reference(path, name.as_str(), devices, errors);
    });
}

/// The name of a request, or of one of its alternatives after a slash.
pub(super) fn validate_reference(path: Path<'_>, name: &str, devices: &Value, errors: &mut Errors) {
    const WORDS: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated \
                         by '/'";
    let mut parts = name.splitn(3, '/');
    let (request, alternative) = (parts.next().unwrap_or_default(), parts.next());
    if parts.next().is_some() {
        return errors.invalid(path, name, WORDS);
    }
    dns_label(path, request, errors);
    if let Some(alternative) = alternative {
        dns_label(path, alternative, errors);
    }
    let found = devices.list("requests").iter().rfind(|other| other.str("name") == request);
    let there = found.is_some_and(|found| {
        let mut alternatives = found.list("firstAvailable").iter();
        alternative.is_none_or(|alternative| alternatives.any(|other| other.str("name") == alternative))
    });
    if !there {
        errors.invalid(path, name, WORDS);
    }
}

fn name(request: &Value) -> &str {
    request.str("name")
}

fn validate_request(path: Path<'_>, request: &Value, errors: &mut Errors) {
    dns_label(path.child("name"), request.str("name"), errors);
    let alternatives = request.list("firstAvailable");
    match (request.has("exactly"), !alternatives.is_empty()) {
        (false, false) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (true, true) => {
            let words = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, &Value::Null, words);
        }
        (true, false) => validate_devices(path.child("exactly"), request.get("exactly"), errors),
        (false, true) => {
            let path = path.child("firstAvailable");
            set(path, alternatives, ALTERNATIVES_MAX, name, errors, |path, alternative, errors| {
                dns_label(path.child("name"), alternative.str("name"), errors);
                validate_devices(path, alternative, errors);
            });
        }
    }
}

/// Devices of a class, and how many of them.
fn validate_devices(path: Path<'_>, request: &Value, errors: &mut Errors) {
    let class = request.str("deviceClassName");
    if class.is_empty() {
        errors.required(path.child("deviceClassName"), "");
    } else {
        dns_subdomain(path.child("deviceClassName"), class, errors);
    }
    selector::validate_all(path.child("selectors"), request.list("selectors"), errors);
    let count = request.int("count");
    match request.str("allocationMode") {
        "All" if count != 0 => {
            errors.invalid(path.child("count"), count, "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => errors.invalid(path.child("count"), count, NOT_POSITIVE),
        "All" | "ExactCount" => {}
        other => errors.not_supported(path.child("allocationMode"), other, &["All", "ExactCount"]),
    }
    taints::validate_tolerations(path, request, errors);
}

fn validate_constraint(path: Path<'_>, constraint: &Value, devices: &Value, errors: &mut Errors) {
    validate_references(path.child("requests"), constraint.list("requests"), devices, errors);
    for field in ["matchAttribute", "distinctAttribute"] {
        if constraint.has(field) {
            return names::fully_qualified(path.child(field), constraint.str(field), errors);
        }
    }
    // The words are for another mistake; they are what clients know.
    let words = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
    errors.required(path, words);
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn texts(devices: Value) -> Vec<String> {
        let mut spec = object! { "devices": devices };
        super::super::defaults::claim_spec(&mut spec);
        let mut errors = Errors::new();
        validate(Path::new("spec"), &spec, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    fn exactly(name: &str) -> Value {
        object! { "name": name, "exactly": object! { "deviceClassName": "c" } }
    }

    #[test]
    fn requests_are_checked() {
        let alternative = object! { "name": "a", "deviceClassName": "c" };
        let either = object! { "name": "r", "firstAvailable": vec![alternative.clone()] };
        let mut both = either.clone();
        both.set("exactly", object! { "deviceClassName": "c" });
        let table: Vec<(Vec<Value>, &[&str])> = vec![
            (vec![exactly("r")], &[]),
            (vec![either], &[]),
            (vec![exactly("r"), exactly("r")], &["spec.devices.requests[1]: Duplicate value: \"r\""]),
            (
                vec![both],
                &["spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is \
                   required, but multiple fields are set"],
            ),
            (
                vec![object! { "name": "r" }],
                &["spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"],
            ),
        ];
        for (requests, expected) in table {
            assert_eq!(texts(object! { "requests": requests }), expected);
        }
        let many: Vec<Value> = (0..33).map(|index| exactly(&format!("r{index}"))).collect();
        assert_eq!(
            texts(object! { "requests": many }),
            ["spec.devices.requests: Too many: 33: must have at most 32 items"]
        );
    }

    #[test]
    fn references_name_requests() {
        let alternative = object! { "name": "a", "deviceClassName": "c" };
        let either = object! { "name": "r", "firstAvailable": vec![alternative] };
        for (name, wrong) in [("r", 0), ("r/a", 0), ("r/b", 1), ("x", 1), ("r/a/b", 1), ("", 2)] {
            let constraint = object! { "requests": vec![name.into()], "matchAttribute": "d.io/a" };
            let devices = object! { "requests": vec![either.clone()], "constraints": vec![constraint] };
            assert_eq!(texts(devices).len(), wrong, "{name}");
        }
    }
}
