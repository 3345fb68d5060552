//! What is allowed in a pod spec but hardly meant.

use rkube_machinery::field::{Path, quote};
use rkube_machinery::names::address;
use rkube_machinery::{Value, names};

use super::annotations::{APP_ARMOR_PREFIX, SECCOMP_POD, SECCOMP_PREFIX, app_armor_field};
use super::checks::{Seen, visit_containers};
use super::{amounts, overlaps, port_warnings};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const OLD_NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"),
    ("beta.kubernetes.io/instance-type", "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "deprecated since v1.22; use Taints and Tolerations instead"),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha.kubernetes.io/unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];

/// Volume sources that work no more: field, name in the warning, since when.
const OLD_VOLUMES: &[(&str, &str, &str)] = &[
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("ephemeral", "ephemeral", ""),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// For a pod.
pub fn pod_warnings(pod: &Value) -> Vec<String> {
    warnings(Path::ROOT, pod, false)
}

/// For a template of pods at this path.
pub fn template_warnings(path: Path<'_>, template: &Value) -> Vec<String> {
    warnings(path, template, true)
}

fn warnings(path: Path<'_>, pod: &Value, is_template: bool) -> Vec<String> {
    let spec_path = path.child("spec");
    let meta_path = path.child("metadata");
    let meta_path = meta_path.child("annotations");
    let (spec, annotations) = (pod.get("spec"), pod.get("metadata").get("annotations"));
    let mut out = Vec::new();
    node_warnings(spec_path, spec, &mut out);
    for (key, words) in OLD_ANNOTATIONS {
        if annotations.has(key) {
            out.push(format!("{}: {words}", meta_path.key(key)));
        }
    }
    volume_warnings(spec_path.child("volumes"), spec.list("volumes"), &mut out);
    overlaps::warn(spec.list("volumes"), &mut out);
    repeats(spec_path.child("hostAliases"), spec.list("hostAliases"), "ip", &mut out);
    let secrets_path = spec_path.child("imagePullSecrets");
    let secrets = spec.list("imagePullSecrets");
    repeats(secrets_path, secrets, "name", &mut out);
    for (index, _) in secrets.iter().enumerate().filter(|(_, secret)| secret.str("name").is_empty()) {
        out.push(format!("{}: invalid empty name \"\"", secrets_path.index(index).child("name")));
    }
    for name in ["memory", "ephemeral-storage"] {
        fraction(spec_path.child("overhead").key(name), spec.get("overhead").get(name), &mut out);
    }
    if annotations.has(SECCOMP_POD) && !spec.get("securityContext").has("seccompProfile") {
        out.push(format!(
            "{}: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            meta_path.key(SECCOMP_POD)
        ));
    }
    visit_containers(spec, spec_path, |container, path| {
        profile_warnings(meta_path, annotations, spec, container, is_template, &mut out);
        container_warnings(path, container, &mut out);
    });
    port_warnings::warn(spec_path, spec, &mut out);
    if spec.int("terminationGracePeriodSeconds") < 0 {
        let path = spec_path.child("terminationGracePeriodSeconds");
        out.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    selector_warnings(spec_path.child("affinity"), spec.get("affinity"), &mut out);
    let config_path = spec_path.child("dnsConfig");
    let servers_path = config_path.child("nameservers");
    for (index, server) in spec.get("dnsConfig").list("nameservers").iter().enumerate() {
        out.extend(address::ip_warning(servers_path.index(index), server.as_str()));
    }
    for (index, alias) in spec.list("hostAliases").iter().enumerate() {
        let path = spec_path.child("hostAliases");
        out.extend(address::ip_warning(path.index(index).child("ip"), alias.str("ip")));
    }
    out
}

pub(crate) fn old_node_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(old, _)| *old == key).map(|(_, words)| *words)
}

fn node_warnings(path: Path<'_>, spec: &Value, out: &mut Vec<String>) {
    for key in spec.map("nodeSelector").keys() {
        if let Some(words) = old_node_label(key) {
            out.push(format!("{}: {words}", path.child("nodeSelector").key(key)));
        }
    }
    let affinity = spec.get("affinity").get("nodeAffinity");
    let affinity_path = path.child("affinity");
    let affinity_path = affinity_path.child("nodeAffinity");
    let required = affinity_path.child(REQUIRED);
    let required = required.child("nodeSelectorTerms");
    for (index, term) in affinity.get(REQUIRED).list("nodeSelectorTerms").iter().enumerate() {
        term_warnings(required.index(index), term, false, out);
    }
    let preferred = affinity_path.child(PREFERRED);
    for (index, term) in affinity.list(PREFERRED).iter().enumerate() {
        term_warnings(preferred.index(index).child("preference"), term.get("preference"), true, out);
    }
    let spread = path.child("topologySpreadConstraints");
    for (index, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let path = spread.index(index);
        let key = constraint.str("topologyKey");
        if let Some(words) = old_node_label(key) {
            out.push(format!("{}: {key} is {words}", path.child("topologyKey")));
        }
        if !constraint.has("labelSelector") {
            out.push(format!("{}: a null labelSelector results in matching no pod", path.child("labelSelector")));
        }
    }
}

pub(crate) fn term_warnings(path: Path<'_>, term: &Value, check_values: bool, out: &mut Vec<String>) {
    let path = path.child("matchExpressions");
    for (index, expression) in term.list("matchExpressions").iter().enumerate() {
        let path = path.index(index);
        let key = expression.str("key");
        if let Some(words) = old_node_label(key) {
            out.push(format!("{}: {key} is {words}", path.child("key")));
        }
        if check_values {
            for (index, value) in expression.list("values").iter().map(Value::as_str).enumerate() {
                for message in names::label_value(value) {
                    out.push(format!("{}: {value} is invalid, {message}", path.child("values").index(index)));
                }
            }
        }
    }
}

fn volume_warnings(path: Path<'_>, volumes: &[Value], out: &mut Vec<String>) {
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        for (field, shown, words) in OLD_VOLUMES {
            if !volume.has(field) {
                continue;
            }
            let path = path.child(shown);
            if *field == "ephemeral" {
                claim_warnings(path, volume.get(field).get("volumeClaimTemplate"), out);
            } else {
                out.push(format!("{path}: {words}"));
            }
        }
    }
}

fn claim_warnings(path: Path<'_>, template: &Value, out: &mut Vec<String>) {
    let path = path.child("volumeClaimTemplate");
    let path = path.child("spec");
    let path = path.child("resources");
    let resources = template.get("spec").get("resources");
    for field in ["requests", "limits"] {
        fraction(path.child(field).key("storage"), resources.get(field).get("storage"), out);
    }
}

/// Bytes are whole.
pub(crate) fn fraction(path: Path<'_>, amount: &Value, out: &mut Vec<String>) {
    if !amount.is_null() && !amounts::is_whole(amount) {
        let amount = quote(amount.as_str());
        out.push(format!("{path}: fractional byte value {amount} is invalid, must be an integer"));
    }
}

fn repeats(path: Path<'_>, items: &[Value], field: &str, out: &mut Vec<String>) {
    let mut seen = Seen::new();
    for (index, item) in items.iter().enumerate() {
        if !seen.add(item.str(field)) {
            let shown = quote(item.str(field));
            out.push(format!("{}: duplicate {field} {shown}", path.index(index).child(field)));
        }
    }
}

fn profile_warnings(
    path: Path<'_>,
    annotations: &Value,
    spec: &Value,
    container: &Value,
    is_template: bool,
    out: &mut Vec<String>,
) {
    if annotations.as_map().is_empty() {
        return;
    }
    let (name, context) = (container.str("name"), container.get("securityContext"));
    let key = format!("{SECCOMP_PREFIX}{name}");
    if annotations.has(&key) && !context.has("seccompProfile") {
        out.push(format!("{}: non-functional in v1.27+; use the \"seccompProfile\" field instead", path.key(&key)));
    }
    let key = format!("{APP_ARMOR_PREFIX}{name}");
    if is_template && annotations.has(&key) && !context.has("appArmorProfile") {
        let of_pod = spec.get("securityContext").get("appArmorProfile");
        if of_pod.is_null() || Some(of_pod) != app_armor_field(annotations.str(&key)).as_ref() {
            out.push(app_armor_warning(path, &key));
        }
    }
}

pub(crate) fn app_armor_warning(path: Path<'_>, key: &str) -> String {
    format!("{}: deprecated since v1.30; use the \"appArmorProfile\" field instead", path.key(key))
}

fn container_warnings(path: Path<'_>, container: &Value, out: &mut Vec<String>) {
    let resources = container.get("resources");
    let resources_path = path.child("resources");
    for name in ["memory", "ephemeral-storage"] {
        for field in ["limits", "requests"] {
            fraction(resources_path.child(field).key(name), resources.get(field).get(name), out);
        }
    }
    let path = path.child("env");
    let mut seen = Seen::new();
    for (index, variable) in container.list("env").iter().enumerate() {
        let name = variable.str("name");
        if seen.add(name) {
            continue;
        }
        let (value, reference) = (variable.str("value"), format!("$({name})"));
        if variable.has("valueFrom") || value == reference || !value.contains(&reference) {
            let name = quote(name);
            let path = path.index(index);
            out.push(format!("{path}: hides previous definition of {name}, which may be dropped when using apply"));
        }
    }
}

fn selector_warnings(path: Path<'_>, affinity: &Value, out: &mut Vec<String>) {
    const WORDS: &str = "a null labelSelector results in matching no pod";
    for field in ["podAffinity", "podAntiAffinity"] {
        let path = path.child(field);
        let pods = affinity.get(field);
        let required = path.child(REQUIRED);
        for (index, term) in pods.list(REQUIRED).iter().enumerate() {
            if !term.has("labelSelector") {
                out.push(format!("{}: {WORDS}", required.index(index).child("labelSelector")));
            }
        }
        let preferred = path.child(PREFERRED);
        for (index, weighted) in pods.list(PREFERRED).iter().enumerate() {
            if !weighted.get("podAffinityTerm").has("labelSelector") {
                let path = preferred.index(index);
                out.push(format!("{}: {WORDS}", path.child("podAffinityTerm").child("labelSelector")));
            }
        }
    }
}
