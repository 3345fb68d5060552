//! A whole control plane in a process: the API server, and beside it its parts (controllers, and whatever else is in
//! [`parts`]), which call it without a socket on the same road as everybody else. The binary starts one, and so does a
//! test.
//!
//! A part is a file in [`parts`]: a function that gets a [`Host`] and returns the [`Manager`](rkube_operator::Manager) of
//! what it started. Parts know nothing of each other.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod certificates;
mod control_plane;
mod host;
mod in_process;
pub mod kubeconfig;
pub mod parts;

pub use control_plane::{ControlPlane, Error, Listener};
pub use host::{Host, Seams, Transport, component_user, node_user, service_account};
pub use parts::{Controllers, Election, Part, RealNode, Scheduler, SimulatedNodes};
