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
        if !request.str("deviceClassName").is_empty() {
            one_device(request);
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
}
