//! What runs containers on a node.
//!
//! [`api`] is what a kubelet asks of a runtime, in the shape of the Container Runtime Interface: sandboxes, containers,
//! images, streams. Who implements it may live in this process or behind a socket: nothing in it is tied to either.
//!
//! What it does not do: it knows no Pods and no API server. Volumes are paths, environment is strings, and what a pod wants
//! of either was worked out before.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod api;
pub mod cgroups;
pub mod embedded;
pub mod launch;
mod seccomp;
pub mod shim;
mod sys;
