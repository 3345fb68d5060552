//! ClusterRoleBinding: gives subjects a role everywhere.

use super::{GROUP, RbacRules, binding};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Row, Scope};
use crate::strategy::{NameRule, Repeat, Repeats, Strategy};

pub static KIND: Row = Row {
    group: GROUP,
    kind: "ClusterRoleBinding",
    resource: "clusterrolebindings",
    singular: "clusterrolebinding",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.rbac.v1.ClusterRoleBinding",
    storage_prefix: "clusterrolebindings",
    columns: &[
        NAME,
        Column::text(
            "Role",
            "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the \
             Authorizer must return an error.",
            binding::role,
        ),
        AGE,
        Column::wide("Users", "Users in the clusterRoleBinding", binding::users),
        Column::wide("Groups", "Groups in the clusterRoleBinding", binding::groups),
        Column::wide("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding", binding::service_accounts),
    ],
    strategy: Strategy {
        name_rule: NameRule::PathSegment,
        repeats_meta: Repeats::all(Repeat::New),
        create_on_update: true,
        ..Strategy::DEFAULTS
    },
    rules: &RbacRules {
        default: binding::default,
        validate: |object, _, errors| binding::validate(object, false, &["ClusterRole"], errors),
        change: binding::validate_change,
    },
    ..Row::DEFAULTS
};
