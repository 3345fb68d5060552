//! The kinds of `rbac.authorization.k8s.io`: who may do what.

mod binding;
pub mod cluster_role;
pub mod cluster_role_binding;
mod policy_rule;
pub mod role;
pub mod role_binding;

use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use crate::kind::{Part, Rules};
use crate::meta;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// What all four kinds have in common: all but what they say.
struct RbacRules {
    default: fn(&mut Value),
    /// The object, and the old one on update.
    validate: fn(&Value, Option<&Value>, &mut Errors),
    /// What an update may not change.
    change: fn(&Value, &Value, &mut Errors),
}

impl Rules for RbacRules {
    fn default(&self, object: &mut Value) {
        (self.default)(object);
    }

    fn validate_create(&self, object: &Value, errors: &mut Errors) {
        (self.validate)(object, None, errors);
    }

    fn validate_update(&self, _part: Part, object: &Value, old: &Value, errors: &mut Errors) {
        (self.validate)(object, Some(old), errors);
        meta::validate_update_again(object, old, errors);
        (self.change)(object, old, errors);
    }
}
