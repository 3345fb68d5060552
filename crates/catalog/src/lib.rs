//! What is served: kinds that come and go while the server runs, each with its watch cache.
//!
//! A [`Catalog`] is asked for a [`Snapshot`] once per request, and the request lives with that to its end. What changes
//! makes a new snapshot of the next generation. Objects lie in [`Resource`]s, which one watch on the store feeds; the
//! cost of a change in the store depends on the change, not on how many kinds there are.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod catalog;
mod gate;
mod marks;
mod object;
mod resource;
mod ring;
mod served;
#[cfg(test)]
mod tests;

pub use cache::{Cache, Error};
pub use catalog::{Catalog, Snapshot};
pub use gate::Gate;
pub use object::Object;
pub use resource::{CachedEvent, Change, Entry, Gone, Items, Resource, Subscription};
pub use ring::{Limit, Taken};
pub use served::Served;
