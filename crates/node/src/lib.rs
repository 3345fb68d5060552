//! Nodes: what becomes of pods that are bound to one.
//!
//! [`pod`] and [`admission`] are what any node does, as pure functions; [`simulated`] are nodes without a container
//! runtime: their containers do what their commands and annotations say that they would.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admission;
pub mod pod;
pub mod resources;
pub mod server;
pub mod simulated;
