//! The table of default roles and bindings, read into objects.
// tidy: types ClusterRole ClusterRoleBinding Role RoleBinding

use rkube_machinery::{Text, Value, object};

use super::GROUP;
use crate::features::Features;

const TABLE: &str = include_str!("table.txt");
const CORE: &str = "core";
const LABEL: &str = "kubernetes.io/bootstrapping";
const PART_OF: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Whether a feature is on.
type Gate = fn(&Features) -> bool;

/// What gates add.
const GATED: [(Gate, &str); 4] = [
    (|features| features.cluster_trust_bundle, include_str!("gated/ClusterTrustBundle.txt")),
    (|features| features.pod_certificate_request, include_str!("gated/PodCertificateRequest.txt")),
    (|features| features.storage_version_api, include_str!("gated/StorageVersionAPI.txt")),
    (|features| features.storage_version_migrator, include_str!("gated/StorageVersionMigrator.txt")),
];

/// All of them, as they are made in a new cluster.
pub fn objects(features: &Features) -> Vec<Value> {
    let gated = GATED.iter().filter(|(is_on, _)| is_on(features)).map(|(_, table)| *table);
    [TABLE].into_iter().chain(gated).flat_map(read).collect()
}

fn read(table: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match (line.strip_prefix("  "), objects.last_mut()) {
            (Some(line), Some(object)) => add(object, line),
            _ => objects.push(header(line)),
        }
    }
    objects
}

fn header(line: &str) -> Value {
    let mut words = line.split(' ');
    let (kind, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let mut metadata = object! { "name": name };
    if !namespace.is_empty() {
        metadata.set("namespace", namespace);
    }
    let mut labels = object! {};
    labels.set(LABEL, "rbac-defaults");
    let (mut sum, mut role) = (None, name);
    for word in words {
        match word.split_once(':') {
            Some(("part-of", whole)) => labels.set(&format!("{PART_OF}{whole}"), "true"),
            Some(("sum", whole)) => sum = Some(format!("{PART_OF}{whole}")),
            _ => role = word,
        }
    }
    metadata.set("labels", labels);
    metadata.set("annotations", object! { "rbac.authorization.kubernetes.io/autoupdate": "true" });
    let mut object = object! { "kind": kind, "apiVersion": format!("{GROUP}/v1"), "metadata": metadata };
    if let Some(label) = sum {
        let mut labels = object! {};
        labels.set(&label, "true");
        let selector = object! { "matchLabels": labels };
        object.set("aggregationRule", object! { "clusterRoleSelectors": vec![selector] });
    }
    if let Some(bound) = kind.strip_suffix("Binding") {
        object.set("roleRef", object! { "apiGroup": GROUP, "kind": bound, "name": role });
    }
    object
}

/// Adds a rule to a role or a subject to a binding.
fn add(object: &mut Value, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let is_binding = object.has("roleRef");
    let entry = match (is_binding, words.as_slice()) {
        (true, [kind, name]) => subject(kind, name),
        (false, [verbs, paths]) => object! { "verbs": texts(verbs), "nonResourceURLs": texts(paths) },
        (false, [verbs, groups, resources, names @ ..]) => {
            let mut rule = object! { "verbs": texts(verbs), "apiGroups": texts(groups), "resources": texts(resources) };
            if let [names] = names {
                rule.set("resourceNames", texts(names));
            }
            rule
        }
        _ => return,
    };
    object.array_mut(if is_binding { "subjects" } else { "rules" }).push(entry);
}

fn subject(kind: &str, name: &str) -> Value {
    match name.split_once('/') {
        Some((namespace, name)) => object! { "kind": kind, "name": name, "namespace": namespace },
        None => object! { "kind": kind, "apiGroup": GROUP, "name": name },
    }
}

fn texts(list: &str) -> Vec<Value> {
    list.split(',').map(|text| Value::from(if text == CORE { Text::default() } else { text.into() })).collect()
}
