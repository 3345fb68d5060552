//! Nodes: what becomes of pods that are bound to one.
//!
//! [`pod`] and [`admission`] are what any node does, as pure functions; [`real`] is a node with a container runtime;
//! [`simulated`] are nodes without one: their containers do what their commands and annotations say that they would.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod admission;
mod api;
mod digest;
pub mod pod;
pub mod real;
mod registration;
pub mod resources;
pub mod server;
pub mod simulated;
mod views;
