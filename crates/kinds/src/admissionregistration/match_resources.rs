//! Which requests a webhook or policy looks at: rules over operations and resources, and selectors.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::MATCH_POLICIES;
use crate::core::pod_spec::checks::Seen;
use crate::fields::texts;
use crate::meta;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// What can be changed on its way in.
const MUTABLE_OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

pub fn default_rules(holder: &mut Value, field: &str) {
    for rule in holder.list_mut(field) {
        rule.set_if_absent("scope", "*");
    }
}

/// The selectors that match everything, where there are none.
pub fn default_selectors(holder: &mut Value) {
    holder.set_if_absent("matchPolicy", "Equivalent");
    holder.set_if_absent("namespaceSelector", Value::object());
    holder.set_if_absent("objectSelector", Value::object());
}

/// The `MatchResources` in this field, where there are any.
pub fn default(holder: &mut Value, field: &str) {
    if let Some(resources) = holder.find_mut(field) {
        default_selectors(resources);
        default_rules(resources, "resourceRules");
        default_rules(resources, "excludeResourceRules");
    }
}

pub fn validate(path: Path<'_>, resources: &Value, errors: &mut Errors) {
    if resources.is_null() {
        return;
    }
    let policy = resources.get("matchPolicy");
    if policy.is_null() {
        errors.required(path.child("matchPolicy"), "");
    } else if !MATCH_POLICIES.contains(&policy.as_str()) {
        errors.not_supported(path.child("matchPolicy"), policy, MATCH_POLICIES);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if resources.has(field) {
            meta::validate_label_selector(path.child(field), resources.get(field), false, errors);
        } else {
            errors.required(path.child(field), "");
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let path = path.child(field);
        for (index, rule) in resources.list(field).iter().enumerate() {
            validate_named_rule(path.index(index), rule, errors);
        }
    }
}

/// A deletion has nothing to change.
pub fn validate_mutable(path: Path<'_>, resources: &Value, errors: &mut Errors) {
    let path = path.child("resourceRules");
    for operation in resources.list("resourceRules").iter().flat_map(|rule| texts(rule, "operations")) {
        if !MUTABLE_OPERATIONS.contains(&operation) {
            errors.not_supported(path.child("operations"), operation, MUTABLE_OPERATIONS);
        }
    }
}

fn validate_named_rule(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    let resource_names = rule.list("resourceNames");
    let field = path.child("resourceNames");
    let mut seen = Seen::new();
    for (index, name) in resource_names.iter().enumerate() {
        for message in names::path_segment_name(name.as_str()) {
            errors.invalid(field.index(index), name.as_str(), message);
        }
        if !seen.add(name.as_str()) {
            errors.duplicate(field.index(index), name.as_str());
        }
    }
    validate_rule(path, rule, errors);
}

pub fn validate_rule(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    validate_list(path, rule, "operations", "operations", errors);
    let operations = path.child("operations");
    for (index, operation) in texts(rule, "operations").enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.not_supported(operations.index(index), operation, OPERATIONS);
        }
    }
    validate_list(path, rule, "apiGroups", "API groups", errors);
    validate_list(path, rule, "apiVersions", "API versions", errors);
    let versions = path.child("apiVersions");
    for (index, version) in texts(rule, "apiVersions").enumerate() {
        if version.is_empty() {
            errors.required(versions.index(index), "");
        }
    }
    validate_resources(path.child("resources"), rule, errors);
    let scope = rule.get("scope");
    if !scope.is_null() && !SCOPES.contains(&scope.as_str()) {
        errors.not_supported(path.child("scope"), scope, SCOPES);
    }
}

/// A list that is not empty, and in which `*` stands alone.
fn validate_list(path: Path<'_>, rule: &Value, field: &str, words: &str, errors: &mut Errors) {
    let items = rule.list(field);
    if items.is_empty() {
        errors.required(path.child(field), "");
    }
    if items.len() > 1 && items.iter().any(|item| item.as_str() == "*") {
        let detail = format!("if '*' is present, must not specify other {words}");
        errors.invalid(path.child(field), rule.get(field), detail);
    }
}

/// Resources and subresources (`pods`, `pods/log`, `pods/*`, `*/scale`, `*`, `*/*`) that do not overlap.
fn validate_resources(path: Path<'_>, rule: &Value, errors: &mut Errors) {
    let resources = rule.list("resources");
    if resources.is_empty() {
        errors.required(path, "");
    }
    let mut plain_beside_star = false;
    let mut earlier = Seen::new();
    for (index, entry) in resources.iter().enumerate() {
        let entry = entry.as_str();
        if entry.is_empty() {
            errors.required(path.index(index), "");
            continue;
        }
        let Some((resource, part)) = entry.split_once('/') else {
            plain_beside_star = entry != "*";
            continue;
        };
        if earlier.has((resource, "*")) {
            let detail = format!("if '{resource}/*' is present, must not specify {entry}");
            errors.invalid(path.index(index), entry, detail);
        }
        if earlier.has(("*", part)) {
            errors.invalid(path.index(index), entry, format!("if '*/{part}' is present, must not specify {entry}"));
        }
        earlier.add((resource, part));
    }
    let has = |wanted: &str| resources.iter().any(|entry| entry.as_str() == wanted);
    if resources.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.invalid(path, rule.get("resources"), detail);
    }
    if has("*") && plain_beside_star {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, rule.get("resources"), detail);
    }
}
