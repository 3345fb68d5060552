//! What a driver must say of itself.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::core::pod_spec::checks::{Seen, one_of, one_of_if_set};
use crate::fields::texts;
use crate::meta;

const SPEC: Path<'static> = Path::new("spec");
const PERIOD_MIN_SECONDS: i64 = 10;
const TOKEN_MIN_SECONDS: i64 = 600;
const TOKEN_MAX_SECONDS: i64 = 1 << 32;

pub(super) fn spec(spec: &Value, errors: &mut Errors) {
    // The field and its name in errors.
    let required = [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ];
    for (field, shown) in required {
        if !spec.has(field) {
            errors.required(SPEC.child(shown), "");
        }
    }
    one_of_if_set(spec, SPEC, "fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"], errors);
    token_requests(SPEC.child("tokenRequests"), spec.list("tokenRequests"), errors);
    for mode in texts(spec, "volumeLifecycleModes") {
        one_of(SPEC.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"], errors);
    }
    if !spec.has("seLinuxMount") {
        errors.required(SPEC.child("seLinuxMount"), "");
    }
    let period = spec.get("nodeAllocatableUpdatePeriodSeconds").as_int();
    if let Some(period) = period.filter(|period| *period < PERIOD_MIN_SECONDS) {
        let path = SPEC.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(path, period, "must be greater than or equal to 10 seconds");
    }
    if spec.has("serviceAccountTokenInSecrets") && spec.list("tokenRequests").is_empty() {
        let words = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        let field = "serviceAccountTokenInSecrets";
        errors.invalid(SPEC.child(field), spec.bool(field), words);
    }
}

/// What a change may not do.
pub(super) fn update(spec: &Value, old: &Value, errors: &mut Errors) {
    for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        meta::validate_immutable(SPEC.child(shown), spec.get(field), old.get(field), errors);
    }
}

/// Audiences differ; one may be absent.
fn token_requests(path: Path<'_>, requests: &[Value], errors: &mut Errors) {
    let mut audiences = Seen::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        let audience = request.str("audience");
        if !audiences.add(audience) {
            errors.duplicate(path.child("audience"), audience);
            continue;
        }
        let Some(seconds) = request.get("expirationSeconds").as_int() else { continue };
        let path = path.child("expirationSeconds");
        if seconds < TOKEN_MIN_SECONDS {
            errors.invalid(path, seconds, "may not specify a duration less than 10 minutes");
        }
        if seconds > TOKEN_MAX_SECONDS {
            errors.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn drivers_are_checked() {
        let request = |audience: &str, seconds: i64| object! { "audience": audience, "expirationSeconds": seconds };
        let table: &[(&str, Value, &[&str])] = &[
            ("tokenRequests", vec![request("a", 600), request("b", 1 << 32)].into(), &[]),
            (
                "tokenRequests",
                vec![request("a", 599), request("a", 600)].into(),
                &[
                    "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than \
                     10 minutes",
                    "spec.tokenRequests[1].audience: Duplicate value: \"a\"",
                ],
            ),
            ("attachRequired", Value::Null, &["spec.attachedRequired: Required value"]),
            (
                "serviceAccountTokenInSecrets",
                true.into(),
                &[
                    "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no \
                   tokenRequests are specified",
                ],
            ),
            (
                "nodeAllocatableUpdatePeriodSeconds",
                9.into(),
                &["spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 \
                   seconds"],
            ),
        ];
        for (field, value, expected) in table {
            let mut driver = object! {
                "attachRequired": true, "podInfoOnMount": false, "storageCapacity": false, "seLinuxMount": false,
            };
            driver.set(field, value.clone());
            let mut errors = Errors::new();
            spec(&driver, &mut errors);
            let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            assert_eq!(texts, *expected, "{field}");
        }
    }
}
