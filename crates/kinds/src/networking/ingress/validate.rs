//! What an ingress must look like.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::{self, address};

use super::CLASS;
use crate::core::pod_spec::checks::Seen;
use crate::core::pod_spec::checks::{dns_label, dns_subdomain, each};
use crate::fields::texts;

const SPEC: Path<'static> = Path::new("spec");
/// What paths that are compared may not contain: a proxy may read them otherwise than the server behind it.
const BAD_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const BAD_ENDINGS: [&str; 2] = ["/..", "/."];
const NOT_AN_IP: &str = "must be a DNS name, not an IP address";

/// How strictly names of services are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ServiceNames {
    Relaxed,
    /// As of old: no digit in front.
    Strict,
}

/// The spec; `old` on update, whose mistakes of old are forgiven.
pub fn spec(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let rules = spec.list("rules");
    if rules.is_empty() && !spec.has("defaultBackend") {
        errors.invalid(SPEC, spec.get("rules"), "either `defaultBackend` or `rules` must be specified");
    }
    if spec.has("defaultBackend") {
        backend(SPEC.child("defaultBackend"), spec.get("defaultBackend"), ServiceNames::Relaxed, errors);
    }
    let lenient = old.is_some_and(has_bad_wildcard_rule);
    for (index, value) in rules.iter().enumerate() {
        rule(SPEC.child("rules").index(index), value, lenient, errors);
    }
    let lenient = old.is_some_and(has_bad_secret_name);
    for (index, value) in spec.list("tls").iter().enumerate() {
        tls(SPEC.child("tls").index(index), value, lenient, errors);
    }
    if spec.has("ingressClassName") {
        dns_subdomain(SPEC.child("ingressClassName"), spec.str("ingressClassName"), errors);
    }
}

/// The annotation and the field may not say different classes.
pub fn class_said_twice(ingress: &Value, errors: &mut Errors) {
    let annotations = ingress.at(&["metadata", "annotations"]);
    let spec = ingress.get("spec");
    if annotations.has(CLASS) && spec.has("ingressClassName") && annotations.str(CLASS) != spec.str("ingressClassName")
    {
        let path = Path::new("annotations");
        let detail = "must match `ingressClassName` when both are specified";
        errors.invalid(path.child(CLASS), annotations.str(CLASS), detail);
    }
}

/// Where the load balancer listens. Addresses that were there before are not looked at again.
pub fn status(ingress: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("status.loadBalancer.ingress");
    let old = old.at(&["status", "loadBalancer"]).list("ingress");
    let old = Seen::of(old.iter().map(|old| old.str("ip")));
    for (index, point) in ingress.at(&["status", "loadBalancer"]).list("ingress").iter().enumerate() {
        let path = path.index(index);
        let (ip, hostname) = (point.str("ip"), point.str("hostname"));
        if !ip.is_empty() && !old.has(ip) {
            address::ip_for_legacy_field(path.child("ip"), ip, errors);
        }
        if !hostname.is_empty() {
            dns_subdomain(path.child("hostname"), hostname, errors);
            if address::parse_sloppy(hostname).is_some() {
                errors.invalid(path.child("hostname"), hostname, NOT_AN_IP);
            }
        }
    }
}

fn rule(path: Path<'_>, rule: &Value, lenient: bool, errors: &mut Errors) {
    let host = rule.str("host");
    if !host.is_empty() && address::parse_sloppy(host).is_some() {
        errors.invalid(path.child("host"), host, NOT_AN_IP);
    }
    let wildcard = host.contains('*');
    if wildcard {
        each(path.child("host"), host, names::wildcard_dns1123_subdomain(host), errors);
    } else if !host.is_empty() {
        dns_subdomain(path.child("host"), host, errors);
    }
    if !(wildcard && lenient) {
        http(path.child("http"), rule.get("http"), ServiceNames::Relaxed, errors);
    }
}

fn http(path: Path<'_>, http: &Value, service_names: ServiceNames, errors: &mut Errors) {
    if http.is_null() {
        return;
    }
    let path = path.child("paths");
    if http.list("paths").is_empty() {
        errors.required(path, "");
    }
    for (index, value) in http.list("paths").iter().enumerate() {
        http_path(path.index(index), value, service_names, errors);
    }
}

fn http_path(place: Path<'_>, value: &Value, service_names: ServiceNames, errors: &mut Errors) {
    if !value.has("pathType") {
        return errors.required(place.child("pathType"), "pathType must be specified");
    }
    let path = value.str("path");
    let absolute = path.starts_with('/');
    match value.str("pathType") {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.invalid(place.child("path"), path, "must be an absolute path");
            }
            for bad in BAD_SEQUENCES.iter().filter(|bad| path.contains(**bad)) {
                errors.invalid(place.child("path"), path, format!("must not contain '{bad}'"));
            }
            for bad in BAD_ENDINGS.iter().filter(|bad| path.ends_with(**bad)) {
                errors.invalid(place.child("path"), path, format!("cannot end with '{bad}'"));
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !absolute {
                errors.invalid(place.child("path"), path, "must be an absolute path");
            }
        }
        other => {
            errors.not_supported(place.child("pathType"), other, &["Exact", "ImplementationSpecific", "Prefix"]);
        }
    }
    backend(place.child("backend"), value.get("backend"), service_names, errors);
}

fn backend(path: Path<'_>, backend: &Value, service_names: ServiceNames, errors: &mut Errors) {
    match (backend.has("resource"), backend.has("service")) {
        (true, true) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (true, false) => resource(path.child("resource"), backend.get("resource"), errors),
        (false, true) => service(path, backend.get("service"), service_names, errors),
        (false, false) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

fn service(backend: Path<'_>, service: &Value, service_names: ServiceNames, errors: &mut Errors) {
    let path = backend.child("service");
    let name = service.str("name");
    if name.is_empty() {
        errors.required(path.child("name"), "");
    } else if service_names == ServiceNames::Relaxed {
        dns_label(path.child("name"), name, errors);
    } else {
        each(path.child("name"), name, names::dns1035_label(name), errors);
    }
    let (name, number) = (service.get("port").str("name"), service.get("port").int("number"));
    let path = path.child("port");
    match (name.is_empty(), number) {
        (false, 0) => each(path.child("name"), name, names::port_name(name), errors),
        (false, _) => errors.invalid(backend, "", "cannot set both port name & port number"),
        (true, 0) => errors.required(backend, "port name or number is required"),
        (true, number) => {
            for message in names::port_number(number) {
                errors.invalid(path.child("number"), number, message);
            }
        }
    }
}

fn resource(path: Path<'_>, resource: &Value, errors: &mut Errors) {
    if resource.has("apiGroup") {
        dns_subdomain(path.child("apiGroup"), resource.str("apiGroup"), errors);
    }
    for field in ["kind", "name"] {
        required_segment(path.child(field), resource.str(field), errors);
    }
}

/// A text that must be there and can stand in a path.
pub(in crate::networking) fn required_segment(path: Path<'_>, value: &str, errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        each(path, value, names::path_segment_name(value), errors);
    }
}

fn tls(path: Path<'_>, tls: &Value, lenient: bool, errors: &mut Errors) {
    let hosts = path.child("hosts");
    for (index, host) in texts(tls, "hosts").enumerate() {
        if host.contains('*') {
            each(hosts.index(index), host, names::wildcard_dns1123_subdomain(host), errors);
        } else {
            dns_subdomain(hosts.index(index), host, errors);
        }
    }
    let secret = tls.str("secretName");
    if !lenient && !secret.is_empty() {
        dns_subdomain(path.child("secretName"), secret, errors);
    }
}

fn has_bad_secret_name(spec: &Value) -> bool {
    let mut secrets = spec.list("tls").iter().map(|tls| tls.str("secretName"));
    secrets.any(|secret| !secret.is_empty() && !names::dns1123_subdomain(secret).is_empty())
}

fn has_bad_wildcard_rule(spec: &Value) -> bool {
    spec.list("rules").iter().any(|rule| {
        let mut errors = Errors::new();
        if rule.str("host").contains('*') {
            http(Path::ROOT, rule.get("http"), ServiceNames::Strict, &mut errors);
        }
        !errors.is_empty()
    })
}
