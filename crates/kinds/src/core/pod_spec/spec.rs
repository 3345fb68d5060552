//! The checks of a pod spec, in the order in which clients know their errors.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use super::checks::{dns_label, dns_subdomain, required_one_of};
use super::containers::{self, Context};
use super::options::PodOptions;
use super::probes::PodFacts;
use super::resources::ClaimNames;
use super::{
    affinity, annotations, env, network, pod_resources, resources, scheduling, security, topology, volumes, windows,
};
use crate::meta;

const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];

/// Checks a template of pods: an object with `metadata` and `spec`.
pub fn validate_pod_template(path: Path<'_>, template: &Value, options: &PodOptions, errors: &mut Errors) {
    let (metadata, spec) = (template.get("metadata"), template.get("spec"));
    meta::validate_labels(path.child("labels"), metadata.map("labels"), errors);
    meta::validate_annotations(path.child("annotations"), metadata.map("annotations"), errors);
    annotations::validate_annotations(path.child("annotations"), metadata, spec, options, errors);
    let spec_path = path.child("spec");
    validate_pod_spec(spec_path, spec, &Value::Null, options, errors);
    annotations::validate_profiles_match(spec_path, metadata, spec, errors);
    if !spec.list("ephemeralContainers").is_empty() {
        errors.forbidden(spec_path.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// Checks a pod spec. `metadata` is that of the pod; null in a template, whose pods have names of their own.
pub fn validate_pod_spec(path: Path<'_>, spec: &Value, metadata: &Value, options: &PodOptions, errors: &mut Errors) {
    if !spec.has("terminationGracePeriodSeconds") {
        errors.required(path.child("terminationGracePeriodSeconds"), "");
    }
    let pod_name = metadata.str("name");
    let volumes = volumes::validate_volumes(path.child("volumes"), spec, pod_name, options, errors);
    let claims = spec.list("resourceClaims");
    let is_static = metadata.map("annotations").contains(annotations::MIRROR);
    scheduling::validate_resource_claims(path.child("resourceClaims"), claims, is_static, errors);
    let claims: ClaimNames<'_> = claims.iter().map(|claim| claim.str("name")).filter(|name| !name.is_empty()).collect();
    let context = Context {
        spec,
        volumes: &volumes,
        claims: &claims,
        facts: PodFacts {
            grace_period_seconds: spec.get("terminationGracePeriodSeconds").as_int(),
            os: spec.has("os").then(|| spec.get("os").str("name")),
        },
        host_users: spec.get("hostUsers") != &Value::Bool(false),
        options,
    };
    containers::validate_containers(path.child("containers"), context, errors);
    containers::validate_init_containers(path.child("initContainers"), context, errors);
    containers::validate_ephemeral_containers(path.child("ephemeralContainers"), context, errors);
    let resources_path = path.child("resources");
    pod_resources::validate_pod_resources(resources_path, spec, &claims, options, errors);
    network::validate_host_network(path, spec, options.is_pod, errors);
    required_one_of(path.child("restartPolicy"), spec.str("restartPolicy"), RESTART_POLICIES, errors);
    network::validate_dns_policy(path.child("dnsPolicy"), spec.str("dnsPolicy"), errors);
    meta::validate_labels(path.child("nodeSelector"), spec.map("nodeSelector"), errors);
    security::validate_pod(path.child("securityContext"), spec, options, errors);
    affinity::validate_affinity(path.child("affinity"), spec.get("affinity"), options, errors);
    network::validate_dns_config(path.child("dnsConfig"), spec.get("dnsConfig"), spec.str("dnsPolicy"), errors);
    scheduling::validate_readiness_gates(path.child("readinessGates"), spec.list("readinessGates"), errors);
    scheduling::validate_scheduling_gates(path.child("schedulingGates"), spec.list("schedulingGates"), errors);
    let constraints = spec.list("topologySpreadConstraints");
    topology::validate_spread(path.child("topologySpreadConstraints"), constraints, options, errors);
    windows::validate_host_process(path, spec, errors);
    security::validate_host_users(path, spec, options, errors);
    network::validate_host_name_override(path, spec, errors);
    validate_names(path, spec, errors);
    validate_rest(path, spec, options, errors);
    env::validate_file_volumes(path, spec, errors);
}

fn validate_names(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    for field in ["serviceAccountName", "nodeName"] {
        if !spec.str(field).is_empty() {
            dns_subdomain(path.child(field), spec.str(field), errors);
        }
    }
    if let Some(seconds) = spec.get("activeDeadlineSeconds").as_int()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let words = "must be between 1 and 2147483647, inclusive";
        errors.invalid(path.child("activeDeadlineSeconds"), seconds, words);
    }
    for field in ["hostname", "subdomain"] {
        if !spec.str(field).is_empty() {
            dns_label(path.child(field), spec.str(field), errors);
        }
    }
}

fn validate_rest(path: Path<'_>, spec: &Value, options: &PodOptions, errors: &mut Errors) {
    scheduling::validate_tolerations(path.child("tolerations"), spec.list("tolerations"), options, errors);
    network::validate_host_aliases(path.child("hostAliases"), spec.list("hostAliases"), errors);
    if !spec.str("priorityClassName").is_empty() {
        dns_subdomain(path.child("priorityClassName"), spec.str("priorityClassName"), errors);
    }
    if spec.has("runtimeClassName") {
        dns_subdomain(path.child("runtimeClassName"), spec.str("runtimeClassName"), errors);
    }
    if spec.has("preemptionPolicy") {
        let policies = &["PreemptLowerPriority", "Never"];
        required_one_of(path.child("preemptionPolicy"), spec.str("preemptionPolicy"), policies, errors);
    }
    if spec.has("overhead") {
        resources::validate_overhead(path.child("overhead"), spec.get("overhead"), options, errors);
    }
    if spec.has("os") {
        windows::validate_os(path, spec, errors);
    }
    if spec.has("schedulingGroup") {
        scheduling::validate_scheduling_group(path.child("schedulingGroup"), spec.get("schedulingGroup"), errors);
    }
}
