//! A whole rkube in a test, and the clients that people use to talk to it.
//!
//! [`Rkube`] runs the real binary in a process of its own, on a free port and a directory that vanishes with it. A
//! [`Tool`] is somebody else's program (kubectl, helm, python, a Go program) pointed at it. Whatever a test starts ends
//! with the test: each process leads a group that is killed when its handle is dropped.
//!
//! Where the tools are, `cargo xtask test` says in environment variables (see [`tools`]). A tool that is not there
//! fails the test if `CI` is `true`, else the test is skipped with a notice.

mod etcd;
mod process;
mod rkube;
pub mod tools;
mod wait;

pub use etcd::Etcd;
pub use process::{Finished, Process};
pub use rkube::Rkube;
pub use tools::Tool;
pub use wait::eventually;

/// Nothing that a test waits for takes so long.
pub const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
