//! What RoleBinding and ClusterRoleBinding share: subjects and the role that they get.

use rkube_machinery::field::{BadValue, Errors, Path};
use rkube_machinery::{Value, json, names, object};

use super::GROUP;

const ROLE_REF: Path<'static> = Path::new("roleRef");
const SUBJECTS: Path<'static> = Path::new("subjects");

pub fn default(binding: &mut Value) {
    binding.object_mut("roleRef").set_default("apiGroup", GROUP);
    for subject in binding.list_mut("subjects") {
        if matches!(subject.str("kind"), "User" | "Group") {
            subject.set_default("apiGroup", GROUP);
        }
    }
}

/// `roles` are the kinds of roles that can be bound.
pub fn validate(binding: &Value, namespaced: bool, roles: &[&str], errors: &mut Errors) {
    let role = binding.get("roleRef");
    if role.str("apiGroup") != GROUP {
        errors.not_supported(ROLE_REF.child("apiGroup"), role.str("apiGroup"), &[GROUP]);
    }
    if !roles.contains(&role.str("kind")) {
        errors.not_supported(ROLE_REF.child("kind"), role.str("kind"), roles);
    }
    let name = role.str("name");
    if name.is_empty() {
        errors.required(ROLE_REF.child("name"), "");
    } else {
        for message in names::path_segment_name(name) {
            errors.invalid(ROLE_REF.child("name"), name, message);
        }
    }
    for (index, subject) in binding.list("subjects").iter().enumerate() {
        validate_subject(SUBJECTS.index(index), subject, namespaced, errors);
    }
}

pub fn validate_change(binding: &Value, old: &Value, errors: &mut Errors) {
    let (role, old_role) = (binding.get("roleRef"), old.get("roleRef"));
    if ["apiGroup", "kind", "name"].iter().any(|field| role.str(field) != old_role.str(field)) {
        errors.invalid(ROLE_REF, go_form(role), "cannot change roleRef");
    }
}

fn validate_subject(path: Path<'_>, subject: &Value, namespaced: bool, errors: &mut Errors) {
    let (name, group) = (subject.str("name"), subject.str("apiGroup"));
    if name.is_empty() {
        errors.required(path.child("name"), "");
    }
    match subject.str("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                for message in names::dns1123_subdomain(name) {
                    errors.invalid(path.child("name"), name, message);
                }
            }
            if !group.is_empty() {
                errors.not_supported(path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && subject.str("namespace").is_empty() {
                errors.required(path.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// The reference with Go's names of its fields, as the message shows it.
fn go_form(reference: &Value) -> BadValue {
    let (group, kind, name) = (reference.str("apiGroup"), reference.str("kind"), reference.str("name"));
    let shown = object! { "APIGroup": group, "Kind": kind, "Name": name };
    BadValue::Text(json::to_string(&shown))
}

pub fn role(binding: &Value, _now: i64) -> Value {
    let role = binding.get("roleRef");
    format!("{}/{}", role.str("kind"), role.str("name")).into()
}

pub fn users(binding: &Value, _now: i64) -> Value {
    subjects(binding, "User", |subject| subject.str("name").to_owned())
}

pub fn groups(binding: &Value, _now: i64) -> Value {
    subjects(binding, "Group", |subject| subject.str("name").to_owned())
}

pub fn service_accounts(binding: &Value, _now: i64) -> Value {
    subjects(binding, "ServiceAccount", |subject| format!("{}/{}", subject.str("namespace"), subject.str("name")))
}

fn subjects(binding: &Value, kind: &str, shown: fn(&Value) -> String) -> Value {
    let chosen = binding.list("subjects").iter().filter(|subject| subject.str("kind") == kind);
    chosen.map(shown).collect::<Vec<_>>().join(", ").into()
}
