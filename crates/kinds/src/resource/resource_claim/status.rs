//! The devices that a claim got, who uses them, and what drivers say of them.

use rkube_machinery::value::Distinct;
use std::collections::BTreeSet;

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::names::address::Subnet;
use rkube_machinery::{Value, json, object};

use super::super::configuration::{self, CONFIGURATIONS_MAX, validate_raw};
use super::super::lists::{set, slice};
use super::super::{claim_spec, names, taints};
use crate::core::pod_spec::checks::{dns_label, require, required_one_of};
use crate::core::pod_spec::{go_form, validate_driver_name, validate_node_selector};
use crate::meta;

const STATUS: Path<'static> = Path::new("status");
const USERS_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONDITIONS_MAX: usize = 8;
const DATA_MAX_BYTES: usize = 10 * 1024;
const ADDRESSES_MAX: usize = 16;
const INTERFACE_MAX_BYTES: usize = 256;
const HARDWARE_ADDRESS_MAX_BYTES: usize = 128;

/// Driver, pool, device and share.
type DeviceId<'a> = [&'a str; 4];

fn device_id(device: &Value) -> DeviceId<'_> {
    ["driver", "pool", "device", "shareID"].map(|field| device.str(field))
}

fn shown(id: DeviceId<'_>) -> BadValue {
    let [driver, pool, device, share] = id;
    let value = object! { "Driver": driver, "Pool": pool, "Device": device, "ShareID": share };
    BadValue::Text(json::to_string(&value))
}

fn allocated(status: &Value) -> &[Value] {
    status.at(&["allocation", "devices"]).list("results")
}

/// What drivers said of devices that the claim has no more goes with them.
pub(super) fn drop_freed_devices(claim: &mut Value, old: &Value) {
    if claim.get("status").list("devices").is_empty() {
        return;
    }
    let mut freed: BTreeSet<DeviceId<'_>> = allocated(old.get("status")).iter().map(device_id).collect();
    for device in allocated(claim.get("status")) {
        freed.remove(&device_id(device));
    }
    if freed.is_empty() {
        return;
    }
    let kept = claim.get("status").list("devices").iter();
    let kept: Vec<Value> = kept.filter(|device| !freed.contains(&device_id(device))).cloned().collect();
    let status = claim.object_mut("status");
    status.set("devices", kept);
    if status.list("devices").is_empty() {
        status.remove("devices");
    }
}

pub(super) fn validate(claim: &Value, old: &Value, errors: &mut Errors) {
    let (status, before) = (claim.get("status"), old.get("status"));
    let users = status.list("reservedFor");
    set(
        STATUS.child("reservedFor"),
        users,
        USERS_MAX,
        |user| user.str("uid"),
        errors,
        |path, user, errors| {
            for field in ["resource", "name", "uid"] {
                require(user, path, field, errors);
            }
        },
    );
    validate_devices(STATUS.child("devices"), status, errors);
    if !users.is_empty() {
        let path = STATUS.child("reservedFor");
        if !status.has("allocation") {
            errors.forbidden(path, "may not be specified when `allocated` is not set");
        } else if claim.get("metadata").has("deletionTimestamp") && has_new(users, before.list("reservedFor")) {
            let words = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.forbidden(path, words);
        }
    }
    let (allocation, allocation_before) = (status.get("allocation"), before.get("allocation"));
    let path = STATUS.child("allocation");
    if allocation.is_null() {
        return;
    }
    if allocation_before.is_null() {
        validate_allocation(path, allocation, claim.at(&["spec", "devices"]), errors);
    } else if !go_form::same("AllocationResult", allocation, allocation_before) {
        let shown = BadValue::Text(go_form::go_json("AllocationResult", allocation));
        errors.invalid(path, shown, "field is immutable");
    }
}

fn has_new(users: &[Value], old: &[Value]) -> bool {
    let old = Distinct::of(old);
    users.iter().any(|user| !old.has(user))
}

fn validate_devices(path: Path<'_>, status: &Value, errors: &mut Errors) {
    let devices = status.list("devices");
    if devices.is_empty() {
        return;
    }
    let known: BTreeSet<DeviceId<'_>> = allocated(status).iter().map(device_id).collect();
    for (index, device) in devices.iter().enumerate() {
        validate_device(path.index(index), device, &known, errors);
    }
    let mut seen = BTreeSet::new();
    for (index, device) in devices.iter().enumerate() {
        if !seen.insert(device_id(device)) {
            errors.duplicate(path.index(index), shown(device_id(device)));
        }
    }
}

fn validate_device(path: Path<'_>, device: &Value, known: &BTreeSet<DeviceId<'_>>, errors: &mut Errors) {
    validate_driver_name(path.child("driver"), device.str("driver"), errors);
    names::pool(path.child("pool"), device.str("pool"), errors);
    dns_label(path.child("device"), device.str("device"), errors);
    if device.has("shareID") {
        names::uuid(path.child("shareID"), device.str("shareID"), errors);
    }
    if !known.contains(&device_id(device)) {
        errors.invalid(path, shown(device_id(device)), "must be an allocated device in the claim");
    }
    let list = device.list("conditions");
    if list.len() > CONDITIONS_MAX {
        errors.too_many(path.child("conditions"), list.len(), CONDITIONS_MAX);
    }
    meta::validate_conditions(path.child("conditions"), list, errors);
    if device.has("data") {
        validate_raw(path.child("data"), device.get("data"), DATA_MAX_BYTES, errors);
    }
    if device.has("networkData") {
        validate_network(path.child("networkData"), device.get("networkData"), errors);
    }
}

fn validate_network(path: Path<'_>, network: &Value, errors: &mut Errors) {
    for (field, max) in [("interfaceName", INTERFACE_MAX_BYTES), ("hardwareAddress", HARDWARE_ADDRESS_MAX_BYTES)] {
        if network.str(field).len() > max {
            errors.too_long(path.child(field), max);
        }
    }
    set(path.child("ips"), network.list("ips"), ADDRESSES_MAX, Value::as_str, errors, |path, address, errors| {
        validate_address(path, address.as_str(), errors);
    });
}

/// An address with the length of its network's prefix, in canonical form.
fn validate_address(path: Path<'_>, value: &str, errors: &mut Errors) {
    let Some(subnet) = Subnet::parse_sloppy(value) else {
        let words = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return errors.invalid(path, value, words);
    };
    let (address, mut length) = (subnet.address.to_canonical(), subnet.length);
    if address.is_ipv4() && length > 32 {
        length -= 96;
    }
    let canonical = format!("{address}/{length}");
    if value != canonical {
        errors.invalid(path, value, format!("must be in canonical form (\"{canonical}\")"));
    }
}

/// A new allocation. `devices` is what the claim asks for.
fn validate_allocation(path: Path<'_>, allocation: &Value, devices: &Value, errors: &mut Errors) {
    let given = allocation.get("devices");
    let devices_path = path.child("devices");
    slice(devices_path.child("results"), given.list("results"), RESULTS_MAX, errors, |path, result, errors| {
        claim_spec::validate_reference(path.child("request"), result.str("request"), devices, errors);
        validate_driver_name(path.child("driver"), result.str("driver"), errors);
        names::pool(path.child("pool"), result.str("pool"), errors);
        dns_label(path.child("device"), result.str("device"), errors);
        taints::validate_conditions(path, result, errors);
        if result.has("shareID") {
            names::uuid(path.child("shareID"), result.str("shareID"), errors);
        }
    });
    let configurations = given.list("config");
    slice(devices_path.child("config"), configurations, 2 * CONFIGURATIONS_MAX, errors, |path, config, errors| {
        required_one_of(path.child("source"), config.str("source"), &["FromClaim", "FromClass"], errors);
        claim_spec::validate_references(path.child("requests"), config.list("requests"), devices, errors);
        configuration::validate(path, config, false, errors);
    });
    if allocation.has("nodeSelector") {
        validate_node_selector(path.child("nodeSelector"), allocation.get("nodeSelector"), false, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> Value {
        object! { "request": "r", "driver": "d.io", "pool": "p", "device": name }
    }

    fn claim(results: Vec<Value>, devices: Vec<Value>) -> Value {
        let request = object! { "name": "r", "exactly": object! { "deviceClassName": "c" } };
        let allocation = object! { "devices": object! { "results": results } };
        object! {
            "spec": object! { "devices": object! { "requests": vec![request] } },
            "status": object! { "allocation": allocation, "devices": devices },
        }
    }

    #[test]
    fn devices_are_those_of_the_claim() {
        let none = Value::object();
        for (devices, wrong) in
            [(vec![device("a")], 0), (vec![device("b")], 1), (vec![device("a"), device("a")], 1), (vec![], 0)]
        {
            let mut errors = Errors::new();
            validate(&claim(vec![device("a")], devices), &none, &mut errors);
            assert_eq!(errors.len(), wrong, "{}", errors.summary());
        }
        let mut freed = claim(vec![], vec![device("a")]);
        drop_freed_devices(&mut freed, &claim(vec![device("a")], vec![]));
        assert!(!freed.get("status").has("devices"));
    }

    #[test]
    fn addresses() {
        for (value, wrong) in [
            ("10.9.8.7/24", 0),
            ("2001:db8::1/64", 0),
            ("10.9.8.7", 1),
            ("2001:DB8::1/64", 1),
            ("010.9.8.7/24", 1),
            ("::ffff:192.168.0.1/120", 1),
        ] {
            let mut errors = Errors::new();
            validate_address(Path::new("x"), value, &mut errors);
            assert_eq!(errors.len(), wrong, "{value}");
        }
    }
}
