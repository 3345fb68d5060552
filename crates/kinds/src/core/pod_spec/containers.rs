//! The containers of a pod: those that run, those that run before and those that are added to look inside.

use std::collections::BTreeSet;

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::names;

use super::checks::{self, Seen, dns_label, is_sidecar, one_of, require, required_one_of};
use super::options::PodOptions;
use super::probes::{self, PodFacts};
use super::resources::{self, ClaimNames};
use super::volumes::Volumes;
use super::{env, mounts, security};

pub(super) const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const RESTART_POLICIES: &[&str] = &["Always", "Never", "OnFailure"];
const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

/// What containers are checked against.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub spec: &'a Value,
    pub volumes: &'a Volumes<'a>,
    pub claims: &'a ClaimNames<'a>,
    pub facts: PodFacts<'a>,
    pub host_users: bool,
    pub options: &'a PodOptions,
}

pub(super) fn validate_containers(path: Path<'_>, context: Context<'_>, errors: &mut Errors) {
    let containers = context.spec.list("containers");
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut seen = Seen::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        validate_common(path, container, context, errors);
        let name = container.str("name");
        if !seen.add(name) {
            errors.duplicate(path.child("name"), name);
        }
        validate_hooks(path, container, context.facts, errors);
        validate_restart_policy(path, container, errors);
    }
    validate_host_ports(path, containers, errors);
}

fn validate_hooks(path: Path<'_>, container: &Value, facts: PodFacts<'_>, errors: &mut Errors) {
    if container.has("lifecycle") {
        probes::validate_lifecycle(path.child("lifecycle"), container.get("lifecycle"), facts, errors);
    }
    probes::validate_probes(path, container, facts, errors);
}

pub(super) fn validate_init_containers(path: Path<'_>, context: Context<'_>, errors: &mut Errors) {
    let list = context.spec.list("initContainers");
    if list.is_empty() {
        return;
    }
    let mut seen = Seen::new();
    for container in context.spec.list("containers") {
        seen.add(container.str("name"));
    }
    for (index, container) in list.iter().enumerate() {
        let item = path.index(index);
        validate_common(item, container, context, errors);
        if container.has("restartPolicy") {
            validate_restart_policy(item, container, errors);
        } else if !container.list("restartPolicyRules").is_empty() {
            errors.required(item.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
        }
        let name = container.str("name");
        if seen.has(name) {
            errors.duplicate(item.child("name"), name);
        } else if !name.is_empty() {
            seen.add(name);
        }
        validate_host_ports(path, std::slice::from_ref(container), errors);
        if is_sidecar(container) {
            validate_hooks(item, container, context.facts, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.has(field) {
                let words = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(item.child(field), words);
            }
        }
        if !context.options.restart_of_plain_init_containers {
            validate_plain_resize_policy(item.child("resizePolicy"), container.list("resizePolicy"), errors);
        }
    }
}

fn validate_plain_resize_policy(path: Path<'_>, policies: &[Value], errors: &mut Errors) {
    for (index, policy) in policies.iter().enumerate() {
        if policy.str("restartPolicy") == "RestartContainer" {
            let words = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            errors.invalid(path.index(index).child("restartPolicy"), "RestartContainer", words);
        }
    }
}

pub(super) fn validate_ephemeral_containers(path: Path<'_>, context: Context<'_>, errors: &mut Errors) {
    let list = context.spec.list("ephemeralContainers");
    if list.is_empty() {
        return;
    }
    let (mut others, mut all) = (Seen::new(), Seen::new());
    for container in context.spec.list("containers").iter().chain(context.spec.list("initContainers")) {
        others.add(container.str("name"));
        all.add(container.str("name"));
    }
    for (index, container) in list.iter().enumerate() {
        let path = path.index(index);
        validate_common(path, container, context, errors);
        validate_image_padding(path, container, errors);
        let name = container.str("name");
        if !all.add(name) {
            errors.duplicate(path.child("name"), name);
        }
        let target = container.str("targetContainerName");
        if !target.is_empty() && !others.has(target) {
            errors.not_found(path.child("targetContainerName"), target);
        }
        validate_ephemeral_fields(path, container, errors);
    }
}

/// What a container that is added to a running pod cannot have, in the order of Go's struct.
fn validate_ephemeral_fields(path: Path<'_>, container: &Value, errors: &mut Errors) {
    const WORDS: &str = "cannot be set for an Ephemeral Container";
    let lists = ["ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"];
    let hooks = ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];
    for field in lists.into_iter().filter(|field| !container.get(field).is_empty()) {
        errors.forbidden(path.child(field), WORDS);
    }
    for field in hooks.into_iter().filter(|field| container.has(field)) {
        errors.forbidden(path.child(field), WORDS);
    }
    let mounts = path.child("volumeMounts");
    for (index, mount) in container.list("volumeMounts").iter().enumerate() {
        for field in ["subPath", "subPathExpr"] {
            if !mount.str(field).is_empty() {
                errors.forbidden(mounts.index(index).child(field), WORDS);
            }
        }
    }
}

/// What holds for containers of all sorts.
fn validate_common(path: Path<'_>, container: &Value, context: Context<'_>, errors: &mut Errors) {
    if require(container, path, "name", errors) {
        dns_label(path.child("name"), container.str("name"), errors);
    }
    require(container, path, "image", errors);
    let policies = &["File", "FallbackToLogsOnError"];
    let policy = container.str("terminationMessagePolicy");
    required_one_of(path.child("terminationMessagePolicy"), policy, policies, errors);
    validate_ports(path.child("ports"), container.list("ports"), errors);
    env::validate_env(path.child("env"), container.list("env"), errors);
    env::validate_env_from(path.child("envFrom"), container.list("envFrom"), errors);
    mounts::validate_mounts(path.child("volumeMounts"), container, context.volumes, errors);
    mounts::validate_devices(path.child("volumeDevices"), container, context.volumes, errors);
    required_one_of(path.child("imagePullPolicy"), container.str("imagePullPolicy"), PULL_POLICIES, errors);
    let requirements = container.get("resources");
    let (claims, options) = (context.claims, context.options);
    resources::validate_requirements(path.child("resources"), requirements, claims, options, errors);
    let restart_policy = context.spec.str("restartPolicy");
    validate_resize_policy(path.child("resizePolicy"), container.list("resizePolicy"), restart_policy, errors);
    if container.has("securityContext") {
        let security = container.get("securityContext");
        security::validate_container(path.child("securityContext"), security, context.host_users, errors);
    }
}

fn validate_ports(path: Path<'_>, ports: &[Value], errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = port.str("name");
        if !name.is_empty() {
            let messages = names::port_name(name);
            if messages.is_empty() && !seen.add(name) {
                errors.duplicate(path.child("name"), name);
            }
            checks::each(path.child("name"), name, messages, errors);
        }
        if port.int("containerPort") == 0 {
            errors.required(path.child("containerPort"), "");
        }
        for field in ["containerPort", "hostPort"] {
            let number = port.int(field);
            if number != 0 {
                for message in names::port_number(number) {
                    errors.invalid(path.child(field), number, message);
                }
            }
        }
        required_one_of(path.child("protocol"), port.str("protocol"), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// Two ports of a pod cannot be the same port of its host.
fn validate_host_ports(path: Path<'_>, containers: &[Value], errors: &mut Errors) {
    let mut seen: BTreeSet<(i64, &str, &str)> = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        let path = path.child("ports");
        for (index, port) in container.list("ports").iter().enumerate() {
            let (number, protocol, address) = (port.int("hostPort"), port.str("protocol"), port.str("hostIP"));
            if number != 0 && !seen.insert((number, protocol, address)) {
                errors.duplicate(path.index(index).child("hostPort"), format!("{protocol}/{address}/{number}"));
            }
        }
    }
}

fn validate_resize_policy(path: Path<'_>, policies: &[Value], pod_restart_policy: &str, errors: &mut Errors) {
    let mut seen = Seen::new();
    for (index, policy) in policies.iter().enumerate() {
        let (resource, restart) = (policy.str("resourceName"), policy.str("restartPolicy"));
        if !seen.add(resource) {
            errors.duplicate(path.index(index), resource);
        }
        required_one_of(path, resource, &["cpu", "memory"], errors);
        required_one_of(path, restart, &["NotRequired", "RestartContainer"], errors);
        if pod_restart_policy == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

fn validate_restart_policy(path: Path<'_>, container: &Value, errors: &mut Errors) {
    let rules = container.list("restartPolicyRules");
    if container.has("restartPolicy") {
        one_of(path.child("restartPolicy"), container.str("restartPolicy"), RESTART_POLICIES, errors);
    } else if rules.is_empty() {
        return;
    } else {
        errors.required(path.child("restartPolicy"), "must specify restartPolicy when restart rules are used");
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > RESTART_RULES_MAX {
        errors.too_many(path, rules.len(), RESTART_RULES_MAX);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        one_of(path.child("action"), rule.str("action"), &["Restart", "RestartAllContainers"], errors);
        let path = path.child("exitCodes");
        if !rule.has("exitCodes") {
            errors.required(path, "must be specified");
            continue;
        }
        let codes = rule.get("exitCodes");
        one_of(path.child("operator"), codes.str("operator"), &["In", "NotIn"], errors);
        let count = codes.list("values").len();
        if count > EXIT_CODES_MAX {
            errors.too_many(path.child("values"), count, EXIT_CODES_MAX);
        }
    }
}

/// Checks that only pods must pass, not templates.
pub(crate) fn validate_image_padding(path: Path<'_>, container: &Value, errors: &mut Errors) {
    let image = container.str("image");
    if image.trim().len() != image.len() {
        errors.invalid(path.child("image"), BadValue::from(image), "must not have leading or trailing whitespace");
    }
}
