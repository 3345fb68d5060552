//! Bytes, revisions, compare-and-swap, watch, leases.
//!
//! A small strict key-value store behind one contract ([`contract`]) that every backend keeps. It knows nothing
//! of Kubernetes: keys are strings, values are bytes.
//!
//! - [`memory`]: the state machine itself; nothing survives the process.
//! - [`embedded`]: the same state machine over a log on disk. The default.
//! - `etcd`: the same contract over a real etcd (cargo feature `etcd`, on by default).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod contract;
pub mod embedded;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod memory;
#[cfg(any(test, feature = "suite"))]
#[allow(clippy::unwrap_used)]
pub mod suite;

pub use contract::*;
pub use embedded::Embedded;
#[cfg(feature = "etcd")]
pub use etcd::Etcd;
pub use memory::Memory;
