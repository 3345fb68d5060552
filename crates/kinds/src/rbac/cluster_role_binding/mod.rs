//! ClusterRoleBinding: gives subjects a role everywhere.

use super::GROUP;
use super::binding::{self, BindingRules};
use crate::columns::{AGE, NAME};
use crate::kind::{Column, Kind, Scope};

pub static KIND: Kind = Kind {
    group: GROUP,
    kind: "ClusterRoleBinding",
    resource: "clusterrolebindings",
    singular: "clusterrolebinding",
    scope: Scope::Cluster,
    type_name: "io.k8s.api.rbac.v1.ClusterRoleBinding",
    storage_prefix: "clusterrolebindings",
    columns: &[
        NAME,
        Column::text("Role", "doc:io.k8s.api.rbac.v1.ClusterRoleBinding roleRef", binding::role),
        AGE,
        Column::wide("Users", "Users in the clusterRoleBinding", binding::users),
        Column::wide("Groups", "Groups in the clusterRoleBinding", binding::groups),
        Column::wide("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding", binding::service_accounts),
    ],
    rules: &BindingRules { namespaced: false, roles: &["ClusterRole"] },
    ..Kind::DEFAULTS
};
