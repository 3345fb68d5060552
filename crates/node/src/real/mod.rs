//! A node that runs its pods, by a container runtime.
//!
//! - [`prepare_api`]: what is asked of whoever prepares volumes, environment and security context.
//! - [`prepare`]: does it; `volumes`: the volumes of pods, a file for each kind.

pub mod prepare;
mod prepare_api;
mod volumes;

pub use prepare_api::{ContainerContext, Prepare, Problem};
