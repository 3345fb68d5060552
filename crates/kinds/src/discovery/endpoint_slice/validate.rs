//! What an endpoint slice must look like.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::{self, address};

use super::ENDPOINTS;
use crate::core::endpoints::validate_endpoint_ip;
use crate::core::pod_spec::checks::{Seen, dns_label, dns_subdomain, each, qualified_name};
use crate::fields::texts;
use crate::meta;

const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20000;
const TOPOLOGY_LABELS_MAX: usize = 16;
const HINTS_MAX: usize = 8;
const ZONE: &str = "topology.kubernetes.io/zone";

/// A whole slice. Endpoints that do not change are let be: older versions may have found them fine.
pub fn slice(slice: &Value, old: Option<&Value>, errors: &mut Errors) {
    let address_type = slice.str("addressType");
    match address_type {
        "" => errors.required(Path::new("addressType"), ""),
        "IPv4" | "IPv6" | "FQDN" => {}
        other => errors.not_supported(Path::new("addressType"), other, &["FQDN", "IPv4", "IPv6"]),
    }
    validate_ports(slice.list("ports"), errors);
    let endpoints = slice.list("endpoints");
    if old.is_some_and(|old| old.list("endpoints") == endpoints) {
        return;
    }
    if endpoints.len() > ENDPOINTS_MAX {
        return errors.too_many(ENDPOINTS, endpoints.len(), ENDPOINTS_MAX);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(ENDPOINTS.index(index), endpoint, address_type, errors);
    }
}

fn validate_ports(ports: &[Value], errors: &mut Errors) {
    let path = Path::new("ports");
    if ports.len() > PORTS_MAX {
        return errors.too_many(path, ports.len(), PORTS_MAX);
    }
    let mut seen = Seen::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = port.str("name");
        if !name.is_empty() {
            dns_label(path.child("name"), name, errors);
        }
        if !seen.add(name) {
            errors.duplicate(path.child("name"), name);
        }
        match port.str("protocol") {
            _ if !port.has("protocol") => errors.required(path.child("protocol"), ""),
            "TCP" | "UDP" | "SCTP" => {}
            other => errors.not_supported(path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
        }
        if port.has("appProtocol") {
            qualified_name(path.child("appProtocol"), port.str("appProtocol"), errors);
        }
    }
}

fn validate_endpoint(path: Path<'_>, endpoint: &Value, address_type: &str, errors: &mut Errors) {
    let addresses = path.child("addresses");
    match endpoint.list("addresses").len() {
        0 => errors.required(addresses, "must contain at least 1 address"),
        count if count > ADDRESSES_MAX => errors.too_many(addresses, count, ADDRESSES_MAX),
        _ => {}
    }
    for (index, address) in texts(endpoint, "addresses").enumerate() {
        validate_address(addresses, index, address, address_type, errors);
    }
    if endpoint.has("nodeName") {
        dns_subdomain(path.child("nodeName"), endpoint.str("nodeName"), errors);
    }
    let topology = endpoint.map("deprecatedTopology");
    let place = path.child("deprecatedTopology");
    if topology.len() > TOPOLOGY_LABELS_MAX {
        errors.too_many(place, topology.len(), TOPOLOGY_LABELS_MAX);
    }
    meta::validate_labels(place, topology, errors);
    if topology.contains(ZONE) {
        errors.internal(place.key(ZONE), "reserved key was not removed in conversion");
    }
    if endpoint.has("hostname") {
        dns_label(path.child("hostname"), endpoint.str("hostname"), errors);
    }
    if endpoint.has("hints") {
        validate_hints(path.child("hints"), endpoint.get("hints"), errors);
    }
}

/// Addresses of an unknown type are not looked at.
fn validate_address(path: Path<'_>, index: usize, address: &str, address_type: &str, errors: &mut Errors) {
    let place = path.index(index);
    let before = errors.len();
    let wrong_family = match address_type {
        "IPv4" => {
            let address = address::ip_for_legacy_field(place, address, errors);
            address.is_some_and(|address| address.is_ipv6()).then_some("must be an IPv4 address")
        }
        "IPv6" => {
            address::ip(place, address, errors);
            (!address.contains(':')).then_some("must be an IPv6 address")
        }
        "FQDN" => return names::fully_qualified_domain_name(place, address, errors),
        _ => return,
    };
    if errors.len() > before {
        return;
    }
    if let Some(detail) = wrong_family {
        errors.invalid(path, address, detail);
    }
    validate_endpoint_ip(place, address, errors);
}

fn validate_hints(path: Path<'_>, hints: &Value, errors: &mut Errors) {
    for (field, check) in [("forZones", names::label_value as fn(&str) -> _), ("forNodes", names::dns1123_subdomain)] {
        let list = hints.list(field);
        let path = path.child(field);
        if list.len() > HINTS_MAX {
            return errors.too_many(path, list.len(), HINTS_MAX);
        }
        let mut seen = Seen::new();
        for (index, hint) in list.iter().enumerate() {
            let path = path.index(index);
            let name = hint.str("name");
            if !seen.add(name) {
                errors.duplicate(path.child("name"), name);
            }
            each(path.child("name"), name, check(name), errors);
        }
    }
}
