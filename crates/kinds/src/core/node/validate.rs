//! What a node must look like.
//!
//! The taints in `spec` are named `metadata.taints` in errors: that is the path that clients know.

use rkube_machinery::field::{BadValue, ErrorType, Errors, Path, quote};
use rkube_machinery::names::address::{self, Subnet};
use rkube_machinery::value::Distinct;
use rkube_machinery::{Value, json, names, object};

use super::annotations;
use crate::core::pod_spec::checks::Seen;
use crate::fields::texts;

const METADATA: Path<'static> = Path::new("metadata");
const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");
const FEATURE_NAME_MAX_BYTES: usize = 253;
const DOMAIN_MAX_BYTES: usize = 253;

/// A whole node.
pub fn node(node: &Value, errors: &mut Errors) {
    let (spec, status) = (node.get("spec"), node.get("status"));
    annotations::validate(METADATA.child("annotations"), node.get("metadata").map("annotations"), taints, errors);
    taints(METADATA.child("taints"), spec.list("taints"), errors);
    resources(status, errors);
    let swap = status.at(&["nodeInfo", "swap"]);
    if swap.has("capacity") && swap.int("capacity") <= 0 {
        let path = METADATA.child("nodeSwapStatus");
        errors.invalid(path.child("capacity"), swap.int("capacity"), "must be greater than zero");
    }
    declared_features(status, errors);
    pod_cidrs(spec, errors);
}

/// What a change of a node, or of its status, may not do.
pub fn update(node: &Value, old: &Value, errors: &mut Errors) {
    let (spec, status) = (node.get("spec"), node.get("status"));
    annotations::validate(METADATA.child("annotations"), node.get("metadata").map("annotations"), taints, errors);
    resources(status, errors);
    declared_features(status, errors);
    addresses(status.list("addresses"), errors);
    pod_cidrs_stay(spec.list("podCIDRs"), old.get("spec").list("podCIDRs"), errors);
    let provider = old.get("spec").str("providerID");
    if !provider.is_empty() && provider != spec.str("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(SPEC.child("providerID"), detail);
    }
    taints(METADATA.child("taints"), spec.list("taints"), errors);
    if spec.str("externalID") != old.get("spec").str("externalID") {
        errors.forbidden(SPEC.child("externalID"), "may not be updated");
    }
}

fn taints(path: Path<'_>, taints: &[Value], errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        crate::meta::validate_label_name(path.child("key"), taint.str("key"), errors);
        let messages = names::label_value(taint.str("value"));
        if !messages.is_empty() {
            errors.invalid(path.child("value"), taint.str("value"), messages.join(";"));
        }
        taint_effect(path.child("effect"), taint.str("effect"), errors);
        if !seen.add((taint.str("key"), taint.str("effect"))) {
            let shown = object! {
                "Key": taint.str("key"), "Value": taint.str("value"), "Effect": taint.str("effect"),
                "TimeAdded": taint.get("timeAdded").clone(),
            };
            let value = Some(BadValue::Text(json::to_string(&shown)));
            errors.push(ErrorType::Duplicate, path, value, "taints must be unique by key and effect pair");
        }
    }
}

fn taint_effect(path: Path<'_>, effect: &str, errors: &mut Errors) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if effect.is_empty() {
        errors.required(path, "");
    } else if !EFFECTS.contains(&effect) {
        errors.not_supported(path, effect, &EFFECTS);
    }
}

fn resources(status: &Value, errors: &mut Errors) {
    for list in ["capacity", "allocatable"] {
        let path = STATUS.child(list);
        for (name, quantity) in status.map(list).iter() {
            let path = path.child(name);
            let quantity = quantity.as_str();
            if quantity.starts_with('-') {
                errors.invalid(path, quantity, "must be greater than or equal to 0");
            }
            // Quantities are in canonical form: a fraction ends with a small suffix.
            if is_integer_resource(name) && quantity.ends_with(['m', 'u', 'n']) {
                errors.invalid(path, quantity, "must be an integer");
            }
        }
    }
}

fn is_integer_resource(name: &str) -> bool {
    const INTEGERS: [&str; 9] = [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ];
    let Some((domain, _)) = name.split_once('/') else { return INTEGERS.contains(&name) };
    // A quota puts `requests.` before the name, and the domain must still be one then.
    let short = domain.len() + "requests.".len() <= DOMAIN_MAX_BYTES;
    short
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && names::qualified_name(name).is_empty()
}

fn declared_features(status: &Value, errors: &mut Errors) {
    let path = STATUS.child("declaredFeatures");
    let mut before: Option<&str> = None;
    for (index, feature) in texts(status, "declaredFeatures").enumerate() {
        match before {
            Some(before) if before == feature => errors.duplicate(path.index(index), feature),
            Some(before) if before > feature => {
                errors.invalid(path.index(index), feature, "list must be sorted alphabetically");
            }
            _ => {}
        }
        before = Some(feature);
        if feature.len() > FEATURE_NAME_MAX_BYTES {
            let shown = quote(feature);
            let detail =
                format!("invalid feature name {shown}: must be no more than {FEATURE_NAME_MAX_BYTES} characters");
            errors.invalid(path.index(index), feature, detail);
        } else if !is_feature_name(feature) {
            let shown = quote(feature);
            let detail = format!(
                "invalid feature name {shown}: must start with an UpperCamelCase segment, with subsequent segments \
                 separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters \
                 and slashes"
            );
            errors.invalid(path.index(index), feature, detail);
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_uppercase())
        && name.split('/').all(|segment| {
            segment.starts_with(|letter: char| letter.is_ascii_alphabetic())
                && segment.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

fn pod_cidrs(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("podCIDRs");
    let list = spec.list("podCIDRs");
    for (index, cidr) in texts(spec, "podCIDRs").enumerate() {
        address::cidr_for_legacy_field(path.index(index), cidr, errors);
    }
    if list.len() < 2 {
        return;
    }
    let mut families = [false; 2];
    let mut broken = false;
    for (index, cidr) in texts(spec, "podCIDRs").enumerate() {
        match Subnet::parse_sloppy(cidr) {
            Some(subnet) => families[usize::from(subnet.address.is_ipv6())] = true,
            None => {
                let why = format!("invalid CIDR[{index}]: <nil> (invalid CIDR address: {cidr})");
                let text = "invalid PodCIDRs. failed to check with dual stack with error:";
                errors.internal(path, format!("{text}{why}"));
                broken = true;
                break;
            }
        }
    }
    if broken || families != [true; 2] || list.len() > 2 {
        errors.invalid(path, spec.get("podCIDRs"), "may specify no more than one CIDR for each IP family");
    }
}

/// Set once, they stay.
fn pod_cidrs_stay(cidrs: &[Value], old: &[Value], errors: &mut Errors) {
    if old.is_empty() {
        return;
    }
    let changed =
        if old.len() == cidrs.len() { old.iter().zip(cidrs).filter(|(old, new)| old != new).count() } else { 1 };
    for _ in 0..changed {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.forbidden(SPEC.child("podCIDRs"), detail);
    }
}

fn addresses(addresses: &[Value], errors: &mut Errors) {
    let path = STATUS.child("addresses");
    let mut seen = Distinct::new();
    for (index, address) in addresses.iter().enumerate() {
        if !seen.add(address) {
            let shown = object! { "Type": address.str("type"), "Address": address.str("address") };
            errors.duplicate(path.index(index), &shown);
        }
    }
}
