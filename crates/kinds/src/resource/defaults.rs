//! What requests for devices get where their author says nothing.

use rkube_machinery::Value;

/// The spec of a claim in the form of `v1`.
pub(super) fn claim_spec(spec: &mut Value) {
    for request in spec.object_mut("devices").list_mut("requests") {
        if let Some(exactly) = request.find_mut("exactly") {
            one_device(exactly);
        }
        sub_requests(request);
    }
}

/// The spec of a claim in the form of `v1beta1`, in which a request for one class is not nested.
pub(super) fn old_claim_spec(spec: &mut Value) {
    for request in spec.object_mut("devices").list_mut("requests") {
        match request.str("deviceClassName").is_empty() {
            true => tolerations(request),
            false => one_device(request),
        }
        sub_requests(request);
    }
}

fn sub_requests(request: &mut Value) {
    for sub_request in request.list_mut("firstAvailable") {
        one_device(sub_request);
    }
}

fn one_device(request: &mut Value) {
    request.set_default("allocationMode", "ExactCount");
    if request.str("allocationMode") == "ExactCount" {
        request.set_default("count", 1);
    }
    tolerations(request);
}

/// The status of a claim, in all versions.
pub(super) fn claim_status(claim: &mut Value) {
    let devices = claim.find_mut("status").and_then(|status| status.find_mut("allocation"));
    let Some(devices) = devices.and_then(|allocation| allocation.find_mut("devices")) else { return };
    for result in devices.list_mut("results") {
        tolerations(result);
    }
}

/// What is tolerated is a taint with the same value.
fn tolerations(object: &mut Value) {
    for toleration in object.list_mut("tolerations") {
        toleration.set_default("operator", "Equal");
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn tolerations_compare_values() {
        let toleration = || vec![object! { "key": "k" }, object! { "operator": "Exists" }];
        let alternative = object! { "name": "a", "deviceClassName": "c", "tolerations": toleration() };
        let exactly = object! { "deviceClassName": "c", "tolerations": toleration() };
        let mut spec = object! { "devices": object! { "requests": vec![
            object! { "name": "r", "exactly": exactly.clone() },
            object! { "name": "s", "firstAvailable": vec![alternative] },
        ] } };
        claim_spec(&mut spec);
        let requests = spec.get("devices").list("requests");
        for request in [requests[0].get("exactly"), &requests[1].list("firstAvailable")[0]] {
            let operators: Vec<_> = request.list("tolerations").iter().map(|one| one.str("operator")).collect();
            assert_eq!(operators, ["Equal", "Exists"]);
        }
        let results = object! { "results": vec![exactly] };
        let mut claim = object! { "status": object! { "allocation": object! { "devices": results } } };
        claim_status(&mut claim);
        let results = claim.at(&["status", "allocation", "devices"]).list("results");
        assert_eq!(results[0].list("tolerations")[0].str("operator"), "Equal");
    }
}
