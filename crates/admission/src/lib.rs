//! Admission: what may change or refuse a write before it is stored.
//!
//! [`Attributes`] say what is to be written; [`Plugin`]s look at them, first all that may change the object, then all that
//! may refuse it, in the order of the [`Chain`]. A plugin is a file in [`plugins`] and a line in [`plugins::all`].
//!
//! [`webhooks`] are two plugins that ask others, as their configurations say. [`quota`] is the last of all, and charges quotas.
//!
//! Every write comes by: objects, subresources, reviews, connections, and what the server writes itself. Plugins may
//! wait; those that do not cost no more than a call.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attributes;
mod chain;
mod objects;
mod plugin;
pub mod plugins;
pub mod quota;
pub mod webhooks;

pub use attributes::{Attributes, ObjectKind, Operation, OperationOptions, Rounds};
pub use chain::Chain;
pub use objects::Objects;
pub use plugin::{Guardian, Immediate, ImmediatePlugin, Plugin, Step};
