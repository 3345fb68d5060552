//! The kinds of `rbac.authorization.k8s.io`: who may do what.

mod binding;
pub mod cluster_role;
pub mod cluster_role_binding;
mod policy_rule;
pub mod role;
pub mod role_binding;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
