//! The name of a definition, and the names of the kind that it defines.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

use super::STATUS;
use crate::meta;
use crate::strategy::NameRule;

const METADATA: Path<'static> = Path::new("metadata");

/// The metadata of a new definition: its name is made of what it defines.
pub fn validate_metadata(definition: &Value, errors: &mut Errors) {
    let (metadata, spec) = (definition.get("metadata"), definition.get("spec"));
    let wanted = format!("{}.{}", spec.get("names").str("plural"), spec.str("group"));
    for field in ["generateName", "name"] {
        let name = metadata.str(field);
        if name.is_empty() {
            continue;
        }
        let check = if field == "name" { meta::check_name } else { meta::check_prefix };
        for message in check(NameRule::Subdomain, name) {
            errors.invalid(METADATA.child(field), name, message);
        }
        if name != wanted {
            errors.invalid(METADATA.child(field), name, "must be spec.names.plural+\".\"+spec.group");
        }
    }
    meta::validate(METADATA, metadata, false, NameRule::Own, errors);
}

pub fn validate_status(definition: &Value, errors: &mut Errors) {
    validate_names(STATUS.child("acceptedNames"), definition.get("status").get("acceptedNames"), errors);
}

/// In addition to what names must be like, some must be there.
pub fn validate_spec(path: Path<'_>, names: &Value, errors: &mut Errors) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if names.str(field).is_empty() {
            errors.required(path.child(field), "");
        }
    }
    validate_names(path, names, errors);
}

fn validate_names(path: Path<'_>, names: &Value, errors: &mut Errors) {
    for field in ["plural", "singular"] {
        if !names.str(field).is_empty() {
            validate_label(path.child(field), names.str(field), errors);
        }
    }
    let (kind, list_kind) = (names.str("kind"), names.str("listKind"));
    for (field, name) in [("kind", kind), ("listKind", list_kind)] {
        let messages = names::dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !messages.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", messages.join(","));
            errors.invalid(path.child(field), name, detail);
        }
    }
    validate_labels(path.child("shortNames"), names.list("shortNames"), errors);
    // A list could be taken for an object.
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(path.child("listKind"), list_kind, "kind and listKind may not be the same");
    }
    validate_labels(path.child("categories"), names.list("categories"), errors);
}

fn validate_labels(path: Path<'_>, labels: &[Value], errors: &mut Errors) {
    for (index, label) in labels.iter().enumerate() {
        validate_label(path.index(index), label.as_str(), errors);
    }
}

/// A DNS label (RFC 1035); all that is wrong is one error.
pub fn validate_label(path: Path<'_>, label: &str, errors: &mut Errors) {
    let messages = names::dns1035_label(label);
    if !messages.is_empty() {
        errors.invalid(path, label, messages.join(","));
    }
}
