//! The kinds of `authentication.k8s.io`.

pub mod self_subject_review;
pub mod token_review;
