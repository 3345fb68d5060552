//! The kinds of `scheduling.k8s.io`.

pub mod pod_group;
pub mod priority_class;
mod templates;
pub mod workload;
