//! The network of pods on a node.
//!
//! Every pod has a pair of links of its own: `eth0` in the pod, and the other end on the host, with one route to the pod's
//! address. There is no bridge between pods: whatever a pod sends is routed by the host, so that rules see it (with a bridge
//! that depends on `bridge-nf-call-iptables`, which needs a module), hairpin needs nothing, and no pod speaks under another
//! one's address. Neighbours are set on both ends, so that nobody asks with ARP.
//!
//! The gateway's address is on an interface without ports (`rkube0`). The API server listens there too, and its service
//! address leads there.
//!
//! What holds: everything that was made can be found again after a crash at any moment, by the records in the state directory
//! and the names of links; what the records say is what the rules say, or the rules are made again; [`Network::tear_down`]
//! leaves nothing behind. No thread but those made for it ever leaves its network namespace, and no program of the host is run.
//!
//! What it does not do: services other than the API's own, network policy, and ways to other nodes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod claim;
mod config;
mod error;
mod firewall;
/// For tests, which look at the kernel's side.
#[doc(hidden)]
pub mod netlink;
mod network;
mod node;
mod pool;
mod ports;
mod reaper;
mod records;
mod rules;
mod sandbox;
mod sysctl;

pub use config::{Api, Config};
pub use network::Network;
