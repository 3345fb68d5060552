//! What a request asks for: the path taken apart and the query's options.

mod info;
mod options;

pub use info::{RequestInfo, Target};
pub use options::{FieldValidation, Options, VersionMatch, number};
