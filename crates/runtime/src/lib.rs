//! What runs containers on a node.
//!
//! [`api`] is what a kubelet asks of a runtime, in the shape of the Container Runtime Interface: sandboxes, containers,
//! images, streams. Who implements it may live in this process or behind a socket: nothing in it is tied to either.
//!
//! [`embedded`] is the implementation that needs nothing else installed. [`images`] is what it makes containers of: the
//! store of images on this node, and root directories. Behind each pod stands a [`shim`], a process of its own; how one gets
//! from it into a container is in [`launch`], and what that may use in [`cgroups`].
//!
//! What it does not do: it knows no Pods and no API server. Volumes are paths, environment is strings, and what a pod wants
//! of either was worked out before.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod api;
pub mod cgroups;
pub mod embedded;
pub mod images;
pub mod launch;
mod remove_tree;
mod seccomp;
pub mod shim;
mod sys;

pub use remove_tree::remove_tree;
