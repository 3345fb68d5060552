//! OpenAPI documents from kinds: v3 per group version, v2 as a whole.
//!
//! Pure functions. Nothing is built before somebody asks, and nothing is kept: the API server keeps the [`Part`]s of
//! which it puts [`document`]s together. Descriptions of built-in types and fields come from `k8s-openapi`, those of
//! custom resources from their definitions, everything else from our own tables.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod custom;
mod definitions;
mod descriptions;
mod enums;
mod gnostic;
mod hash;
mod names;
mod operations;
mod parameters;
mod part;
mod v2;
mod v3;

pub use custom::{Custom, custom_hash};
pub use descriptions::field_description;
pub use gnostic::{V2_PROTOBUF_ACCEPTED, V2_PROTOBUF_CONTENT_TYPE};
pub use names::root_of;
pub use part::{Form, Frame, Part, document, mark};
pub use v2::v2_part;
pub use v3::{v3_index, v3_part, v3_paths};

#[cfg(test)]
mod tests;
