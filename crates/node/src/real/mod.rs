//! A node that runs its pods, by a container runtime.
//!
//! - [`prepare_api`]: what is asked of whoever prepares volumes, environment and security context.

mod prepare_api;

pub use prepare_api::{ContainerContext, Prepare, Problem};
