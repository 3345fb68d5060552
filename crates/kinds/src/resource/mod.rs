//! The kinds of `resource.k8s.io`: devices, and claims to them.
//!
//! Objects are stored in the form of `v1` (those that it does not have, in the newest form that has them); the other
//! versions are served when asked for and differ from it in how requests and devices are nested.
//!
//! CEL expressions are not compiled here: see [`selector`].

mod admin;
mod claim_spec;
mod configuration;
mod conversion;
mod defaults;
pub mod device_class;
pub mod device_taint_rule;
mod lists;
mod names;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_pool_status_request;
pub mod resource_slice;
mod selector;
mod taints;

const GROUP: &str = "resource.k8s.io";
