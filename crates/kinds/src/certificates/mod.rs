//! The kinds of `certificates.k8s.io`: certificates that are asked for, and those that are trusted.

pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
mod curve;
pub mod pod_certificate_request;
mod signature;

pub(crate) const GROUP: &str = "certificates.k8s.io";
