//! A whole cluster in a test, in the test's own process or as the real binary.
//!
//! [`TestCluster`] is API server, controllers, scheduler and simulated nodes in the process of the test, without sockets
//! and files, in virtual time if it is asked for: the test of a controller needs nothing else, and takes milliseconds.
//!
//! With the feature `processes`, `Rkube` runs the real binary in a process of its own, on a free port and a directory that
//! vanishes with it. A `Tool` is somebody else's program (kubectl, helm, python, a Go program) pointed at it. Whatever a
//! test starts ends with the test: each process leads a group that is killed when its handle is dropped. Where the tools
//! are, `cargo xtask test` says in environment variables (see `tools`). A tool that is not there fails the test if `CI` is
//! `true`, else the test is skipped with a notice.
//!
//! With the feature `images`, `images` makes images of anything, and of a program that does what tests of a node need.

#[cfg(feature = "cluster")]
mod cluster;
#[cfg(feature = "processes")]
mod etcd;
#[cfg(feature = "cluster")]
mod faults;
#[cfg(feature = "cluster")]
mod host;
#[cfg(feature = "images")]
pub mod images;
#[cfg(feature = "processes")]
mod machine;
#[cfg(feature = "processes")]
mod process;
#[cfg(feature = "processes")]
mod rkube;
#[cfg(feature = "virtual-time")]
mod simulation;
#[cfg(feature = "processes")]
pub mod tools;
#[cfg(feature = "processes")]
mod wait;

#[cfg(feature = "cluster")]
pub use cluster::{Builder, TestCluster};
#[cfg(feature = "processes")]
pub use etcd::Etcd;
#[cfg(feature = "cluster")]
pub use faults::{Chaos, Faults, Observer, Safeguard, Seen, Writer};
#[cfg(feature = "cluster")]
pub use host::fresh_seed;
#[cfg(feature = "processes")]
pub use process::{Finished, Process};
#[cfg(feature = "processes")]
pub use rkube::Rkube;
#[cfg(feature = "cluster")]
pub use rkube_cluster::parts::Settings;
#[cfg(feature = "virtual-time")]
pub use simulation::{Report, Simulation};
#[cfg(feature = "processes")]
pub use tools::Tool;
#[cfg(feature = "processes")]
pub use wait::eventually;

/// Nothing that a test waits for takes so long.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
