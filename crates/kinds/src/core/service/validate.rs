//! What a service must look like, and what a change of it may not do.

use std::net::IpAddr;

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::{self, address};
use rkube_machinery::{Value, object};

use super::{HINTS, SPEC, TOPOLOGY_MODE, families, is_headless, is_reached_from_outside, needs_health_check};
use crate::core::pod_spec::checks::Seen;
use crate::fields::texts;
use crate::meta;

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ANNOTATIONS: Path<'static> = Path::new("metadata.annotations");
const AFFINITY_MAX_SECONDS: i64 = 86400;
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

/// A whole service; `old` on update, whose addresses stay fine.
pub fn service(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let annotations = service.at(&["metadata", "annotations"]);
    if annotations.has(TOPOLOGY_MODE)
        && annotations.has(HINTS)
        && annotations.str(TOPOLOGY_MODE) != annotations.str(HINTS)
    {
        let detail = format!("must match annotations[{HINTS}] when both are specified");
        errors.invalid(ANNOTATIONS.key(TOPOLOGY_MODE), annotations.str(TOPOLOGY_MODE), detail);
    }
    let spec = service.get("spec");
    let old_spec = old.map(|old| old.get("spec"));
    validate_by_type(spec, errors);
    validate_ports(spec.list("ports"), errors);
    meta::validate_labels(SPEC.child("selector"), spec.map("selector"), errors);
    validate_affinity(spec, errors);
    families::validate(spec, old_spec, errors);
    validate_external_ips(spec, old_spec, errors);
    one_of(spec, "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], true, errors);
    validate_port_conflicts(spec, errors);
    validate_source_ranges(service, old, errors);
    let balanced = spec.str("type") == "LoadBalancer";
    match (balanced, spec.has("allocateLoadBalancerNodePorts")) {
        (false, true) => errors.forbidden(SPEC.child("allocateLoadBalancerNodePorts"), ONLY_LOAD_BALANCER),
        (true, false) => errors.required(Path::new("allocateLoadBalancerNodePorts"), ""),
        _ => {}
    }
    validate_load_balancer_class(spec, errors);
    validate_external_traffic(spec, errors);
    let required = matches!(spec.str("type"), "NodePort" | "LoadBalancer" | "ClusterIP");
    if required || spec.has("internalTrafficPolicy") {
        let absent = !spec.has("internalTrafficPolicy");
        one_of(spec, "internalTrafficPolicy", &["Cluster", "Local"], absent, errors);
    }
    if spec.has("trafficDistribution") {
        one_of(spec, "trafficDistribution", &["PreferClose", "PreferSameZone", "PreferSameNode"], false, errors);
    }
}

/// A change of a service.
pub fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let (spec, old_spec) = (new.get("spec"), old.get("spec"));
    if spec.str("type") != "ExternalName" && old_spec.str("type") != "ExternalName" {
        validate_addresses_stay(spec, old_spec, errors);
        validate_families_stay(spec, old_spec, errors);
    }
    let both_balanced = spec.str("type") == "LoadBalancer" && old_spec.str("type") == "LoadBalancer";
    if both_balanced && spec.get("loadBalancerClass") != old_spec.get("loadBalancerClass") {
        errors.invalid(SPEC.child("loadBalancerClass"), spec.get("loadBalancerClass"), "may not change once set");
    }
    validate_load_balancer_class(spec, errors);
    let both_checked = needs_health_check(spec) && needs_health_check(old_spec);
    if both_checked && spec.int("healthCheckNodePort") != old_spec.int("healthCheckNodePort") {
        errors.forbidden(SPEC.child("healthCheckNodePort"), "field is immutable");
    }
    service(new, Some(old), errors);
}

/// A change of a service's status: where its load balancer listens.
pub fn status(service: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status.loadBalancer.ingress");
    let ingress = service.at(&["status", "loadBalancer"]).list("ingress");
    if service.get("spec").str("type") != "LoadBalancer" && !ingress.is_empty() {
        return errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let old = old.at(&["status", "loadBalancer"]).list("ingress");
    let old = Seen::of(old.iter().map(|old| old.str("ip")));
    for (index, ingress) in ingress.iter().enumerate() {
        let path = path.index(index);
        let (ip, hostname) = (ingress.str("ip"), ingress.str("hostname"));
        if !ip.is_empty() && !old.has(ip) {
            address::ip_for_legacy_field(path.child("ip"), ip, errors);
        }
        match (ingress.has("ipMode"), ip.is_empty()) {
            (false, false) => errors.required(path.child("ipMode"), "must be specified when `ip` is set"),
            (true, true) => errors.forbidden(path.child("ipMode"), "may not be specified when `ip` is not set"),
            (true, false) if !matches!(ingress.str("ipMode"), "VIP" | "Proxy") => {
                errors.not_supported(path.child("ipMode"), ingress.str("ipMode"), &["Proxy", "VIP"]);
            }
            _ => {}
        }
        if !hostname.is_empty() {
            for message in names::dns1123_subdomain(hostname) {
                errors.invalid(path.child("hostname"), hostname, message);
            }
            if address::parse_sloppy(hostname).is_some() {
                errors.invalid(path.child("hostname"), hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}

fn validate_by_type(spec: &Value, errors: &mut Errors) {
    let kind = spec.str("type");
    if spec.list("ports").is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required(SPEC.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let path = SPEC.child("clusterIPs");
            errors.invalid(path.index(0), "None", format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let set = if field == "ipFamilyPolicy" { spec.has(field) } else { !spec.list(field).is_empty() };
                if set {
                    errors.forbidden(SPEC.child(field), "may not be set for ExternalName services");
                }
            }
            let path = SPEC.child("externalName");
            let name = spec.str("externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.required(path, ""),
                name => {
                    for message in names::dns1123_subdomain(name) {
                        errors.invalid(path, name, message);
                    }
                }
            }
        }
        _ => {}
    }
}

fn validate_ports(ports: &[Value], errors: &mut Errors) {
    let path = SPEC.child("ports");
    let mut seen = Seen::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = port.str("name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.required(path.child("name"), "");
            }
        } else {
            for message in names::dns1123_label(name) {
                errors.invalid(path.child("name"), name, message);
            }
            if !seen.add(name) {
                errors.duplicate(path.child("name"), name);
            }
        }
        for message in names::port_number(port.int("port")) {
            errors.invalid(path.child("port"), port.int("port"), message);
        }
        match port.str("protocol") {
            "" => errors.required(path.child("protocol"), ""),
            "TCP" | "UDP" | "SCTP" => {}
            other => errors.not_supported(path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
        }
        validate_target_port(path.child("targetPort"), port.get("targetPort"), errors);
        if port.has("appProtocol") {
            meta::validate_label_name(path.child("appProtocol"), port.str("appProtocol"), errors);
        }
    }
}

fn validate_target_port(path: Path<'_>, port: &Value, errors: &mut Errors) {
    match port {
        Value::String(name) => {
            for message in names::port_name(name) {
                errors.invalid(path, name.as_str(), message);
            }
        }
        number => {
            let number = number.as_int().unwrap_or(0);
            for message in names::port_number(number) {
                errors.invalid(path, number, message);
            }
        }
    }
}

fn validate_affinity(spec: &Value, errors: &mut Errors) {
    one_of(spec, "sessionAffinity", &["ClientIP", "None"], true, errors);
    let path = SPEC.child("sessionAffinityConfig");
    let config = spec.get("sessionAffinityConfig");
    match spec.str("sessionAffinity") {
        "ClientIP" => {
            let detail = "when session affinity type is ClientIP";
            let client = path.child("clientIP");
            let seconds = config.get("clientIP").get("timeoutSeconds");
            if config.is_null() {
                errors.required(path, detail);
            } else if !config.has("clientIP") {
                errors.required(client, detail);
            } else if let Some(seconds) = seconds.as_int() {
                if seconds <= 0 || seconds > AFFINITY_MAX_SECONDS {
                    let detail = format!("must be greater than 0 and less than {AFFINITY_MAX_SECONDS}");
                    errors.invalid(client.child("timeoutSeconds"), seconds, detail);
                }
            } else {
                errors.required(client.child("timeoutSeconds"), detail);
            }
        }
        "None" if !config.is_null() => errors.forbidden(path, "must not be set when session affinity is None"),
        _ => {}
    }
}

fn validate_external_ips(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let path = SPEC.child("externalIPs");
    let old = Seen::of(old.into_iter().flat_map(|old| texts(old, "externalIPs")));
    for (index, ip) in texts(spec, "externalIPs").enumerate() {
        let path = path.index(index);
        let before = errors.len();
        let known = old.has(ip);
        let address = if known { address::parse_sloppy(ip) } else { address::ip_for_legacy_field(path, ip, errors) };
        match address {
            Some(address) if errors.len() == before => validate_not_special(path, ip, address, errors),
            None if known => errors.invalid(path, ip, "must be a valid IP address"),
            _ => {}
        }
    }
}

/// Addresses that mean something else on every machine.
pub fn validate_not_special(path: Path<'_>, shown: &str, address: IpAddr, errors: &mut Errors) {
    let address = address.to_canonical();
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(address) => (address.is_link_local(), address.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(address) => (address.is_unicast_link_local(), address.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        errors.invalid(path, shown, format!("may not be unspecified ({shown})"));
    }
    if address.is_loopback() {
        errors.invalid(path, shown, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        errors.invalid(path, shown, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        errors.invalid(path, shown, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// Ports on nodes only where the type has them; each port and protocol once.
fn validate_port_conflicts(spec: &Value, errors: &mut Errors) {
    let ports = spec.list("ports");
    let path = SPEC.child("ports");
    if spec.str("type") == "ClusterIP" {
        for (index, _) in ports.iter().enumerate().filter(|(_, port)| port.int("nodePort") != 0) {
            let path = path.index(index);
            errors.forbidden(path.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = Seen::new();
    for (index, port) in ports.iter().enumerate().filter(|(_, port)| port.int("nodePort") != 0) {
        if !seen.add((port.int("nodePort"), port.str("protocol"))) {
            let path = path.index(index);
            errors.duplicate(path.child("nodePort"), port.int("nodePort"));
        }
    }
    let mut seen = Seen::new();
    for (index, port) in ports.iter().enumerate() {
        if !seen.add((port.int("port"), port.str("protocol"))) {
            let shown = object! {
                "Name": "", "Protocol": port.str("protocol"), "AppProtocol": Value::Null, "Port": port.int("port"),
                "TargetPort": 0, "NodePort": 0,
            };
            errors.duplicate(path.index(index), &shown);
        }
    }
}

/// Who may reach the load balancer: the field, or else the annotation of old. Blanks around values are fine.
fn validate_source_ranges(service: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = service.get("spec");
    let balanced = spec.str("type") == "LoadBalancer";
    if !spec.list("loadBalancerSourceRanges").is_empty() {
        let path = SPEC.child("LoadBalancerSourceRanges");
        if !balanced {
            errors.forbidden(path, ONLY_LOAD_BALANCER);
        }
        let old = old.into_iter().flat_map(|old| texts(old.get("spec"), "loadBalancerSourceRanges"));
        let known = Seen::of(old.map(str::trim));
        for (index, range) in texts(spec, "loadBalancerSourceRanges").map(str::trim).enumerate() {
            if !known.has(range) {
                address::cidr_for_legacy_field(path.index(index), range, errors);
            }
        }
        return;
    }
    let annotations = service.at(&["metadata", "annotations"]);
    if !annotations.has(SOURCE_RANGES) {
        return;
    }
    let path = ANNOTATIONS.key(SOURCE_RANGES);
    if !balanced {
        errors.forbidden(path, ONLY_LOAD_BALANCER);
    }
    let value = annotations.str(SOURCE_RANGES);
    let changed = old.is_none_or(|old| old.at(&["metadata", "annotations"]).str(SOURCE_RANGES) != value);
    if changed && !value.trim().is_empty() {
        for range in value.trim().split(',').map(str::trim) {
            address::cidr_for_legacy_field(path, range, errors);
        }
    }
}

fn validate_load_balancer_class(spec: &Value, errors: &mut Errors) {
    if !spec.has("loadBalancerClass") {
        return;
    }
    let path = SPEC.child("loadBalancerClass");
    if spec.str("type") == "LoadBalancer" {
        meta::validate_label_name(path, spec.str("loadBalancerClass"), errors);
    } else {
        errors.forbidden(path, ONLY_LOAD_BALANCER);
    }
}

fn validate_external_traffic(spec: &Value, errors: &mut Errors) {
    if is_reached_from_outside(spec) {
        one_of(spec, "externalTrafficPolicy", &["Cluster", "Local"], true, errors);
    } else if !spec.str("externalTrafficPolicy").is_empty() {
        let policy = spec.str("externalTrafficPolicy");
        let detail = "may only be set for externally-accessible services";
        errors.invalid(SPEC.child("externalTrafficPolicy"), policy, detail);
    }
    let path = SPEC.child("healthCheckNodePort");
    let port = spec.int("healthCheckNodePort");
    match (needs_health_check(spec), port) {
        (false, 0) => {}
        (false, port) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(path, port, detail);
        }
        (true, 0) => errors.required(path, ""),
        (true, port) => {
            for message in names::port_number(port) {
                errors.invalid(path, port, message);
            }
        }
    }
}

/// The field has one of these values; an empty one is missing where it is required.
fn one_of(spec: &Value, field: &str, supported: &[&str], required: bool, errors: &mut Errors) {
    let value = spec.str(field);
    if value.is_empty() && required {
        errors.required(SPEC.child(field), "");
    } else if !supported.contains(&value) {
        errors.not_supported(SPEC.child(field), value, supported);
    }
}

/// Addresses stay, except for a second one that comes or goes.
fn validate_addresses_stay(spec: &Value, old: &Value, errors: &mut Errors) {
    if is_headless(spec) && is_headless(old) {
        return;
    }
    let (new, before) = (spec.list("clusterIPs"), old.list("clusterIPs"));
    let path = SPEC.child("clusterIPs");
    let shown = || shown_list(spec, "clusterIPs");
    if new.len() == before.len() {
        for index in (0..new.len()).filter(|index| new[*index] != before[*index]) {
            errors.invalid(path.index(index), &shown(), "may not change once set");
        }
        return;
    }
    let released = new.len() < before.len();
    if released && new.is_empty() {
        errors.invalid(path.index(0), &shown(), "primary clusterIP can not be unset");
    }
    if let (Some(first), Some(old)) = (new.first(), before.first())
        && first != old
    {
        errors.invalid(path.index(0), &shown(), "may not change once set");
    }
    if released && new.len() == 1 && spec.str("ipFamilyPolicy") != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errors.invalid(SPEC.child("ipFamilyPolicy"), spec.get("ipFamilyPolicy"), detail);
    }
}

/// So do families, except with headless services.
fn validate_families_stay(spec: &Value, old: &Value, errors: &mut Errors) {
    if is_headless(spec) || is_headless(old) {
        return;
    }
    let (new, before) = (spec.list("ipFamilies"), old.list("ipFamilies"));
    let path = SPEC.child("ipFamilies");
    if new.len() == before.len() {
        for _ in (0..new.len()).filter(|index| new[*index] != before[*index]) {
            errors.invalid(path.index(0), spec.get("ipFamilies"), "may not change once set");
        }
        return;
    }
    let released = new.len() < before.len();
    if released && spec.list("clusterIPs").is_empty() {
        errors.invalid(path.index(0), &shown_list(spec, "ipFamilies"), "primary ipFamily can not be unset");
    }
    if let (Some(first), Some(old)) = (new.first(), before.first())
        && first != old
    {
        errors.invalid(path.index(0), &shown_list(spec, "clusterIPs"), "may not change once set");
    }
    if released && new.len() == 1 && spec.str("ipFamilyPolicy") != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errors.invalid(SPEC.child("ipFamilyPolicy"), spec.get("ipFamilyPolicy"), detail);
    }
}

/// The list as a message shows it: one that is not there is null.
fn shown_list(spec: &Value, field: &str) -> Value {
    spec.get(field).clone()
}
