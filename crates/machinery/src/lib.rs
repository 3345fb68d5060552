//! What Kubernetes objects are made of, without IO, clock or randomness: values and their schema, codecs, selectors,
//! quantities, patches, managed fields, `Status`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod changes;
pub mod decode;
pub mod field;
pub mod host;
pub mod json;
pub mod managed;
pub mod names;
pub mod patch;
pub mod pem;
pub mod protobuf;
pub mod quantity;
pub mod review;
pub mod schema;
pub mod selector;
mod short_text;
pub mod status;
pub mod time;
pub mod value;
pub mod warnings;
pub mod yaml;

pub use schema::{Field, Shape, Type, TypeRef};
pub use status::{GroupResource, Status};
pub use value::{Map, Text, Value};
