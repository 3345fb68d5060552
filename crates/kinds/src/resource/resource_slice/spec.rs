//! What a slice must look like.

use std::collections::BTreeMap;

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use super::super::lists::{map, set};
use super::super::names;
use super::device;
use crate::core::pod_spec::checks::{NOT_POSITIVE, dns_label, dns_subdomain};
use crate::core::pod_spec::{go_form, validate_driver_name, validate_node_selector};
use crate::meta;

const SPEC: Path<'static> = Path::new("spec");
const DEVICES_MAX: usize = 128;
/// With taints or counters.
const RICH_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const LABEL_MAX_BYTES: usize = 63;

pub(super) fn validate(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    validate_driver_name(SPEC.child("driver"), spec.str("driver"), errors);
    validate_pool(SPEC.child("pool"), spec.get("pool"), errors);
    if let Some(old) = old {
        let path = SPEC.child("pool");
        let (pool, pool_before) = (spec.get("pool"), old.get("pool"));
        if pool.str("name") != pool_before.str("name") {
            errors.invalid(path.child("name"), pool.str("name"), "field is immutable");
        }
        if spec.str("driver") != old.str("driver") {
            errors.invalid(SPEC.child("driver"), spec.str("driver"), "field is immutable");
        }
        meta::validate_immutable(SPEC.child("nodeName"), spec.get("nodeName"), old.get("nodeName"), errors);
    }
    validate_nodes(spec, errors);
    if spec.has("sharedCounters") && spec.has("devices") {
        errors.invalid(SPEC, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let devices = spec.list("devices");
    let rich = |device: &Value| !device.list("taints").is_empty() || !device.list("consumesCounters").is_empty();
    let max = if devices.iter().any(rich) { RICH_DEVICES_MAX } else { DEVICES_MAX };
    let name: fn(&Value) -> &str = |item| item.str("name");
    let per_device = spec.bool("perDeviceNodeSelection");
    // The first of a name counts.
    let old_devices = old.map_or(&[][..], |old| old.list("devices")).iter().rev();
    let old_devices: BTreeMap<&str, &Value> = old_devices.map(|old| (old.str("name"), old)).collect();
    set(SPEC.child("devices"), devices, max, name, errors, |path, device, errors| {
        let before = old_devices.get(device.str("name")).copied();
        device::validate(path, device, before, per_device, errors);
    });
    let sets = spec.list("sharedCounters");
    set(SPEC.child("sharedCounters"), sets, COUNTER_SETS_MAX, name, errors, |path, set, errors| {
        validate_counters(path, set, "name", errors);
    });
}

fn validate_pool(path: Path<'_>, pool: &Value, errors: &mut Errors) {
    names::pool(path.child("name"), pool.str("name"), errors);
    let count = pool.int("resourceSliceCount");
    if count <= 0 {
        errors.invalid(path.child("resourceSliceCount"), count, NOT_POSITIVE);
    }
    let generation = pool.int("generation");
    if generation < 0 {
        errors.invalid(path.child("generation"), generation, "must be greater than or equal to zero");
    }
}

/// The devices are on one node, on some, on all, or each says where it is.
fn validate_nodes(spec: &Value, errors: &mut Errors) {
    let mut said: Vec<&str> = Vec::new();
    if spec.has("nodeName") {
        let name = spec.str("nodeName");
        if name.is_empty() {
            errors.invalid(SPEC.child("nodeName"), "", "must be either unset or set to a non-empty string");
        } else {
            said.push("`nodeName`");
            dns_subdomain(SPEC.child("nodeName"), name, errors);
        }
    }
    if spec.has("nodeSelector") {
        said.push("`nodeSelector`");
        let path = SPEC.child("nodeSelector");
        validate_node_selector(path, spec.get("nodeSelector"), false, errors);
        let terms = spec.get("nodeSelector").get("nodeSelectorTerms");
        if terms.items().len() != 1 {
            let shown = shown_terms(terms);
            errors.invalid(path.child("nodeSelectorTerms"), shown, "must have exactly one node selector term");
        }
    }
    for (field, shown) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")] {
        match spec.get(field).as_bool() {
            Some(true) => said.push(shown),
            Some(false) => errors.invalid(SPEC.child(field), false, "must be either unset or set to true"),
            None => {}
        }
    }
    let words = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match said.len() {
        0 => errors.required(SPEC, words),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", said.join(", "));
            errors.invalid(SPEC, shown, format!("{words}, but multiple fields are set"));
        }
    }
}

fn shown_terms(terms: &Value) -> BadValue {
    if terms.is_null() {
        return BadValue::Text("null".to_owned());
    }
    let terms: Vec<String> = terms.items().iter().map(|term| go_form::go_json("NodeSelectorTerm", term)).collect();
    BadValue::Text(format!("[{}]", terms.join(",")))
}

/// A named set of counters, or what a device takes of one.
pub(super) fn validate_counters(path: Path<'_>, counters: &Value, name_field: &str, errors: &mut Errors) {
    let name = counters.str(name_field);
    if name.is_empty() {
        errors.required(path.child(name_field), "");
    } else {
        dns_label(path.child(name_field), name, errors);
    }
    let path = path.child("counters");
    let count = counters.map("counters").len();
    if count == 0 {
        errors.required(path, "");
    } else if count > COUNTERS_MAX {
        errors.too_many(path, count, COUNTERS_MAX);
    } else {
        map(path, counters.get("counters"), LABEL_MAX_BYTES, errors, dns_label, |_, _, _| {});
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    fn texts(changes: &[(&str, Value)]) -> Vec<String> {
        let pool = object! { "name": "p", "resourceSliceCount": 1 };
        let mut spec = object! { "driver": "d.io", "pool": pool, "nodeName": "n" };
        for (field, value) in changes {
            spec.set(field, value.clone());
        }
        let mut errors = Errors::new();
        validate(&spec, None, &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn slices_say_where_they_are() {
        assert!(texts(&[]).is_empty());
        assert_eq!(
            texts(&[("allNodes", true.into())]),
            [
                "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
              `perDeviceNodeSelection` is required, but multiple fields are set"
            ]
        );
        assert_eq!(
            texts(&[("nodeName", Value::Null)]),
            [
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is \
              required"
            ]
        );
        assert_eq!(
            texts(&[("nodeName", Value::Null), ("nodeSelector", Value::object())]),
            [
                "spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
                "spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term",
            ]
        );
    }

    #[test]
    fn devices_have_bounds() {
        let devices = |count: usize| -> Value {
            (0..count).map(|index| object! { "name": format!("d{index}") }).collect::<Vec<_>>().into()
        };
        assert!(texts(&[("devices", devices(128))]).is_empty());
        assert_eq!(texts(&[("devices", devices(129))]), ["spec.devices: Too many: 129: must have at most 128 items"]);
        let counters = object! { "c": object! { "value": "1" } };
        let set = object! { "name": "s", "counters": counters };
        assert!(texts(&[("sharedCounters", vec![set].into())]).is_empty());
    }
}
