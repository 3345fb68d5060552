//! The kinds of `flowcontrol.apiserver.k8s.io`: how the API server shares itself among those who ask.

pub mod flow_schema;
pub mod priority_level_configuration;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::fields::{carry, carry_metadata_but_managed_fields};
use crate::kind::Part;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SPEC: Path<'static> = Path::new("spec");

/// Each part carries over what the other one writes; the status does not write metadata either.
fn prepare_update(part: Part, object: &mut Value, old: &Value) {
    if part == Part::Status {
        carry(object, old, "spec");
        carry_metadata_but_managed_fields(object, old);
    } else {
        carry(object, old, "status");
    }
}

fn reset_fields(part: Part) -> &'static [&'static [&'static str]] {
    if part == Part::Status { &[&["metadata"], &["spec"]] } else { &[&["status"]] }
}

/// Conditions have types, each one once.
fn validate_status(object: &Value, errors: &mut Errors) {
    let path = Path::new("status.conditions");
    let conditions = object.get("status").list("conditions");
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = condition.str("type");
        if conditions[..index].iter().any(|before| before.str("type") == kind) {
            errors.duplicate(path.child("type"), kind);
        }
        if kind.is_empty() {
            errors.required(path.child("type"), "");
        }
    }
}
