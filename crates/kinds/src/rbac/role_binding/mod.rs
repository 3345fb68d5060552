//! RoleBinding: gives subjects a role in one namespace.

use super::GROUP;
use super::binding::{self, BindingRules};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Kind};

pub static KIND: Kind = Kind {
    group: GROUP,
    kind: "RoleBinding",
    resource: "rolebindings",
    singular: "rolebinding",
    type_name: "io.k8s.api.rbac.v1.RoleBinding",
    storage_prefix: "rolebindings",
    columns: &[
        NAME,
        Column::text("Role", "doc:io.k8s.api.rbac.v1.RoleBinding roleRef", binding::role),
        AGE,
        Column::wide("Users", "Users in the roleBinding", binding::users),
        Column::wide("Groups", "Groups in the roleBinding", binding::groups),
        Column::wide("ServiceAccounts", "ServiceAccounts in the roleBinding", binding::service_accounts),
    ],
    rules: &BindingRules { namespaced: true, roles: &["Role", "ClusterRole"] },
    ..Kind::DEFAULTS
};
