//! What a request asks for: the path taken apart and the query's options.

mod info;
mod on_authenticated;
mod options;

pub use info::{RequestInfo, Target};
pub use on_authenticated::OnAuthenticated;
pub use options::{FieldValidation, Options, VersionMatch, number};
