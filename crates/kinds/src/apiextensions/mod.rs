//! The kinds of `apiextensions.k8s.io`: definitions of other kinds.

pub mod custom_resource_definition;
