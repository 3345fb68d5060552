//! What the status of a claim must look like.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::core::persistent_volume::validate_basic;
use crate::core::pod_spec::checks::qualified_name;
use crate::core::pod_spec::{is_native_resource, resources};

const STATUS: Path<'static> = Path::new("status");
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

pub(super) fn validate(claim: &Value, errors: &mut Errors) {
    if claim.get("spec").list("accessModes").is_empty() {
        let path = Path::new("Spec");
        errors.required(path.child("accessModes"), "");
    }
    let status = claim.get("status");
    let path = STATUS.child("capacity");
    for (name, amount) in status.map("capacity").iter() {
        validate_basic(path.key(name), amount, errors);
    }
    let path = STATUS.child("allocatedResourceStatuses");
    for (name, resize) in status.map("allocatedResourceStatuses").iter() {
        validate_resource(path, name, errors);
        if !RESIZES.contains(&resize.as_str()) {
            errors.not_supported(path, name.as_str(), RESIZES);
        }
    }
    let path = STATUS.child("allocatedResources");
    for (name, amount) in status.map("allocatedResources").iter() {
        if validate_resource(path, name, errors) && validate_basic(path.key(name), amount, errors) {
            resources::validate_amount(path.key(name), "storage", amount, errors);
        }
    }
}

/// Of the resources that Kubernetes knows, claims have storage only. Says whether the name is right.
fn validate_resource(path: Path<'_>, name: &str, errors: &mut Errors) -> bool {
    let before = errors.len();
    qualified_name(path, name, errors);
    if errors.len() == before && is_native_resource(name) && name != "storage" {
        errors.not_supported(path, name, &["storage"]);
    }
    errors.len() == before
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn parts_are_checked() {
        let claim = object! {
            "spec": object! { "accessModes": vec!["ReadWriteOnce".into()] },
            "status": object! {
                "capacity": object! { "storage": "-2" },
                "allocatedResourceStatuses": object! { "cpu": "X", "storage": "NodeResizePending" },
                "allocatedResources": object! { "example.com/x": "1", "storage": "-1" },
            },
        };
        let mut errors = Errors::new();
        validate(&claim, &mut errors);
        let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        let resizes = "supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \
                       \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"";
        assert_eq!(
            texts,
            [
                "status.capacity[storage]: Invalid value: -2: must be a valid resource quantity",
                "status.allocatedResourceStatuses: Unsupported value: \"cpu\": supported values: \"storage\"",
                &format!("status.allocatedResourceStatuses: Unsupported value: \"cpu\": {resizes}"),
                "status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity",
            ]
        );
    }
}
