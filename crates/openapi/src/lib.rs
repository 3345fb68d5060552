//! OpenAPI documents from the table of kinds and the schema table: v3 per group version, v2 as a whole.
//!
//! Pure functions. Nothing is built before somebody asks, and nothing is kept: the API server caches the bytes that
//! it hands out. Descriptions of types and fields come from `k8s-openapi`, everything else from our own tables.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod definitions;
mod descriptions;
mod enums;
mod gnostic;
mod names;
mod operations;
mod parameters;
mod roots;
mod v2;
mod v3;

pub use descriptions::field_description;
pub use gnostic::{V2_PROTOBUF_ACCEPTED, V2_PROTOBUF_CONTENT_TYPE, v2_protobuf};
pub use v2::v2_document;
pub use v3::{v3_document, v3_index, v3_paths};

#[cfg(test)]
mod tests;
