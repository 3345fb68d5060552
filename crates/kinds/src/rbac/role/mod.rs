//! Role: what its holders may do in one namespace.

use super::{GROUP, RbacRules, policy_rule};
use crate::columns::{CREATED_AT, NAME};
use crate::kind::Row;
use crate::strategy::{NameRule, Repeat, Repeats, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "Role",
    resource: "roles",
    singular: "role",
    type_name: "io.k8s.api.rbac.v1.Role",
    storage_prefix: "roles",
    columns: &[NAME, CREATED_AT],
    strategy: Strategy {
        name_rule: NameRule::PathSegment,
        repeats_meta: Repeats::all(Repeat::New),
        create_on_update: true,
        ..Strategy::DEFAULTS
    },
    rules: &RbacRules {
        default: |_| {},
        validate: |role, _, errors| policy_rule::validate_all(role, true, errors),
        change: |_, _, _| {},
    },
    ..Row::DEFAULTS
};
