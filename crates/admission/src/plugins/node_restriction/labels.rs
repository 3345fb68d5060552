//! Which labels a node may give itself.

use rkube_machinery::Map;

/// For labels by which workloads are kept away from nodes, or on them: none that a node gives itself.
const RESTRICTED: &str = "node-restriction.kubernetes.io";
/// Names of the project's own that nodes may have.
const ALLOWED: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// And all names in these.
const ALLOWED_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The labels that differ and that a node may not change, sorted.
pub fn forbidden(new: &Map, old: &Map) -> Vec<String> {
    let changed = new.iter().filter(|(key, value)| old.get(key) != Some(*value)).map(|(key, _)| key.as_str());
    let removed = old.iter().filter(|(key, _)| new.get(key).is_none()).map(|(key, _)| key.as_str());
    let mut found: Vec<String> = changed.chain(removed).filter(|key| is_forbidden(key)).map(str::to_owned).collect();
    found.sort();
    found
}

fn is_forbidden(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_in =
        |parent: &str| domain == parent || domain.strip_suffix(parent).is_some_and(|before| before.ends_with('.'));
    let is_own = is_in("kubernetes.io") || is_in("k8s.io");
    let is_allowed = ALLOWED.contains(&key) || ALLOWED_DOMAINS.iter().any(|parent| is_in(parent));
    is_in(RESTRICTED) || (is_own && !is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_do_not_steer_workloads_to_themselves() {
        for (key, want) in [
            ("kubernetes.io/hostname", false),
            ("kubernetes.io/role", true),
            ("node-role.kubernetes.io/control-plane", true),
            ("node.kubernetes.io/anything", false),
            ("x.node.kubernetes.io/anything", false),
            ("node-restriction.kubernetes.io/x", true),
            ("a.node-restriction.kubernetes.io/x", true),
            ("foo.k8s.io/x", true),
            ("notkubernetes.io/x", false),
            ("example.com/x", false),
            ("x", false),
        ] {
            assert_eq!(is_forbidden(key), want, "{key}");
        }
    }
}
