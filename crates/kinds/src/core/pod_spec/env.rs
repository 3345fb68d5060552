//! Environment variables and the fields they take their values from.

use std::collections::BTreeMap;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::names;

use super::checks::{self, dns_label, each, qualified_name, require};

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields that files of a downward API volume may show.
pub(super) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Fields of a pod that have a name outside of it.
const FIELD_LABELS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

const BYTE_UNITS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub(super) fn validate_env(path: Path<'_>, variables: &[Value], errors: &mut Errors) {
    for (index, variable) in variables.iter().enumerate() {
        let path = path.index(index);
        if require(variable, path, "name", errors) {
            let name = variable.str("name");
            each(path.child("name"), name, names::relaxed_env_var_name(name), errors);
        }
        if variable.has("valueFrom") {
            validate_source(path.child("valueFrom"), variable, errors);
        }
    }
}

fn validate_source(path: Path<'_>, variable: &Value, errors: &mut Errors) {
    let source = variable.get("valueFrom");
    let mut sources = 0;
    let mut check = |field: &str, check: fn(Path<'_>, &Value, &mut Errors)| {
        if source.has(field) {
            sources += 1;
            check(path.child(field), source.get(field), errors);
        }
    };
    check("fieldRef", |path, value, errors| validate_field(path, value, ENV_FIELDS, errors));
    check("resourceFieldRef", |path, value, errors| validate_resource_field(path, value, false, errors));
    check("configMapKeyRef", validate_key_reference);
    check("secretKeyRef", validate_key_reference);
    check("fileKeyRef", validate_file_reference);
    if sources == 0 {
        let words = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                     `fileKeyRef`";
        errors.invalid(path, "", words);
    } else if !variable.str("value").is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// A field of the pod, one of `supported` or one label or annotation.
pub(super) fn validate_field(path: Path<'_>, reference: &Value, supported: &[&str], errors: &mut Errors) {
    if !require(reference, path, "apiVersion", errors) || !require(reference, path, "fieldPath", errors) {
        return;
    }
    let (version, field) = (reference.str("apiVersion"), reference.str("fieldPath"));
    if let Some(why) = unknown_label(version, field) {
        let words = format!("error converting fieldPath: {why}");
        return errors.invalid(path.child("fieldPath"), field, words);
    }
    match split_subscript(field) {
        Some(("metadata.annotations", key)) => qualified_name(path, &key.to_ascii_lowercase(), errors),
        Some((_, key)) => qualified_name(path, key, errors),
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            checks::one_of(path.child("fieldPath"), field, supported, errors);
        }
    }
}

fn unknown_label(version: &str, label: &str) -> Option<String> {
    if version != "v1" {
        return Some(format!("unsupported pod version: {version}"));
    }
    match split_subscript(label) {
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {label}")),
        None if FIELD_LABELS.contains(&label) => None,
        None => Some(format!("field label not supported: {label}")),
    }
}

/// `metadata.labels['key']` in its parts.
fn split_subscript(label: &str) -> Option<(&str, &str)> {
    label.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// A container's request or limit; in a volume it must say which container.
pub(super) fn validate_resource_field(path: Path<'_>, reference: &Value, in_volume: bool, errors: &mut Errors) {
    let resource = reference.str("resource");
    let huge_page = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if in_volume && reference.str("containerName").is_empty() {
        errors.required(path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(path.child("resource"), "");
    } else if !huge_page {
        checks::one_of(path.child("resource"), resource, RESOURCE_FIELDS, errors);
    }
    let divisor = reference.str("divisor");
    if divisor.is_empty() || divisor == "0" {
        return;
    }
    let (units, of) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"][..], "cpu"),
        "limits.memory" | "requests.memory" => (BYTE_UNITS, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (BYTE_UNITS, "local ephemeral storage"),
        _ if huge_page => (BYTE_UNITS, "hugepages"),
        _ => return,
    };
    if !units.contains(&divisor) {
        let units = if of == "cpu" { "1m and 1".to_owned() } else { BYTE_UNITS.join(", ") };
        let words = format!("only divisor's values {units} are supported with the {of} resource");
        errors.invalid(path.child("divisor"), resource, words);
    }
}

fn validate_key_reference(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    checks::dns_subdomain(path.child("name"), reference.str("name"), errors);
    if require(reference, path, "key", errors) {
        let key = reference.str("key");
        each(path.child("key"), key, names::config_map_key(key), errors);
    }
}

fn validate_file_reference(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    if require(reference, path, "key", errors) {
        let key = reference.str("key");
        each(path.child("key"), key, names::relaxed_env_var_name(key), errors);
    }
    if require(reference, path, "volumeName", errors) {
        dns_label(path.child("volumeName"), reference.str("volumeName"), errors);
    }
    if require(reference, path, "path", errors) {
        checks::no_backsteps(path.child("path"), reference.str("path"), errors);
    }
}

/// Files that variables are read from lie in volumes of the pod's own.
pub(super) fn validate_file_volumes(path: Path<'_>, spec: &Value, errors: &mut Errors) {
    let file_of = |variable: &Value| !variable.get("valueFrom").get("fileKeyRef").is_null();
    if !checks::any_container(spec, |container| container.list("env").iter().any(file_of)) {
        return;
    }
    let volumes: BTreeMap<&str, &Value> =
        spec.list("volumes").iter().map(|volume| (volume.str("name"), volume)).collect();
    checks::visit_containers(spec, path, |container, path| {
        let path = path.child("env");
        for (index, variable) in container.list("env").iter().enumerate().filter(|(_, variable)| file_of(variable)) {
            let path = path.index(index);
            let path = path.child("valueFrom");
            let path = path.child("fileKeyRef");
            let name = variable.get("valueFrom").get("fileKeyRef").str("volumeName");
            match volumes.get(name) {
                None => errors.not_found(path.child("volumeName"), name),
                Some(volume) if !volume.has("emptyDir") => {
                    errors.invalid(path.child("volumeName"), name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}

pub(super) fn validate_env_from(path: Path<'_>, sources: &[Value], errors: &mut Errors) {
    for (index, source) in sources.iter().enumerate() {
        let item = path.index(index);
        let prefix = source.str("prefix");
        if !prefix.is_empty() {
            each(item.child("prefix"), prefix, names::relaxed_env_var_name(prefix), errors);
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            let reference = source.get(field);
            if reference.is_null() {
                continue;
            }
            count += 1;
            let path = item.child(field);
            if require(reference, path, "name", errors) {
                let name = reference.str("name");
                each(path.child("name"), name, check_name_or_prefix(name), errors);
            }
        }
        match count {
            1 => {}
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

/// A name that may end with a dash, as prefixes of names do.
fn check_name_or_prefix(name: &str) -> Vec<String> {
    if name.len() > 1 && name.ends_with('-') {
        let start = name.get(..name.len() - 2).unwrap_or_default();
        return names::dns1123_subdomain(&format!("{start}a"));
    }
    names::dns1123_subdomain(name)
}
