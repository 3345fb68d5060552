//! The kinds of the `apps` group: what keeps pods running from a template.

pub(crate) mod cells;
pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub(crate) mod numbers;
pub mod replica_set;
pub(crate) mod selector;
pub mod stateful_set;
pub(crate) mod template;
