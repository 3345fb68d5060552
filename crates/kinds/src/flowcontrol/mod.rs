//! The kinds of `flowcontrol.apiserver.k8s.io`: how the API server shares itself among those who ask.

pub mod flow_schema;
pub mod priority_level_configuration;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

use crate::core::pod_spec::checks::Seen;
use crate::fields::{carry, carry_metadata_but_managed_fields};
use crate::kind::{Part, Rules};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const SPEC: Path<'static> = Path::new("spec");

/// What both kinds have in common: all but what stands in their specs.
struct FlowControlRules {
    default_spec: fn(&mut Value),
    validate: fn(&Value, &mut Errors),
}

impl Rules for FlowControlRules {
    fn default(&self, object: &mut Value) {
        (self.default_spec)(object.object_mut("spec"));
    }

    fn prepare_create(&self, object: &mut Value) {
        object.remove("status");
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        (self.validate)(object, errors);
        validate_status(object, errors);
    }

    /// Each part carries over what the other one writes; the status does not write metadata either.
    fn prepare_update(&self, part: Part, object: &mut Value, old: &Value) {
        if part == Part::Status {
            carry(object, old, "spec");
            carry_metadata_but_managed_fields(object, old);
        } else {
            carry(object, old, "status");
        }
    }

    fn validate_update(&self, part: Part, object: &Value, _old: &Value, errors: &mut Errors) {
        if part == Part::Main {
            (self.validate)(object, errors);
        }
        validate_status(object, errors);
    }
}

/// Conditions have types, each one once.
fn validate_status(object: &Value, errors: &mut Errors) {
    let path = Path::new("status.conditions");
    let conditions = object.get("status").list("conditions");
    let mut seen = Seen::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = condition.str("type");
        if !seen.add(kind) {
            errors.duplicate(path.child("type"), kind);
        }
        if kind.is_empty() {
            errors.required(path.child("type"), "");
        }
    }
}
