//! Writing a pod's status: what its node and the scheduler say of it.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::names::address;
use rkube_machinery::{Value, json, names};

use super::super::pod_spec::{self, PodOptions, amounts, checks, disabled};
use super::{carry, update};
use crate::core::pod_spec::checks::Seen;

const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];
const NOT_NEGATIVE: &str = "must be a non-negative integer";

pub(super) fn prepare(pod: &mut Value, old: &Value) {
    carry(pod, old, "spec");
    let metadata = pod.object_mut("metadata");
    for field in ["deletionTimestamp", "ownerReferences"] {
        carry(metadata, old.get("metadata"), field);
    }
    let (status, old) = (pod.object_mut("status"), old.get("status"));
    if status.str("qosClass").is_empty() {
        carry(status, old, "qosClass");
    }
    if status.int("observedGeneration") == 0 {
        carry(status, old, "observedGeneration");
    }
    keep_condition_generations(status, old);
    disabled::drop_disabled_status(status, old);
}

/// A condition without a generation keeps that of the old condition of its type; the first of the new with the first
/// of the old, and so on.
fn keep_condition_generations(status: &mut Value, old: &Value) {
    if old.list("conditions").iter().all(|one| one.int("observedGeneration") == 0) {
        return;
    }
    let mut before: BTreeMap<&str, VecDeque<i64>> = BTreeMap::new();
    for one in old.list("conditions") {
        before.entry(one.str("type")).or_default().push_back(one.int("observedGeneration"));
    }
    for condition in status.list_mut("conditions") {
        let before = before.get_mut(condition.str("type")).and_then(VecDeque::pop_front);
        if condition.int("observedGeneration") != 0 {
            continue;
        }
        if let Some(generation) = before.filter(|number| *number != 0) {
            condition.set("observedGeneration", generation);
        }
    }
}

pub(super) fn validate(pod: &Value, old: &Value, options: &PodOptions, errors: &mut Errors) {
    update::validate_annotation_updates(pod, old, options, errors);
    let path = Path::new("status");
    let (status, old_status, spec) = (pod.get("status"), old.get("status"), pod.get("spec"));
    validate_conditions(path.child("conditions"), status.list("conditions"), errors);
    if spec.str("nodeName") != old.get("spec").str("nodeName") {
        errors.forbidden(path.child("nodeName"), "may not be changed directly");
    }
    validate_nominated_node(path.child("nominatedNodeName"), pod, old, errors);
    if status.int("observedGeneration") < 0 {
        errors.invalid(path.child("observedGeneration"), status.int("observedGeneration"), NOT_NEGATIVE);
    }
    if status.str("qosClass") != old_status.str("qosClass") {
        errors.invalid(path.child("qosClass"), status.str("qosClass"), "field is immutable");
    }
    for (list, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        validate_transitions(
            path.child(list),
            status.list(list),
            old_status.list(list),
            old.get("spec"),
            containers,
            errors,
        );
    }
    validate_claims(path.child("resourceClaimStatuses"), status, spec, errors);
    validate_extended_claim(path.child("extendedResourceClaimStatus"), status, spec, errors);
    validate_allocatable(path.child("nodeAllocatableResourceClaimStatuses"), status, spec, errors);
    validate_addresses(path.child("podIPs"), status, old_status, "podIPs", errors);
    validate_host_addresses(path.child("hostIPs"), status, old_status, errors);
    for list in disabled::STATUS_LISTS {
        validate_users(path.child(list), status.list(list), spec, errors);
    }
    validate_allocated(
        path.child("containerStatuses"),
        status.list("containerStatuses"),
        spec.list("containers"),
        errors,
    );
    let init = path.child("initContainerStatuses");
    validate_allocated(init, status.list("initContainerStatuses"), spec.list("initContainers"), errors);
    for (index, container) in status.list("ephemeralContainerStatuses").iter().enumerate() {
        if !container.list("allocatedResourcesStatus").is_empty() {
            let path = path.child("ephemeralContainerStatuses");
            let path = path.index(index);
            errors.forbidden(path.child("allocatedResourcesStatus"), "must not be specified in container status");
        }
    }
}

fn validate_conditions(path: Path<'_>, conditions: &[Value], errors: &mut Errors) {
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let generation = condition.int("observedGeneration");
        if generation < 0 {
            errors.invalid(path.child("observedGeneration"), generation, NOT_NEGATIVE);
        }
        if !SYSTEM_CONDITIONS.contains(&condition.str("type")) {
            checks::qualified_name(path.child("Type"), condition.str("type"), errors);
        }
    }
}

fn validate_nominated_node(path: Path<'_>, pod: &Value, old: &Value, errors: &mut Errors) {
    let node = pod.get("status").str("nominatedNodeName");
    if node.is_empty() || node == old.get("status").str("nominatedNodeName") {
        return;
    }
    checks::dns_subdomain(path, node, errors);
    if !old.get("spec").str("nodeName").is_empty() {
        errors.forbidden(path, "may not be set on pods that are already bound to a node");
    }
}

/// A container that has ended stays so, unless it is one that is started again.
fn validate_transitions(
    path: Path<'_>,
    new: &[Value],
    old: &[Value],
    spec: &Value,
    containers: Option<&str>,
    errors: &mut Errors,
) {
    let none_ended = old.iter().all(|one| !one.get("state").has("terminated"));
    if none_ended || containers.is_some() && all_may_restart(spec) {
        return;
    }
    let mut alive: BTreeMap<&str, usize> = BTreeMap::new();
    for one in new.iter().filter(|one| !one.get("state").has("terminated")) {
        *alive.entry(one.str("name")).or_default() += 1;
    }
    let in_spec = by_name(containers.into_iter().flat_map(|list| spec.list(list)));
    for (index, old) in old.iter().enumerate() {
        let ended = old.get("state").get("terminated");
        if ended.is_null() {
            continue;
        }
        let count = alive.get(old.str("name")).copied().unwrap_or(0);
        let (count, allowed) = match containers {
            None => (count, false),
            Some(_) => {
                let container = in_spec.get(old.str("name"));
                (count.min(1), container.is_some_and(|one| may_restart(one, spec, ended.int("exitCode"))))
            }
        };
        if !allowed {
            for _ in 0..count {
                errors.forbidden(path.index(index).child("state"), "may not be transitioned to non-terminated state");
            }
        }
    }
}

fn all_may_restart(spec: &Value) -> bool {
    let containers = spec.list("initContainers").iter().chain(spec.list("containers"));
    containers.flat_map(|one| one.list("restartPolicyRules")).any(|rule| rule.str("action") == "RestartAllContainers")
}

fn may_restart(container: &Value, spec: &Value, exit_code: i64) -> bool {
    if container.has("restartPolicy") {
        let matched = container.list("restartPolicyRules").iter().find(|rule| matches_exit(rule, exit_code));
        if matched.is_some_and(|rule| matches!(rule.str("action"), "Restart" | "RestartAllContainers")) {
            return true;
        }
        match container.str("restartPolicy") {
            "Always" => return true,
            "OnFailure" => return exit_code != 0,
            "Never" => return false,
            _ => {}
        }
    }
    match spec.str("restartPolicy") {
        "OnFailure" => exit_code != 0,
        "Never" => false,
        _ => true,
    }
}

fn matches_exit(rule: &Value, exit_code: i64) -> bool {
    let codes = rule.get("exitCodes");
    let listed = codes.list("values").iter().any(|code| code.as_int() == Some(exit_code));
    match codes.str("operator") {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

fn validate_claims(path: Path<'_>, status: &Value, spec: &Value, errors: &mut Errors) {
    let claims = status.list("resourceClaimStatuses");
    let known = Seen::of(spec.list("resourceClaims").iter().map(|one| one.str("name")));
    let mut seen = Seen::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let name = claim.str("name");
        if !known.has(name) {
            errors.invalid(path.child("name"), name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !seen.add(name) {
            errors.duplicate(path.child("name"), name);
        }
        if claim.has("resourceClaimName") {
            checks::dns_subdomain(path.child("resourceClaimName"), claim.str("resourceClaimName"), errors);
        }
    }
}

fn validate_extended_claim(path: Path<'_>, status: &Value, spec: &Value, errors: &mut Errors) {
    let claim = status.get("extendedResourceClaimStatus");
    if claim.is_null() {
        return;
    }
    let mappings = claim.list("requestMappings");
    let mappings_path = path.child("requestMappings");
    if mappings.is_empty() {
        errors.required(mappings_path, "at least one request mapping is required");
    }
    let fields = ["containerName", "resourceName", "requestName"];
    let containers = by_name(spec.list("containers").iter().chain(spec.list("initContainers")));
    let mut seen = Seen::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let item = mappings_path.index(index);
        let (name, resource) = (mapping.str("containerName"), mapping.str("resourceName"));
        match containers.get(name) {
            None => {
                let words = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(item.child("containerName"), name, words);
            }
            Some(one) if !one.get("resources").map("requests").contains(resource) => {
                let words = "must match the extended resource name of an entry in \
                             spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(item.child("resourceName"), resource, words);
            }
            Some(_) => {}
        }
        checks::dns_label(path.child("requestName"), mapping.str("requestName"), errors);
        if !seen.add(fields.map(|field| mapping.str(field))) {
            for field in fields {
                errors.duplicate(item.child(field), mapping.str(field));
            }
        }
    }
    let name = claim.str("resourceClaimName");
    if name.is_empty() {
        errors.required(path.child("resourceClaimName"), "");
    } else {
        checks::dns_subdomain(path.child("resourceClaimName"), name, errors);
    }
}

fn validate_allocatable(path: Path<'_>, status: &Value, spec: &Value, errors: &mut Errors) {
    let claims = spec.list("resourceClaims").iter().chain(status.list("resourceClaimStatuses"));
    let claims = claims.filter(|one| one.has("resourceClaimName"));
    let claims = Seen::of(claims.map(|one| one.str("resourceClaimName")));
    for (index, entry) in status.list("nodeAllocatableResourceClaimStatuses").iter().enumerate() {
        let path = path.index(index);
        let name = entry.str("resourceClaimName");
        if name.is_empty() {
            errors.required(path.child("resourceClaimName"), "must not be empty");
        }
        if !claims.has(name) {
            errors.invalid(path.child("resourceClaimName"), name, "no mapping found in pod reference");
        }
        if entry.list("containers").is_empty() {
            errors.required(path.child("containers"), "must not be empty");
        }
        let resources = path.child("resources");
        if entry.map("resources").is_empty() {
            errors.required(resources, "must not be empty");
        }
        for (name, amount) in entry.map("resources").iter() {
            if !pod_spec::is_native_resource(name) {
                errors.invalid(resources.key(name), name.as_str(), "must be a node allocatable resource name");
            }
            if amounts::is_negative(amount) {
                errors.invalid(resources.key(name), amount, "must be non-negative");
            }
        }
    }
}

/// At most one address of each family.
fn validate_addresses(path: Path<'_>, status: &Value, old: &Value, field: &str, errors: &mut Errors) {
    let list = status.list(field);
    let old = Seen::of(old.list(field).iter().map(|old| old.str("ip")));
    for (index, entry) in list.iter().enumerate() {
        let ip = entry.str("ip");
        if !old.has(ip) {
            address::ip_for_legacy_field(path.index(index), ip, errors);
        }
    }
    if list.len() < 2 {
        return;
    }
    let parsed: Vec<_> = list.iter().map(|entry| address::parse_sloppy(entry.str("ip"))).collect();
    let bad = parsed.iter().position(Option::is_none);
    if let Some(index) = bad {
        let shown = list[index].str("ip");
        errors.internal(path, format!("failed to check for dual stack with error:invalid IP[{index}]: {shown}"));
    }
    let has = |is: fn(&IpAddr) -> bool| parsed.iter().flatten().any(is);
    let both = bad.is_none() && has(IpAddr::is_ipv4) && has(IpAddr::is_ipv6);
    if !both || list.len() > 2 {
        let shown: Vec<String> =
            list.iter().map(|entry| format!("{{\"IP\":{}}}", json::to_string(entry.get("ip")))).collect();
        let shown = BadValue::Text(format!("[{}]", shown.join(",")));
        errors.invalid(path, shown, "may specify no more than one IP for each IP family");
    }
}

fn validate_host_addresses(path: Path<'_>, status: &Value, old: &Value, errors: &mut Errors) {
    let Some(first) = status.list("hostIPs").first() else { return };
    if first.str("ip") != status.str("hostIP") {
        errors.invalid(path.index(0).child("ip"), first.str("ip"), "must be equal to `hostIP`");
    }
    validate_addresses(path, status, old, "hostIPs", errors);
}

/// The users that containers run as.
fn validate_users(path: Path<'_>, statuses: &[Value], spec: &Value, errors: &mut Errors) {
    let os = if spec.has("os") { spec.get("os").str("name") } else { "linux" };
    for (index, status) in statuses.iter().enumerate() {
        let user = status.get("user").get("linux");
        if user.is_null() {
            continue;
        }
        let path = path.index(index);
        let path = path.child("user");
        let path = path.child("linux");
        if os == "windows" {
            errors.forbidden(path, "cannot be set for a windows pod");
        }
        if os != "linux" {
            continue;
        }
        let mut check = |path: Path<'_>, id: i64| {
            for message in names::user_id(id) {
                errors.invalid(path, id, message);
            }
        };
        check(path.child("uid"), user.int("uid"));
        check(path.child("gid"), user.int("gid"));
        let groups = path.child("supplementalGroups");
        for (index, group) in user.list("supplementalGroups").iter().enumerate() {
            check(groups.index(index), group.as_int().unwrap_or(0));
        }
    }
}

/// The health of the devices that containers have.
fn validate_allocated(path: Path<'_>, statuses: &[Value], containers: &[Value], errors: &mut Errors) {
    let containers = by_name(containers);
    for (index, status) in statuses.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("allocatedResourcesStatus");
        let container = containers.get(status.str("name")).copied();
        let claims = || container.into_iter().flat_map(|container| container.get("resources").list("claims"));
        let claims = if status.list("allocatedResourcesStatus").is_empty() {
            Seen::new()
        } else {
            Seen::of(claims().map(|one| (one.str("name"), one.str("request"))))
        };
        for (index, resource) in status.list("allocatedResourcesStatus").iter().enumerate() {
            let path = path.index(index);
            if let Some(words) =
                container.and_then(|container| unknown_resource(container, &claims, resource.str("name")))
            {
                errors.invalid(path.child("name"), resource.str("name"), words);
            }
            let devices = path.child("resources");
            validate_devices(devices, resource.list("resources"), errors);
        }
    }
}

/// The first of each name.
fn by_name<'a>(items: impl IntoIterator<Item = &'a Value>) -> BTreeMap<&'a str, &'a Value> {
    let mut found = BTreeMap::new();
    for item in items {
        found.entry(item.str("name")).or_insert(item);
    }
    found
}

fn unknown_resource(container: &Value, claims: &Seen<(&str, &str)>, name: &str) -> Option<&'static str> {
    let Some(claim) = name.strip_prefix("claim:") else {
        let known = container.get("resources").map("requests").contains(name);
        return (!known).then_some("must match one of the container's resource requests");
    };
    // No request's name is empty.
    let of_request = claim.split_once('/').filter(|(_, request)| !request.is_empty());
    let known = claims.has((claim, "")) || of_request.is_some_and(|one| claims.has(one));
    let words = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or \
                 'claim:<claimName>' if request is empty";
    (!known).then_some(words)
}

fn validate_devices(path: Path<'_>, devices: &[Value], errors: &mut Errors) {
    const MESSAGE_MAX_BYTES: usize = 1024;
    let mut seen = Seen::new();
    for (index, device) in devices.iter().enumerate() {
        let path = path.index(index);
        let health = device.str("health");
        let known = ["Healthy", "Unhealthy", "Unknown"];
        if !known.contains(&health) {
            errors.not_supported(path.child("health"), health, &known);
        }
        if device.has("message") {
            match device.str("message").len() {
                0 => errors.required(path.child("message"), "must be non-empty if specified"),
                length if length > MESSAGE_MAX_BYTES => errors.too_long(path.child("message"), MESSAGE_MAX_BYTES),
                _ => {}
            }
        }
        let id = device.str("resourceID");
        if !seen.add(id) {
            errors.duplicate(path.child("resourceID"), id);
        }
    }
}
