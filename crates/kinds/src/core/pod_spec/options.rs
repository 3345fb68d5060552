//! What validation lets pass because an old object has it already.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::{affinity, amounts, checks, security, topology};
use crate::meta;

/// Exceptions for objects that were stored under older rules. None for new objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodOptions {
    /// A pod itself, not a template of one.
    pub is_pod: bool,
    pub any_deletion_cost: bool,
    pub any_label_value_in_selectors: bool,
    pub any_label_value_in_node_affinity: bool,
    pub any_spread_selector: bool,
    pub any_token_path: bool,
    pub any_huge_pages: bool,
    pub host_sysctls: bool,
    pub legacy_match_label_keys: bool,
    pub any_selinux_change_policy: bool,
    pub comparing_tolerations: bool,
    pub restart_of_plain_init_containers: bool,
    pub devices_in_user_namespaces: bool,
    pub host_network_in_user_namespaces: bool,
}

impl PodOptions {
    /// For a new template.
    pub fn for_create() -> Self {
        PodOptions::default()
    }

    /// For a template that replaces another; `old` is the old template: an object with `metadata` and `spec`.
    pub fn for_update(old: &Value) -> Self {
        let spec = old.get("spec");
        let isolated = spec.get("hostUsers") == &Value::Bool(false);
        PodOptions {
            is_pod: false,
            any_deletion_cost: !has_good_deletion_cost(old.get("metadata")),
            any_label_value_in_selectors: affinity::has_bad_selector(spec),
            any_label_value_in_node_affinity: has_bad_node_affinity_value(spec),
            any_spread_selector: has_bad_spread_selector(spec),
            any_token_path: has_bad_token_path(spec),
            any_huge_pages: has_indivisible_huge_pages(spec),
            host_sysctls: security::has_host_sysctls(spec),
            legacy_match_label_keys: topology::has_bad_match_label_keys(spec),
            any_selinux_change_policy: spec.get("securityContext").has("seLinuxChangePolicy"),
            comparing_tolerations: spec
                .list("tolerations")
                .iter()
                .any(|one| matches!(one.str("operator"), "Lt" | "Gt")),
            restart_of_plain_init_containers: restarts_plain_init_container(spec),
            devices_in_user_namespaces: isolated
                && checks::any_container(spec, |container| !container.list("volumeDevices").is_empty()),
            host_network_in_user_namespaces: isolated && spec.bool("hostNetwork"),
        }
    }

    pub fn of_pod(self) -> Self {
        PodOptions { is_pod: true, ..self }
    }
}

/// The cost that a controller weighs when it scales down: a 32 bit integer that begins with neither plus nor zero.
pub(super) fn has_good_deletion_cost(meta: &Value) -> bool {
    let annotations = meta.map("annotations");
    let Some(cost) = annotations.get("controller.kubernetes.io/pod-deletion-cost") else { return true };
    let cost = cost.as_str();
    let plain = cost == "0" || !cost.starts_with(['+', '0']);
    plain && cost.parse::<i32>().is_ok()
}

fn has_bad_node_affinity_value(spec: &Value) -> bool {
    let terms = spec
        .at(&["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"])
        .list("nodeSelectorTerms");
    terms
        .iter()
        .flat_map(|term| term.list("matchExpressions"))
        .flat_map(|one| one.list("values"))
        .any(|value| !names::label_value(value.as_str()).is_empty())
}

fn has_bad_spread_selector(spec: &Value) -> bool {
    let mut errors = Errors::new();
    for constraint in spec.list("topologySpreadConstraints") {
        meta::validate_label_selector(Path::ROOT, constraint.get("labelSelector"), false, &mut errors);
    }
    !errors.is_empty()
}

fn has_bad_token_path(spec: &Value) -> bool {
    let sources = spec.list("volumes").iter().flat_map(|volume| volume.get("projected").list("sources"));
    sources
        .filter(|source| source.has("serviceAccountToken"))
        .any(|source| !checks::is_local_non_reserved_path(source.get("serviceAccountToken").str("path")))
}

fn has_indivisible_huge_pages(spec: &Value) -> bool {
    let indivisible = |list: &Value| {
        list.as_map().iter().any(|(name, amount)| amounts::is_huge_page(name) && !amounts::divides(name, amount))
    };
    indivisible(spec.get("overhead"))
        || checks::any_container(spec, |container| {
            let resources = container.get("resources");
            indivisible(resources.get("limits")) || indivisible(resources.get("requests"))
        })
}

fn restarts_plain_init_container(spec: &Value) -> bool {
    spec.list("initContainers").iter().filter(|container| !checks::is_sidecar(container)).any(|container| {
        container.list("resizePolicy").iter().any(|policy| policy.str("restartPolicy") == "RestartContainer")
    })
}

#[cfg(test)]
mod tests {
    use rkube_machinery::object;

    use super::*;

    #[test]
    fn deletion_costs() {
        for (cost, good) in [("0", true), ("-5", true), ("12", true), ("+1", false), ("01", false), ("x", false)] {
            let annotations = object! { "controller.kubernetes.io/pod-deletion-cost": cost };
            assert_eq!(has_good_deletion_cost(&object! { "annotations": annotations }), good, "{cost}");
        }
    }
}
