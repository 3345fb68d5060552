//! What a StorageVersion must look like.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use crate::core::pod_spec::checks::Seen;
use crate::fields::texts;

const METADATA: Path<'static> = Path::new("metadata");
const STATUS: Path<'static> = Path::new("status");

/// `<group>.<resource>`.
pub fn name(name: &str, errors: &mut Errors) {
    let path = METADATA.child("name");
    if name.is_empty() {
        return;
    }
    let Some((group, resource)) = name.rsplit_once('.') else {
        return errors.invalid(path, name, "name must be in the form of <group>.<resource>");
    };
    for message in names::dns1123_subdomain(group) {
        errors.invalid(path, name, format!("the group segment {message}"));
    }
    for message in names::dns1035_label(resource) {
        errors.invalid(path, name, format!("the resource segment {message}"));
    }
}

pub fn status(status: &Value, errors: &mut Errors) {
    let servers = status.list("storageVersions");
    let path = STATUS.child("storageVersions");
    let mut seen = Seen::new();
    for (index, server) in servers.iter().enumerate() {
        let path = path.index(index);
        let id = server.str("apiServerID");
        if !seen.add(id) {
            errors.duplicate(path.child("apiServerID"), id);
        }
        validate_server(path, server, errors);
    }
    validate_common(status, errors);
    validate_conditions(status.list("conditions"), errors);
}

fn validate_server(path: Path<'_>, server: &Value, errors: &mut Errors) {
    let id = server.str("apiServerID");
    for message in names::dns1123_subdomain(id) {
        errors.invalid(path.child("apiServerID"), id, message);
    }
    let encoding = server.str("encodingVersion");
    check_api_version(path.child("encodingVersion"), encoding, errors);
    let decodable = path.child("decodableVersions");
    for (index, version) in texts(server, "decodableVersions").enumerate() {
        check_api_version(decodable.index(index), version, errors);
    }
    let known = Seen::of(texts(server, "decodableVersions"));
    if !known.has(encoding) {
        let detail = format!("decodableVersions must include encodingVersion {encoding}");
        errors.invalid(decodable, server.get("decodableVersions"), detail);
    }
    let served = path.child("servedVersions");
    for (index, version) in texts(server, "servedVersions").enumerate() {
        check_api_version(served.index(index), version, errors);
        // All versions are said: not more often than anybody would read.
        if !known.has(version) && !errors.is_full() {
            let all: Vec<&str> = texts(server, "decodableVersions").collect();
            let detail = format!(
                "individual served version : {version} must be included in decodableVersions : [{}]",
                all.join(" ")
            );
            errors.invalid(served.index(index), version, detail);
        }
    }
}

/// The version that all servers write, where there is one.
fn validate_common(status: &Value, errors: &mut Errors) {
    let mut versions = status.list("storageVersions").iter().map(|server| server.str("encodingVersion"));
    let actual = versions.next().filter(|first| versions.all(|other| other == *first));
    let said = status.get("commonEncodingVersion");
    let detail = match (actual, said.is_null()) {
        (None, true) => return,
        (None, false) => {
            "should be nil if servers do not agree on the same encoding version, or if there is no server \
                          reporting the supported versions yet"
                .to_owned()
        }
        (Some(actual), true) => format!("the common encoding version is {actual}"),
        (Some(actual), false) if actual == said.as_str() => return,
        (Some(actual), false) => format!("the actual common encoding version is {actual}"),
    };
    errors.invalid(STATUS.child("commonEncodingVersion"), said, detail);
}

/// Upstream counts them at the status itself, not at its field.
fn validate_conditions(conditions: &[Value], errors: &mut Errors) {
    for (index, condition) in conditions.iter().enumerate() {
        let path = STATUS.index(index);
        let kind = condition.str("type");
        if let Some(other) = conditions[..index].iter().rposition(|other| other.str("type") == kind) {
            let detail = format!("the type of the condition is not unique, it also appears in conditions[{other}]");
            errors.invalid(path.child("type"), kind, detail);
        }
        for field in ["type", "status"] {
            for message in names::qualified_name(condition.str(field)) {
                errors.invalid(path.child(field), condition.str(field), message);
            }
        }
        for field in ["reason", "message"] {
            if condition.str(field).is_empty() {
                errors.required(path.child(field), "");
            }
        }
    }
}

fn check_api_version(path: Path<'_>, api_version: &str, errors: &mut Errors) {
    let parts: Vec<&str> = api_version.split('/').collect();
    let (group, version) = match parts.as_slice() {
        [version] => (None, *version),
        [group, version] => (Some(*group), *version),
        _ => {
            let words = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with \
                         an alphabetic character, and end with an alphanumeric character";
            let pattern = names::pattern_error(words, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]);
            let suffix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')";
            return errors.invalid(path, api_version, format!("an apiVersion is {pattern} {suffix}"));
        }
    };
    let mut messages = Vec::new();
    let mut check = |part: &str, what: &str, check: fn(&str) -> Vec<String>| {
        if part.is_empty() {
            messages.push(format!("{what} part: must be non-empty"));
        } else {
            messages.extend(check(part).into_iter().map(|message| format!("{what} part: {message}")));
        }
    };
    if let Some(group) = group {
        check(group, "group", names::dns1123_subdomain);
    }
    check(version, "version", names::dns1035_label);
    if !messages.is_empty() {
        errors.invalid(path, api_version, messages.join(","));
    }
}
