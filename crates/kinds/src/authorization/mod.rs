//! The kinds of `authorization.k8s.io`: questions about who may do what. The server answers in their status; nothing
//! is stored.

pub mod local_subject_access_review;
mod review;
pub mod self_subject_access_review;
pub mod self_subject_rules_review;
pub mod subject_access_review;

pub(crate) const GROUP: &str = "authorization.k8s.io";
