//! The kinds of `coordination.k8s.io`.

pub mod lease;
pub mod lease_candidate;
