//! What a definition's status is to be.

// tidy: types CustomResourceDefinition

use rkube_kinds::custom::check_structural;
use rkube_kinds::custom_resource_definition::approval::{self, Approval};
use rkube_kinds::custom_resource_definition::{
    CLEANUP_FINALIZER, has_usable_bundle, is_condition_true, remove_condition, set_condition,
};
use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::{Value, object, time};

use super::names::Taken;

/// Accepts names that are free, and establishes what can be served.
pub fn settle(definition: &mut Value, taken: &Taken<'_>, now: i64) {
    accept_names(definition, taken, now);
    establish(definition, now);
    approve(definition, now);
}

/// What to do next about a definition that is being deleted.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is not being deleted, or waits for others only.
    Nothing,
    /// The status says now what will happen, and is to be written.
    Announce,
    /// Its objects are to be deleted.
    Empty,
}

/// The next step of a definition that is being deleted.
pub fn termination(definition: &mut Value, now: i64) -> Step {
    let metadata = definition.get("metadata");
    let held = metadata.list("finalizers").iter().any(|finalizer| finalizer.as_str() == CLEANUP_FINALIZER);
    if !metadata.has("deletionTimestamp") || !held {
        return Step::Nothing;
    }
    if !is_condition_true(definition, "Established") {
        set(definition, "Terminating", "False", "NeverEstablished", "resource was never established", now);
        remove_finalizer(definition);
        return Step::Announce;
    }
    let conditions = definition.get("status").list("conditions");
    let terminating = conditions.iter().find(|condition| condition.str("type") == "Terminating");
    if terminating
        .is_some_and(|found| found.str("status") == "True" && found.str("reason") != "InstanceDeletionPending")
    {
        return Step::Empty;
    }
    set(definition, "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress", now);
    Step::Announce
}

/// Not all objects could be deleted.
pub fn deletion_failed(definition: &mut Value, why: &str, now: i64) {
    let message = format!("could not issue all deletes: {why}");
    set(definition, "Terminating", "True", "InstanceDeletionFailed", &message, now);
}

/// No object is left: nothing holds the definition any more.
pub fn deletion_completed(definition: &mut Value, now: i64) {
    set(definition, "Terminating", "False", "InstanceDeletionCompleted", "removed all instances", now);
    remove_finalizer(definition);
}

/// Notes whether the schemas are structural. Definitions are refused where they are not; what was stored before is not.
pub fn check_schemas(definition: &mut Value, now: i64) {
    let spec = definition.get("spec");
    let mut errors = Errors::new();
    let path = Path::new("spec");
    if spec.bool("preserveUnknownFields") {
        errors.invalid(path.child("preserveUnknownFields"), &Value::from(true), "must be false");
    }
    for (index, version) in spec.list("versions").iter().enumerate() {
        let document = version.get("schema").get("openAPIV3Schema");
        if document.is_null() {
            continue;
        }
        let versions = path.child("versions");
        let (version, schema) = (versions.index(index), "schema");
        let schema = version.child(schema);
        errors.extend(check_structural(document, schema.child("openAPIV3Schema")));
    }
    if errors.is_empty() {
        return remove_condition(definition, "NonStructuralSchema");
    }
    set(definition, "NonStructuralSchema", "True", "Violations", &errors.summary(), now);
}

/// Several reasons as one text: one alone as it is, several in brackets, each once.
pub fn aggregate(mut reasons: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    reasons.retain(|reason| seen.insert(reason.clone()));
    match reasons.len() {
        1 => reasons.swap_remove(0),
        _ => format!("[{}]", reasons.join(", ")),
    }
}

/// Takes over each name that is free. The condition names the last one that is not.
fn accept_names(definition: &mut Value, taken: &Taken<'_>, now: i64) {
    let wanted = definition.get("spec").get("names");
    let accepted = definition.get("status").get("acceptedNames");
    if wanted == accepted {
        return;
    }
    let mut names = accepted.clone();
    let mut conflict: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("{} is already in use", quote(name));
    for (field, reason) in NAMES {
        let used: Vec<String> = match field {
            "shortNames" => {
                let known = accepted.list(field);
                let wanted = wanted.list(field).iter().filter(|name| !known.contains(name)).map(Value::as_str);
                wanted.filter(|name| taken.has_resource(name)).map(in_use).collect()
            }
            _ => {
                let name = wanted.str(field);
                let is_taken = match field {
                    "kind" | "listKind" => taken.has_kind(name),
                    _ => taken.has_resource(name),
                };
                if name != accepted.str(field) && is_taken { vec![in_use(name)] } else { Vec::new() }
            }
        };
        match used.is_empty() {
            true => take_over(wanted, &mut names, field),
            false => conflict = Some((reason, aggregate(used))),
        }
    }
    take_over(wanted, &mut names, "categories");
    definition.object_mut("status").set("acceptedNames", names);
    match conflict {
        Some((reason, message)) => {
            set(definition, "NamesAccepted", "False", reason, &message, now);
            if !has_condition(definition, "Established") {
                set(definition, "Established", "False", "NotAccepted", "not all names are accepted", now);
            }
        }
        None => set(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now),
    }
}

/// The names that a definition asks for, and what it is called that one is taken.
const NAMES: [(&str, &str); 5] = [
    ("plural", "PluralConflict"),
    ("singular", "SingularConflict"),
    ("shortNames", "ShortNamesConflict"),
    ("kind", "KindConflict"),
    ("listKind", "ListKindConflict"),
];

/// Whose names are all accepted is established, and stays so.
fn establish(definition: &mut Value, now: i64) {
    if !is_condition_true(definition, "NamesAccepted") || is_condition_true(definition, "Established") {
        return;
    }
    match has_usable_bundle(definition) {
        true => {
            let message = "the initial names have been accepted";
            set(definition, "Established", "True", "InitialNamesAccepted", message, now);
        }
        false => {
            let message = "The conversion webhook CABundle is invalid";
            set(definition, "Established", "False", "InvalidCABundle", message, now);
        }
    }
}

/// Says of definitions in groups of the community whether they are approved.
fn approve(definition: &mut Value, now: i64) {
    if !approval::is_protected(definition.get("spec").str("group")) {
        return;
    }
    let (found, message) = approval::approval(definition);
    let (status, reason) = match found {
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    set(definition, "KubernetesAPIApprovalPolicyConformant", status, reason, &message, now);
}

fn set(definition: &mut Value, kind: &str, status: &str, reason: &str, message: &str, now: i64) {
    let condition = object! {
        "type": kind, "status": status, "lastTransitionTime": time::format_seconds(now),
        "reason": reason, "message": message,
    };
    set_condition(definition, condition);
}

fn has_condition(definition: &Value, kind: &str) -> bool {
    definition.get("status").list("conditions").iter().any(|condition| condition.str("type") == kind)
}

fn remove_finalizer(definition: &mut Value) {
    let finalizers = definition.object_mut("metadata").array_mut("finalizers");
    finalizers.retain(|finalizer| finalizer.as_str() != CLEANUP_FINALIZER);
}

/// Gives the field the value that it has in `from`, or none.
fn take_over(from: &Value, to: &mut Value, field: &str) {
    match from.as_map().get(field) {
        Some(value) => to.set(field, value.clone()),
        None => drop(to.remove(field)),
    }
}
