//! Discovery: which groups, versions and resources are served, in the old form and the aggregated one.

use std::collections::HashMap;
use std::sync::Arc;

use rkube_kinds::{Kind, Scope, Subresource};
use rkube_machinery::{Value, names, object};

use rkube_catalog::{Served, Snapshot};

/// The built-in groups in the order in which clients should prefer them.
const PREFERRED: [&str; 23] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
];

/// Groups with their versions in the order in which clients should prefer them: what was added comes last, by its name.
fn groups(resources: &Snapshot) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for served in resources.all() {
        let kind = &served.kind;
        let place = *places.entry(&kind.group).or_insert_with(|| {
            groups.push((&kind.group, Vec::new()));
            groups.len() - 1
        });
        if !groups[place].1.contains(&kind.version.as_str()) {
            groups[place].1.push(&kind.version);
        }
    }
    for group in &mut groups {
        group.1.sort_by(|left, right| names::compare_versions(left, right));
    }
    let rank = |name: &str| PREFERRED.iter().position(|preferred| *preferred == name).unwrap_or(PREFERRED.len());
    groups.sort_by_key(|group| (rank(group.0), group.0));
    groups
}

/// `/api`.
pub fn api_versions(host: &str) -> Value {
    let addresses = vec![object! { "clientCIDR": "0.0.0.0/0", "serverAddress": host }];
    object! { "kind": "APIVersions", "versions": vec![Value::from("v1")], "serverAddressByClientCIDRs": addresses }
}

/// `/apis`.
pub fn group_list(resources: &Snapshot) -> Value {
    let groups: Vec<Value> = groups(resources)
        .iter()
        .filter(|group| !group.0.is_empty())
        .map(|(name, versions)| group(name, versions))
        .collect();
    object! { "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }
}

/// `/apis/<group>`.
pub fn group_page(resources: &Snapshot, name: &str) -> Option<Value> {
    let groups = groups(resources);
    let (name, versions) = groups.iter().find(|group| group.0 == name && !name.is_empty())?;
    let page = group(name, versions);
    let mut out = object! { "kind": "APIGroup", "apiVersion": "v1" };
    for (key, value) in page.as_map().iter() {
        out.set(key, value.clone());
    }
    Some(out)
}

fn group(name: &str, versions: &[&str]) -> Value {
    let version = |version: &&str| object! { "groupVersion": format!("{name}/{version}"), "version": *version };
    let all: Vec<Value> = versions.iter().map(version).collect();
    object! { "name": name, "versions": all.clone(), "preferredVersion": all.first().cloned().unwrap_or_default() }
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub fn resource_list(resources: &Snapshot, group: &str, version: &str) -> Option<Value> {
    if !resources.has_group_version(group, version) {
        return None;
    }
    let mut listed = Vec::new();
    let here = |served: &&Arc<Served>| served.kind.group == group && served.kind.version == version;
    let mut members: Vec<&Arc<Served>> = resources.all().iter().filter(here).collect();
    members.sort_by(|left, right| left.kind.resource.cmp(&right.kind.resource));
    for served in members {
        listed.push(resource(resources, served));
        listed.extend(subresources(served).into_iter().map(|part| subresource(&served.kind, part)));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    // What has no group says no version of its own.
    Some(match group {
        "" => object! { "kind": "APIResourceList", "groupVersion": group_version, "resources": listed },
        _ => object! {
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed,
        },
    })
}

fn resource(resources: &Snapshot, served: &Served) -> Value {
    let kind = &served.kind;
    let mut entry = object! {
        "name": kind.resource.clone(),
        "singularName": kind.singular.clone(),
        "namespaced": kind.is_namespaced(),
        "kind": kind.kind.clone(),
        "verbs": texts(verbs(served)),
    };
    if !kind.short_names.is_empty() {
        entry.set("shortNames", texts(&kind.short_names));
    }
    if !kind.categories.is_empty() {
        entry.set("categories", texts(&kind.categories));
    }
    let hash = match (served.is_custom(), &served.cache) {
        (true, Some(cache)) => {
            let stored = &cache.kind;
            let is_served = resources.find(&stored.group, &stored.version, &stored.resource).is_some();
            is_served.then(|| hash_of(stored))
        }
        _ => (!kind.storage_prefix.is_empty()).then(|| storage_hash(kind)),
    };
    if let Some(hash) = hash {
        entry.set("storageVersionHash", hash);
    }
    entry
}

/// What can be done with a resource. Of a custom one whose definition goes, no objects are made or changed.
fn verbs(served: &Served) -> &'static [&'static str] {
    let is_terminating = served.is_custom() && served.cache.as_ref().is_some_and(|cache| cache.gate.is_closed());
    if is_terminating { &["delete", "deletecollection", "get", "list", "watch"] } else { served.kind.verbs }
}

fn subresource(kind: &Kind, part: &Subresource) -> Value {
    let mut entry = object! {
        "name": format!("{}/{}", kind.resource, part.name),
        "singularName": "",
        "namespaced": kind.is_namespaced(),
    };
    if let Some((group, version)) = part.group_version {
        entry.set("group", group);
        entry.set("version", version);
    }
    entry.set("kind", part.kind.unwrap_or(&kind.kind));
    entry.set("verbs", texts(part.verbs));
    entry
}

/// A stable mark of the form in which a kind is stored: the same for all versions that share a storage.
fn storage_hash(kind: &Kind) -> String {
    let candidates = rkube_kinds::all().iter().map(|kind| &**kind);
    let stored = |other: &&Kind| other.storage_prefix == kind.storage_prefix && other.conversion.is_none();
    hash_of(candidates.into_iter().find(stored).unwrap_or(kind))
}

/// The mark of what is stored as this kind.
fn hash_of(kind: &Kind) -> String {
    use base64::Engine as _;
    let text = format!("{}/{}/{}", kind.group, kind.version, kind.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}

fn texts(texts: &[impl AsRef<str>]) -> Value {
    Value::Array(texts.iter().map(|text| Value::from(text.as_ref())).collect())
}

/// The aggregated document for `/api` (the core) or `/apis` (all others).
pub fn aggregated(resources: &Snapshot, core: bool, api: &str) -> Value {
    let items: Vec<Value> = groups(resources)
        .iter()
        .filter(|group| group.0.is_empty() == core)
        .map(|(name, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|version| aggregated_version(resources, name, version)).collect();
            let mut metadata = Value::object();
            if !name.is_empty() {
                metadata.set("name", *name);
            }
            object! { "metadata": metadata, "versions": versions }
        })
        .collect();
    object! {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api}"),
        "metadata": Value::object(),
        "items": items,
    }
}

/// In the order in which they are listed: by name, but for custom resources.
fn subresources(served: &Served) -> Vec<&Subresource> {
    let mut parts: Vec<&Subresource> = served.kind.subresources.iter().collect();
    if !served.is_custom() {
        parts.sort_by_key(|part| part.name);
    }
    parts
}

fn aggregated_version(resources: &Snapshot, group: &str, version: &str) -> Value {
    let mut listed: Vec<Value> = resources
        .all()
        .iter()
        .filter(|served| served.kind.group == group && served.kind.version == version)
        .map(|served| aggregated_resource(served))
        .collect();
    listed.sort_by(|left, right| left.str("resource").cmp(right.str("resource")));
    object! { "version": version, "resources": listed, "freshness": "Current" }
}

fn aggregated_resource(served: &Served) -> Value {
    let kind = &served.kind;
    let response =
        |group: &str, version: &str, name: &str| object! { "group": group, "version": version, "kind": name };
    let mut entry = object! {
        "resource": kind.resource.clone(),
        "responseKind": response(&kind.group, &kind.version, &kind.kind),
        "scope": match kind.scope { Scope::Namespaced => "Namespaced", Scope::Cluster => "Cluster" },
        "singularResource": kind.singular.clone(),
        "verbs": texts(verbs(served)),
    };
    if !kind.short_names.is_empty() {
        entry.set("shortNames", texts(&kind.short_names));
    }
    if !kind.categories.is_empty() {
        entry.set("categories", texts(&kind.categories));
    }
    if !kind.subresources.is_empty() {
        let parts: Vec<Value> = subresources(served)
            .into_iter()
            .map(|part| {
                let (group, version) = part.group_version.unwrap_or((&kind.group, &kind.version));
                object! {
                    "subresource": part.name,
                    "responseKind": response(group, version, part.kind.unwrap_or(&kind.kind)),
                    "verbs": texts(part.verbs),
                }
            })
            .collect();
        entry.set("subresources", parts);
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_groups_are_those_that_are_built_in() {
        let kinds = rkube_kinds::all();
        let built_in: std::collections::BTreeSet<&str> = kinds.iter().map(|kind| kind.group.as_str()).collect();
        assert_eq!(built_in, PREFERRED.into_iter().collect());
    }

    #[test]
    fn storage_hashes_are_those_that_clients_know() {
        let of = |group, version, resource| storage_hash(rkube_kinds::find(group, version, resource).unwrap());
        assert_eq!(of("", "v1", "pods"), "xPOwRZ+Yhw8=");
        assert_eq!(of("batch", "v1", "jobs"), "mudhfqk/qZY=");
        assert_eq!(of("autoscaling", "v1", "horizontalpodautoscalers"), "qwQve8ut294=");
    }
}
