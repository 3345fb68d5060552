//! The toolkit for controllers. The built-in controllers of rkube are written with it, in the server's own process; yours
//! can be, in a process of their own, against any cluster.
//!
//! ```no_run
//! use rkube_operator::k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
//! use rkube_operator::kube::api::PostParams;
//! use rkube_operator::{Action, Context, Controller, Error, Key, Operator, Watch};
//!
//! /// Gives every namespace a service account `robot`.
//! async fn reconcile(context: Context, key: Key) -> Result<Action, Error> {
//!     let robot = Key { namespace: key.name.clone(), name: "robot".to_owned() };
//!     if context.get::<Namespace>(&key).await.is_none() || context.get::<ServiceAccount>(&robot).await.is_some() {
//!         return Ok(Action::done());
//!     }
//!     let mut account = ServiceAccount::default();
//!     account.metadata.name = Some(robot.name);
//!     context.api::<ServiceAccount>(&robot.namespace).create(&PostParams::default(), &account).await?;
//!     Ok(Action::wrote())
//! }
//!
//! # async fn main_() -> Result<(), Error> {
//! let mut operator = Operator::connect("robots").await?;
//! let accounts = Watch::<ServiceAccount>::objects().name("robot");
//! let of_namespace = |namespace: &str| Key { namespace: String::new(), name: namespace.to_owned() };
//! let controller = Controller::<Namespace>::new("robots")
//!     .watches(accounts, move |change| vec![of_namespace(&change.key.namespace)]);
//! operator.controller(controller, reconcile);
//! operator.serve("127.0.0.1:8080").await?;
//! operator.run().await
//! # }
//! ```
//!
//! A controller watches through informers, puts keys into its queue, and reconciles one key at a time: it reads its
//! caches, plans (best with a pure function), and acts through the API. Types and client are those of [`kube`].
//!
//! - [`Operator`]: the one place that holds client, caches and controllers, and runs them until the process is to end.
//!   [`manager`] is the part of it that supervises.
//! - [`controller`]: what is watched, and which changes lead to which keys: [`Controller`], [`Watch`], [`Predicate`].
//! - [`reconcile`]: what becomes of a key: [`Action`], [`Error`], timeouts, conflicts. [`queue`]: when it is worked on.
//! - [`informer`]: one cache per kind and selection for all controllers, of whole objects or of views; [`Index`]es.
//!   [`source`]: where they come from: over the [`network`], or from the server in whose process this is.
//! - [`leader_election`]: of several processes one works ([`LeaderElection`]); [`fence`]: nobody else sends anything.
//! - [`written`]: why a reconcile never sees a cache without what it wrote before.
//! - [`process`]: what a test stops and wakes.
//! - [`finalizer`], [`ownership`], [`desired`], [`conditions`], [`events`]: what most controllers need.
//!
//! What holds: of one key there is never more than one reconcile under way. Nothing that fails, hangs, panics or fights
//! over an object does so at full speed, or holds up other keys. Whatever was missed is made good by a list. Everything
//! has a bound, named where it is.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod busy;
pub mod conditions;
pub mod controller;
pub mod desired;
mod error;
pub mod events;
pub mod fence;
pub mod finalizer;
pub mod informer;
pub mod leader_election;
pub mod manager;
pub mod metrics;
pub mod network;
pub mod operator;
pub mod ownership;
mod panic;
pub mod process;
pub mod queue;
pub mod reconcile;
pub mod source;
mod stats;
#[cfg(test)]
mod testing;
pub mod written;

pub use controller::{Context, Controller, Environment, Predicate, Transform, Trigger, Watch};
pub use error::Error;
pub use fence::Fence;
pub use informer::{ByOwner, Caches, Change, Index, Informer, Key, Labeled, Revision};
pub use k8s_openapi;
pub use kube;
pub use leader_election::{LeaderElection, Leadership};
pub use manager::{Health, Manager};
pub use metrics::Metrics;
pub use network::NetworkSource;
pub use operator::Operator;
pub use queue::{Options as QueueOptions, Priority, Queue};
pub use reconcile::{Action, Outcome, run};
pub use source::{Discovered, Event, Item, Selection, Source};
pub use written::ReadYourWrites;
