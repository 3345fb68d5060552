//! What runs containers on a node.
//!
//! [`api`] is what a kubelet asks of a runtime, in the shape of the Container Runtime Interface: sandboxes, containers,
//! images, streams. Who implements it may live in this process or behind a socket: nothing in it is tied to either.
//!
//! [`images`] is what the embedded runtime makes containers of: the store of images on this node, and root directories.
//!
//! What it does not do: it knows no Pods and no API server. Volumes are paths, environment is strings, and what a pod wants
//! of either was worked out before.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod api;
pub mod images;
