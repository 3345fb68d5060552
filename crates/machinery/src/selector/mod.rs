//! Selectors: which objects a list, a watch or a controller is about.
//!
//! [`labels`] select by labels (`app=web,tier in (a,b)`), [`fields`] by the few fields that a resource offers
//! (`metadata.name=x`). Both come as text in requests; label selectors also as objects in specs.

pub mod fields;
pub mod labels;
mod parser;
pub mod syntax;
