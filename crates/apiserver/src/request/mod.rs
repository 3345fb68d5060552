//! What a request asks for: the path and the query taken apart, and the options of each verb.

mod info;
mod on_authenticated;
mod options;
mod query;

pub use info::{RequestInfo, Target, selected_name};
pub use on_authenticated::{HeldPlace, OfThisProcess, OnAuthenticated, Untrusted};
pub use options::{DeleteOptions, FieldValidation, ListOptions, Preconditions, VersionMatch, WriteOptions};
pub use query::{Query, number};
