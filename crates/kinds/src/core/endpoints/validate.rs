//! What endpoints must look like.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;
use rkube_machinery::{Value, names};

use super::SUBSETS;
use crate::core::pod_spec::checks::{dns_label, dns_subdomain, qualified_name};
use crate::core::service::validate_not_special;

pub fn subsets(subsets: &[Value], errors: &mut Errors) {
    for (index, subset) in subsets.iter().enumerate() {
        let path = SUBSETS.index(index);
        if subset.list("addresses").is_empty() && subset.list("notReadyAddresses").is_empty() {
            errors.required(path, "must specify `addresses` or `notReadyAddresses`");
        }
        for field in ["addresses", "notReadyAddresses"] {
            let path = path.child(field);
            for (index, address) in subset.list(field).iter().enumerate() {
                validate_address(path.index(index), address, errors);
            }
        }
        let ports = subset.list("ports");
        let path = path.child("ports");
        for (index, port) in ports.iter().enumerate() {
            validate_port(path.index(index), port, ports.len() > 1, errors);
        }
    }
}

/// An address that traffic can be sent to from anywhere.
pub(crate) fn validate_endpoint_ip(path: Path<'_>, ip: &str, errors: &mut Errors) {
    match address::parse_sloppy(ip) {
        Some(address) => validate_not_special(path, ip, address, errors),
        None => errors.invalid(path, ip, "must be a valid IP address"),
    }
}

fn validate_address(path: Path<'_>, address: &Value, errors: &mut Errors) {
    let (ip, hostname) = (address.str("ip"), address.str("hostname"));
    address::ip_for_legacy_field(path.child("ip"), ip, errors);
    if !hostname.is_empty() {
        dns_label(path.child("hostname"), hostname, errors);
    }
    if address.has("nodeName") {
        dns_subdomain(path.child("nodeName"), address.str("nodeName"), errors);
    }
    validate_endpoint_ip(path.child("ip"), ip, errors);
}

fn validate_port(path: Path<'_>, port: &Value, named: bool, errors: &mut Errors) {
    match port.str("name") {
        "" if named => errors.required(path.child("name"), ""),
        "" => {}
        name => dns_label(path.child("name"), name, errors),
    }
    for message in names::port_number(port.int("port")) {
        errors.invalid(path.child("port"), port.int("port"), message);
    }
    match port.str("protocol") {
        "" => errors.required(path.child("protocol"), ""),
        "TCP" | "UDP" | "SCTP" => {}
        other => errors.not_supported(path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
    }
    if port.has("appProtocol") {
        qualified_name(path.child("appProtocol"), port.str("appProtocol"), errors);
    }
}
