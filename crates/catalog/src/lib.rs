//! What is served: kinds that come and go while the server runs, each with its watch cache.
//!
//! A [`Catalog`] is asked for a [`Snapshot`] once per request, and the request lives with that to its end. What changes
//! makes a new snapshot of the next generation. Objects lie in [`Resource`]s, which one watch on the store feeds; the
//! cost of a change in the store depends on the change, not on how many kinds there are.
//!
//! A version of a custom resource that is not the stored one has a resource of its own, which is filled by conversion
//! when somebody reads it, and dropped when nobody does. Conversion may wait and fail; writes never wait for it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod cache;
mod catalog;
#[cfg(test)]
mod conversion_tests;
mod conversions;
mod derived;
mod event;
mod gate;
mod label_marks;
mod marks;
mod object;
mod resource;
mod ring;
mod served;
#[cfg(test)]
mod tests;
mod versions;

pub use cache::{Cache, Error};
pub use catalog::{Catalog, Snapshot};
pub use conversions::Conversions;
pub use derived::IDLE_MAX;
pub use event::{CachedEvent, Entry, EventType};
pub use gate::{Gate, Inside};
pub use label_marks::LabelMarks;
pub use object::Object;
pub use resource::{Gone, Items, Resource, Subscription};
pub use ring::{Limit, Taken};
pub use served::Served;
pub use versions::{Converted, Converter};
