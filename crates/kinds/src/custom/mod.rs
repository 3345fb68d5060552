//! Custom resources: what their objects must be like beyond the shape that `machinery::schema::structural` gives them.
//!
//! [`Validator`] checks values, [`validate_embedded`] the metadata of embedded objects and [`validate_lists`] that sets
//! and lists of structs repeat nothing. Upstream runs them in this order, and CEL [`rules`] after them. [`review`] is what
//! webhooks are asked that convert them, and what their answers are worth.

mod embedded;
pub mod formats;
mod kind;
mod lists;
mod patterns;
mod repeats;
pub mod review;
pub mod rules;
mod validate;

pub use embedded::validate_embedded;
pub use kind::{Definition, DefinitionError};
pub use lists::validate_lists;
pub use validate::Validator;

use std::cell::RefCell;
use std::collections::HashMap;

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};
use rkube_machinery::schema::structural;

/// All that keeps an `openAPIV3Schema` from being structural.
pub fn check_structural(document: &Value, path: Path<'_>) -> Errors {
    // The same few patterns stand in large schemas again and again, and compiling one takes its time.
    let known: RefCell<HashMap<String, Option<String>>> = RefCell::default();
    structural::check(document, path, &|pattern| {
        let fault = || rkube_cel::compile_pattern(pattern).err();
        known.borrow_mut().entry(pattern.to_owned()).or_insert_with(fault).clone()
    })
}
