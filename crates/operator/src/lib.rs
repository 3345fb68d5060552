//! The toolkit for controllers: shared [`informer`]s, a work [`queue`], and the [`reconcile`] loop.
//!
//! A controller watches through informers, puts keys into its queue, and reconciles one key at a time: it reads its
//! caches, plans with a pure function, and acts through the API. It works the same in the server's process and in one of
//! its own: [`kube::Client`] is all that it gets.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod informer;
pub mod queue;
pub mod reconcile;

pub use informer::{Informer, Key};
pub use kube;
pub use queue::Queue;
pub use reconcile::{Outcome, run};
