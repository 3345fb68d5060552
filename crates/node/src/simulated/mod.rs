//! Nodes that run nothing: they register, renew leases, take pods through their lives and say what a kubelet would.

pub mod behaviour;
mod commands;
pub mod containers;
mod ids;
pub mod images;
#[cfg(test)]
mod life_tests;
