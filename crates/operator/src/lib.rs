//! The toolkit for controllers: a [`manager`] that supervises them, [`source`]s of objects, shared [`informer`]s, a work
//! [`queue`], the [`reconcile`] loop, and [`events`] about objects.
//!
//! A controller watches through informers, puts keys into its queue, and reconciles one key at a time: it reads its
//! caches, plans with a pure function, and acts through the API. It works the same in the server's process and in one of
//! its own: a [`kube::Client`] and a [`Source`] are all that it gets.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod conditions;
pub mod controller;
pub mod desired;
mod error;
pub mod events;
pub mod finalizer;
pub mod informer;
pub mod manager;
pub mod metrics;
pub mod network;
pub mod operator;
pub mod ownership;
mod panic;
pub mod queue;
pub mod reconcile;
pub mod source;
#[cfg(test)]
mod testing;
pub mod written;

pub use controller::{Context, Controller, Environment, Predicate, Transform, Trigger, Watch};
pub use error::Error;
pub use informer::{ByOwner, Caches, Change, Index, Informer, Key, Labeled};
pub use k8s_openapi;
pub use kube;
pub use manager::{Health, Manager};
pub use metrics::Metrics;
pub use network::NetworkSource;
pub use operator::Operator;
pub use queue::{Priority, Queue};
pub use reconcile::{Action, Outcome, run};
pub use source::{Discovered, Event, Item, Selection, Source};
pub use written::ReadYourWrites;
