//! Names and addresses: DNS, host aliases, host ports.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names::address;
use rkube_machinery::{Value, names};

use super::checks::{dns_subdomain, each, required_one_of};

const DNS_POLICIES: &[&str] = &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const NAME_SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCHES_MAX_BYTES: usize = 2048;
const HOST_NAME_MAX_BYTES: usize = 64;

pub(super) fn validate_dns_policy(path: Path<'_>, policy: &str, errors: &mut Errors) {
    required_one_of(path, policy, DNS_POLICIES, errors);
}

pub(super) fn validate_dns_config(path: Path<'_>, config: &Value, policy: &str, errors: &mut Errors) {
    let servers = config.list("nameservers");
    if policy == "None" {
        if config.is_null() {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let words = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(path.child("nameservers"), words);
        }
    }
    if config.is_null() {
        return;
    }
    let servers_path = path.child("nameservers");
    if servers.len() > NAME_SERVERS_MAX {
        let words = format!("must not have more than {NAME_SERVERS_MAX} nameservers");
        errors.invalid(servers_path, config.get("nameservers"), words);
    }
    for (index, server) in servers.iter().enumerate() {
        address::ip_for_legacy_field(servers_path.index(index), server.as_str(), errors);
    }
    validate_searches(path.child("searches"), config.get("searches"), errors);
    let options = path.child("options");
    for (index, option) in config.list("options").iter().enumerate() {
        if option.str("name").is_empty() {
            errors.required(options.index(index), "must not be empty");
        }
    }
}

fn validate_searches(path: Path<'_>, list: &Value, errors: &mut Errors) {
    let searches = list.items();
    if searches.len() > SEARCHES_MAX {
        errors.invalid(path, list, format!("must not have more than {SEARCHES_MAX} search paths"));
    }
    let bytes: usize = searches.iter().map(|search| search.as_str().len() + 1).sum();
    if bytes.saturating_sub(1) > SEARCHES_MAX_BYTES {
        let words =
            format!("must not have more than {SEARCHES_MAX_BYTES} characters (including spaces) in the search list");
        errors.invalid(path, list, words);
    }
    for (index, search) in searches.iter().map(Value::as_str).enumerate() {
        if search != "." {
            let search = search.strip_suffix('.').unwrap_or(search);
            each(path.index(index), search, names::dns1123_subdomain_with_underscore(search), errors);
        }
    }
}

/// Lines for the pod's hosts file.
pub fn validate_host_aliases(path: Path<'_>, aliases: &[Value], errors: &mut Errors) {
    for (index, alias) in aliases.iter().enumerate() {
        let path = path.index(index);
        address::ip_for_legacy_field(path.child("ip"), alias.str("ip"), errors);
        let names = path.child("hostnames");
        for (index, name) in alias.list("hostnames").iter().enumerate() {
            dns_subdomain(names.index(index), name.as_str(), errors);
        }
    }
}

/// In the host's network a port of a container is the host's port.
pub(super) fn validate_host_network(path: Path<'_>, spec: &Value, is_pod: bool, errors: &mut Errors) {
    if !spec.bool("hostNetwork") {
        return;
    }
    let containers = path.child("containers");
    for (index, container) in spec.list("containers").iter().enumerate() {
        let path = containers.index(index);
        let path = path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let number = port.int("hostPort");
            if (is_pod || number != 0) && number != port.int("containerPort") {
                let words = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(path.index(index).child("hostPort"), number, words);
            }
        }
    }
}

pub(super) fn validate_host_name_override(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    if !spec.has("hostnameOverride") {
        return;
    }
    let (path, name) = (path.child("hostnameOverride"), spec.str("hostnameOverride"));
    if spec.bool("setHostnameAsFQDN") {
        errors.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.bool("hostNetwork") {
        errors.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > HOST_NAME_MAX_BYTES {
        errors.too_long(path, HOST_NAME_MAX_BYTES);
    }
    dns_subdomain(path, name, errors);
}
