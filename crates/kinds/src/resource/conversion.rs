//! The older versions of the group.
//!
//! `v1beta2` differs from `v1` in its name only. In `v1beta1` a request for one class of devices is not nested in
//! `exactly`, and what describes a device is nested in `basic`.

use rkube_machinery::{TypeRef, Value, decode};

/// The fields of a request for one class of devices.
const REQUEST: [&str; 7] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

/// An object with another version's name on it.
fn renamed(mut object: Value, version: &'static str) -> Value {
    object.set("apiVersion", format!("{}/{version}", super::GROUP));
    object
}

pub(super) fn claim_to_stored(mut claim: Value) -> Value {
    nest_requests(claim.object_mut("spec"));
    arranged(renamed(claim, "v1"), "io.k8s.api.resource.v1.ResourceClaim")
}

pub(super) fn claim_from_stored(mut claim: Value) -> Value {
    lift_requests(claim.object_mut("spec"));
    finished(renamed(claim, "v1beta1"), "io.k8s.api.resource.v1beta1.ResourceClaim")
}

pub(super) fn template_to_stored(mut template: Value) -> Value {
    nest_requests(template.object_mut("spec").object_mut("spec"));
    arranged(renamed(template, "v1"), "io.k8s.api.resource.v1.ResourceClaimTemplate")
}

pub(super) fn template_from_stored(mut template: Value) -> Value {
    lift_requests(template.object_mut("spec").object_mut("spec"));
    finished(renamed(template, "v1beta1"), "io.k8s.api.resource.v1beta1.ResourceClaimTemplate")
}

pub(super) fn slice_to_stored(mut slice: Value) -> Value {
    let spec = slice.object_mut("spec");
    for field in ["nodeName", "allNodes"] {
        if spec.get(field).is_empty() {
            spec.remove(field);
        }
    }
    for device in spec.list_mut("devices") {
        let Some(Value::Object(basic)) = device.remove("basic") else { continue };
        for (field, value) in basic.into_entries() {
            let dropped = matches!(field.as_str(), "attributes" | "capacity") && value.is_empty();
            if !dropped {
                device.set(&field, value);
            }
        }
    }
    arranged(renamed(slice, "v1"), "io.k8s.api.resource.v1.ResourceSlice")
}

pub(super) fn slice_from_stored(mut slice: Value) -> Value {
    for device in slice.object_mut("spec").list_mut("devices") {
        let name = device.remove("name").unwrap_or_default();
        let basic = std::mem::replace(device, Value::object());
        device.set("name", name);
        device.set("basic", basic);
    }
    finished(renamed(slice, "v1beta1"), "io.k8s.api.resource.v1beta1.ResourceSlice")
}

fn nest_requests(spec: &mut Value) {
    for request in spec.object_mut("devices").list_mut("requests") {
        let mut exactly = Value::object();
        let mut any = false;
        for field in REQUEST {
            if let Some(value) = request.remove(field) {
                // Texts and numbers count where they are not empty, everything else where it is there.
                any |= match value {
                    Value::String(_) | Value::Int(_) => !value.is_empty(),
                    _ => !value.is_null(),
                };
                exactly.set(field, value);
            }
        }
        if any {
            request.set("exactly", exactly);
        }
    }
}

fn lift_requests(spec: &mut Value) {
    for request in spec.object_mut("devices").list_mut("requests") {
        let Some(Value::Object(exactly)) = request.remove("exactly") else { continue };
        for (field, value) in exactly.into_entries() {
            request.set(&field, value);
        }
    }
}

/// Fields in the order of their type.
/// [`finished`], but that lists and maps that are given and empty stay: rules can tell them from absent ones.
fn arranged(object: Value, type_name: &str) -> Value {
    let Some(kind) = TypeRef::find(type_name) else { return object };
    match decode::decode(object.clone(), kind.get()) {
        Ok(decoded) => decoded.value,
        Err(_) => finished(object, type_name),
    }
}

fn finished(mut object: Value, type_name: &str) -> Value {
    if let Some(kind) = TypeRef::find(type_name) {
        decode::complete(&mut object, kind.get());
    }
    object
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{json, object};

    use super::*;

    #[test]
    fn claims_there_and_back() {
        let plain = object! { "name": "a", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1 };
        let alternative = object! { "name": "x", "deviceClassName": "c", "allocationMode": "All" };
        let either = object! { "name": "b", "firstAvailable": vec![alternative] };
        let old = object! {
            "kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1beta1", "metadata": object! { "name": "c" },
            "spec": object! { "devices": object! { "requests": vec![plain, either] } },
        };
        let stored = claim_to_stored(old.clone());
        let requests = stored.at(&["spec", "devices"]).list("requests");
        assert_eq!(requests[0].get("exactly").str("deviceClassName"), "c");
        assert!(!requests[0].has("deviceClassName") && !requests[1].has("exactly"));
        let expected = finished(old, "io.k8s.api.resource.v1beta1.ResourceClaim");
        assert_eq!(json::to_string(&claim_from_stored(stored)), json::to_string(&expected));
    }

    #[test]
    fn slices_there_and_back() {
        let basic = object! { "attributes": object! { "a": object! { "bool": true } } };
        let device = object! { "name": "d", "basic": basic };
        let pool = object! { "name": "p", "generation": 0, "resourceSliceCount": 1 };
        let old = object! {
            "kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1beta1", "metadata": object! { "name": "s" },
            "spec": object! { "driver": "d.io", "pool": pool, "nodeName": "n", "devices": vec![device] },
        };
        let stored = slice_to_stored(old.clone());
        assert!(stored.get("spec").list("devices")[0].get("attributes").has("a"));
        let expected = finished(old, "io.k8s.api.resource.v1beta1.ResourceSlice");
        assert_eq!(json::to_string(&slice_from_stored(stored)), json::to_string(&expected));
    }
}
