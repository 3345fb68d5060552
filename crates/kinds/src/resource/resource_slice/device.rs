//! A device of a slice.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::super::lists::{map, set, slice};
use super::super::names::{self, QUALIFIED_MAX_BYTES};
use super::super::taints;
use super::{attributes, capacity, spec};
use crate::core::pod_spec::checks::{dns_label, dns_subdomain};
use crate::core::pod_spec::validate_node_selector;
use crate::meta;

const DESCRIPTIONS_MAX: usize = 32;
const VALUES_MAX: usize = 48;
const TAINTS_MAX: usize = 16;
const CONSUMPTIONS_MAX: usize = 2;

/// `per_device`: each device of the slice says on which nodes it is.
pub(super) fn validate(path: Path<'_>, device: &Value, old: Option<&Value>, per_device: bool, errors: &mut Errors) {
    dns_label(path.child("name"), device.str("name"), errors);
    validate_counts(path, device, errors);
    let (attributes, capacities) = (path.child("attributes"), path.child("capacity"));
    map(attributes, device.get("attributes"), QUALIFIED_MAX_BYTES, errors, names::qualified, attributes::validate);
    let shared = device.bool("allowMultipleAllocations");
    let check = if shared { capacity::validate_shared } else { capacity::validate_exclusive };
    map(capacities, device.get("capacity"), QUALIFIED_MAX_BYTES, errors, names::qualified, check);
    if old.is_none_or(|old| !meta::same(old.get("taints"), device.get("taints"))) {
        slice(path.child("taints"), device.list("taints"), TAINTS_MAX, errors, |path, taint, errors| {
            taints::validate_taint(path, taint, None, errors);
        });
    }
    let consumptions = device.list("consumesCounters");
    let key: fn(&Value) -> &str = |item| item.str("counterSet");
    set(path.child("consumesCounters"), consumptions, CONSUMPTIONS_MAX, key, errors, |path, consumption, errors| {
        spec::validate_counters(path, consumption, "counterSet", errors);
    });
    validate_nodes(path, device, per_device, errors);
    taints::validate_conditions(path, device, errors);
}

fn validate_counts(path: Path<'_>, device: &Value, errors: &mut Errors) {
    let attributes = device.map("attributes").len();
    for (count, max, what) in [
        (attributes + device.map("capacity").len(), DESCRIPTIONS_MAX, "attributes and capacities"),
        (attributes, VALUES_MAX, "attribute values"),
    ] {
        if count > max {
            let shown = i64::try_from(count).unwrap_or(i64::MAX);
            errors.invalid(path, shown, format!("the total number of {what} must not exceed {max}"));
        }
    }
}

fn validate_nodes(path: Path<'_>, device: &Value, per_device: bool, errors: &mut Errors) {
    const FIELDS: [&str; 3] = ["nodeName", "nodeSelector", "allNodes"];
    if !per_device {
        if FIELDS.iter().any(|field| device.has(field)) {
            let words = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
                         true in the ResourceSlice spec";
            errors.invalid(path, &Value::Null, words);
        }
        return;
    }
    let mut said: Vec<&str> = Vec::new();
    if device.has("nodeName") {
        let name = device.str("nodeName");
        if name.is_empty() {
            errors.invalid(path.child("nodeName"), "", "must not be empty");
        } else {
            said.push("`nodeName`");
            dns_subdomain(path.child("nodeName"), name, errors);
        }
    }
    if device.has("nodeSelector") {
        said.push("`nodeSelector`");
        validate_node_selector(path.child("nodeSelector"), device.get("nodeSelector"), false, errors);
    }
    match device.get("allNodes").as_bool() {
        Some(true) => said.push("`allNodes`"),
        Some(false) => errors.invalid(path.child("allNodes"), false, "must be either unset or set to true"),
        None => {}
    }
    let words = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is \
                 set to true in the ResourceSlice spec";
    match said.len() {
        0 => errors.required(path, words),
        1 => {}
        _ => errors.invalid(path, format!("{{{}}}", said.join(", ")), words),
    }
}
