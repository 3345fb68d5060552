//! RoleBinding: gives subjects a role in one namespace.

use super::{GROUP, RbacRules, binding};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Row};
use crate::strategy::{NameRule, Repeat, Repeats, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "RoleBinding",
    resource: "rolebindings",
    singular: "rolebinding",
    type_name: "io.k8s.api.rbac.v1.RoleBinding",
    storage_prefix: "rolebindings",
    columns: &[
        NAME,
        Column::text(
            "Role",
            "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the \
             RoleRef cannot be resolved, the Authorizer must return an error.",
            binding::role,
        ),
        AGE,
        Column::wide("Users", "Users in the roleBinding", binding::users),
        Column::wide("Groups", "Groups in the roleBinding", binding::groups),
        Column::wide("ServiceAccounts", "ServiceAccounts in the roleBinding", binding::service_accounts),
    ],
    strategy: Strategy {
        name_rule: NameRule::PathSegment,
        repeats_meta: Repeats::all(Repeat::New),
        create_on_update: true,
        ..Strategy::DEFAULTS
    },
    rules: &RbacRules {
        default: binding::default,
        validate: |object, _, errors| binding::validate(object, true, &["Role", "ClusterRole"], errors),
        change: binding::validate_change,
    },
    ..Row::DEFAULTS
};
