//! From a Pod to what a container runtime can run: volumes, environment, security context, resources, names.
//!
//! What is worked out from the pod alone is pure, a file for each ([`dns`], [`env`], [`fields`], [`hostname`], [`hosts`],
//! [`resources`], [`sandbox`], [`security`], [`services`], [`expansion`]); [`preparer`] asks the API and works on files.

mod dns;
mod env;
mod env_file;
pub(super) mod expansion;
pub(super) mod fields;
mod hostname;
mod hosts;
mod mounts;
mod preparer;
pub(super) mod resources;
mod sandbox;
mod security;
mod services;
mod storage;
mod volumes;
mod watches;

#[cfg(test)]
mod preparer_tests;
#[cfg(test)]
mod tests;

pub use preparer::{Config, Preparer};
pub(super) use storage::is_limited as limits_storage;
