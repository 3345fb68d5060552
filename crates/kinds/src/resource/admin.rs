//! Access for administrators, to devices that others use: only namespaces with a label may have it.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

const LABEL: &str = "resource.kubernetes.io/admin-access";

/// What a new claim asks for. `namespace` gives the namespace where it is made.
pub(super) fn validate_requests(spec: &Value, namespace: &dyn Fn() -> Value, errors: &mut Errors) {
    let requests = spec.get("devices").list("requests");
    if let Some(index) = requests.iter().position(|request| request.get("exactly").bool("adminAccess")) {
        let (spec, field) = (Path::new("spec"), "adminAccess");
        validate_namespace(spec.child("devices").child("requests").index(index).child(field), namespace, errors);
    }
}

/// What a claim gets. What it has already, it keeps.
pub(super) fn validate_results(status: &Value, old: &Value, namespace: &dyn Fn() -> Value, errors: &mut Errors) {
    let granted = |status: &Value| {
        let results = status.at(&["allocation", "devices"]).list("results");
        results.iter().position(|result| result.bool("adminAccess"))
    };
    if granted(old).is_none()
        && let Some(index) = granted(status)
    {
        let (status, field) = (Path::new("status"), "adminAccess");
        let allocation = status.child("allocation");
        validate_namespace(allocation.child("devices").child("results").index(index).child(field), namespace, errors);
    }
}

fn validate_namespace(path: Path<'_>, namespace: &dyn Fn() -> Value, errors: &mut Errors) {
    if namespace().at(&["metadata", "labels"]).str(LABEL) != "true" {
        let words = format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
        errors.forbidden(path, words);
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn a_label_opens_the_door() {
        let request = |admin: bool| object! { "exactly": object! { "adminAccess": admin } };
        let spec = object! { "devices": object! { "requests": vec![request(false), request(true)] } };
        let namespace = |value: &str| {
            let labels = object! { "resource.kubernetes.io/admin-access": value };
            object! { "metadata": object! { "labels": labels } }
        };
        for (value, wrong) in [("true", 0), ("false", 1)] {
            let mut errors = Errors::new();
            validate_requests(&spec, &|| namespace(value), &mut errors);
            assert_eq!(errors.len(), wrong, "{value}");
        }
        let results = |admin: bool| {
            let devices = object! { "results": vec![object! { "adminAccess": admin }] };
            object! { "allocation": object! { "devices": devices } }
        };
        for (now, before, wrong) in [(true, false, 1), (true, true, 0), (false, false, 0)] {
            let mut errors = Errors::new();
            validate_results(&results(now), &results(before), &|| Value::Null, &mut errors);
            assert_eq!(errors.len(), wrong, "{now} {before}");
        }
    }
}
