//! Role: what its holders may do in one namespace.

use rkube_machinery::Value;
use rkube_machinery::field::Errors;

use super::{GROUP, policy_rule};
use crate::columns::{CREATED_AT, NAME};
use crate::kind::{Kind, NameRule, Part, Repeat, Rules};

pub static KIND: Kind = Kind {
    group: GROUP,
    kind: "Role",
    resource: "roles",
    singular: "role",
    type_name: "io.k8s.api.rbac.v1.Role",
    storage_prefix: "roles",
    columns: &[NAME, CREATED_AT],
    rules: &RoleRules,
    ..Kind::DEFAULTS
};

struct RoleRules;

impl Rules for RoleRules {
    fn validate_create(&self, role: &Value, errors: &mut Errors) {
        policy_rule::validate_all(role, true, errors);
    }

    fn validate_update(&self, _part: Part, role: &Value, _old: &Value, errors: &mut Errors) {
        policy_rule::validate_all(role, true, errors);
    }

    fn repeats_meta(&self, _part: Part) -> Repeat {
        Repeat::WholeAround
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn reset_fields(&self, _part: Part) -> &'static [&'static [&'static str]] {
        &[]
    }
}
