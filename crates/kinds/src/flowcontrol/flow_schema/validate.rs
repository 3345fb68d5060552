//! What a flow schema must look like.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names, object};

use super::fixed;
use crate::core::pod_spec::checks::{dns_label, dns_subdomain};
use crate::fields::texts;
use crate::flowcontrol::SPEC;

const PRECEDENCE_MAX: i64 = 10000;
const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Everything but metadata and status.
pub fn schema(schema: &Value, errors: &mut Errors) {
    let name = schema.get("metadata").str("name");
    let spec = schema.get("spec");
    validate_precedence(name, spec.int("matchingPrecedence"), errors);
    let method = spec.get("distinguisherMethod");
    if !method.is_null() && !matches!(method.str("type"), "ByNamespace" | "ByUser") {
        let path = SPEC.child("distinguisherMethod");
        let shown = object! { "Type": method.str("type") };
        errors.not_supported(path.child("type"), &shown, &["ByNamespace", "ByUser"]);
    }
    let path = SPEC.child("priorityLevelConfiguration");
    match spec.get("priorityLevelConfiguration").str("name") {
        "" => errors.required(path.child("name"), "must reference a priority level"),
        level => dns_subdomain(path.child("name"), level, errors),
    }
    let path = SPEC.child("rules");
    for (index, rule) in spec.list("rules").iter().enumerate() {
        validate_rule(path.index(index), rule, errors);
    }
    if !fixed::is_as_fixed(name, spec) {
        errors.invalid(SPEC, &fixed::shown(spec), format!("spec of '{name}' must equal the fixed value"));
    }
}

fn validate_precedence(name: &str, precedence: i64, errors: &mut Errors) {
    let path = SPEC.child("matchingPrecedence");
    if precedence <= 0 {
        errors.invalid(path, precedence, "must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        errors.invalid(path, precedence, format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && name != "exempt" {
        errors.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
}

fn validate_rule(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    let subjects = path.child("subjects");
    if rule.list("subjects").is_empty() {
        errors.required(subjects, "subjects must contain at least one value");
    }
    for (index, subject) in rule.list("subjects").iter().enumerate() {
        validate_subject(subjects.index(index), subject, errors);
    }
    if rule.list("resourceRules").is_empty() && rule.list("nonResourceRules").is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    let place = path.child("resourceRules");
    for (index, rule) in rule.list("resourceRules").iter().enumerate() {
        validate_resource_rule(place.index(index), rule, errors);
    }
    let place = path.child("nonResourceRules");
    for (index, rule) in rule.list("nonResourceRules").iter().enumerate() {
        validate_url_rule(place.index(index), rule, errors);
    }
}

/// A subject says its kind, and who it is in the field of that kind only.
fn validate_subject(path: Path<'_>, subject: &Value, errors: &mut Errors) {
    const KINDS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.str("kind");
    let Some((_, field)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        return errors.not_supported(path.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
    };
    let place = path.child(field);
    let who = subject.get(field);
    if who.is_null() {
        errors.required(place, format!("{field} is required when subject kind is '{kind}'"));
    } else if who.str("name").is_empty() {
        errors.required(place.child("name"), "");
    } else if kind == "ServiceAccount" && who.str("name") != "*" {
        dns_subdomain(place.child("name"), who.str("name"), errors);
    }
    if kind == "ServiceAccount" && !who.is_null() {
        match who.str("namespace") {
            "" => errors.required(place.child("namespace"), "must specify namespace for service account"),
            namespace => dns_label(place.child("namespace"), namespace, errors),
        }
    }
    let others: &[usize] = if kind == "ServiceAccount" { &[1, 2] } else { &[0, 1, 2] };
    for (other, field) in others.iter().map(|index| KINDS[*index]).filter(|(other, _)| *other != kind) {
        if subject.has(field) {
            errors.forbidden(path.child(field), format!("{field} is forbidden when subject kind is not '{other}'"));
        }
    }
}

fn validate_resource_rule(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    validate_verbs(path.child("verbs"), rule, errors);
    for (field, one, many) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let count = rule.list(field).len();
        if count == 0 {
            errors.required(path.child(field), format!("resource rules must supply at least one {one}"));
        } else if count > 1 && has_wildcard(rule, field) {
            alone(path.child(field), rule.get(field), many, errors);
        }
    }
    let place = path.child("namespaces");
    let count = rule.list("namespaces").len();
    if count == 0 && !rule.bool("clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(place, detail);
    } else if has_wildcard(rule, "namespaces") {
        if count > 1 {
            alone(place, rule.get("namespaces"), "namespaces", errors);
        }
    } else {
        for (index, namespace) in texts(rule, "namespaces").enumerate() {
            for message in names::dns1123_label(namespace) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                errors.invalid(place.index(index), namespace, detail);
            }
        }
    }
}

fn validate_url_rule(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    validate_verbs(path.child("verbs"), rule, errors);
    let place = path.child("nonResourceURLs");
    let count = rule.list("nonResourceURLs").len();
    if count == 0 {
        errors.required(place, "nonResourceURLs must contain at least one value");
    } else if has_wildcard(rule, "nonResourceURLs") {
        if count > 1 {
            alone(place, rule.get("nonResourceURLs"), "non-resource URLs", errors);
        }
    } else {
        for (index, url) in texts(rule, "nonResourceURLs").enumerate() {
            if let Some(detail) = wrong_url(url) {
                errors.invalid(place.index(index), url, detail);
            }
        }
    }
}

fn validate_verbs(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    let count = rule.list("verbs").len();
    if count == 0 {
        errors.required(path, "verbs must contain at least one value");
    } else if has_wildcard(rule, "verbs") {
        if count > 1 {
            alone(path, rule.get("verbs"), "verbs", errors);
        }
    } else if !texts(rule, "verbs").all(|verb| VERBS.contains(&verb)) {
        errors.not_supported(path, rule.get("verbs"), &VERBS);
    }
}

fn has_wildcard(rule: &Value, field: &str) -> bool {
    texts(rule, field).any(|text| text == "*")
}

fn alone(path: Path<'_>, list: &Value, what: &str, errors: &mut Errors) {
    errors.invalid(path, list, format!("if '*' is present, must not specify other {what}"));
}

/// What is wrong with the path of a URL in which only the last segment may be a wildcard.
fn wrong_url(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for url in ["/", "/*", "/a", "/a/*", "/a/b/"] {
            assert_eq!(wrong_url(url), None, "{url}");
        }
        for url in ["", "a", "/a b", "/a//b", "/a*", "/*/*", "/*/a", "*"] {
            assert!(wrong_url(url).is_some(), "{url}");
        }
    }

    #[test]
    fn subjects_say_who_they_are_once() {
        let subject = object! {
            "kind": "User", "user": object! { "name": "" }, "group": object! { "name": "g" },
            "serviceAccount": Value::object(),
        };
        let mut errors = Errors::new();
        validate_subject(Path::new("s"), &subject, &mut errors);
        let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "s.user.name: Required value",
                "s.serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not 'ServiceAccount'",
                "s.group: Forbidden: group is forbidden when subject kind is not 'Group'",
            ]
        );
    }
}
