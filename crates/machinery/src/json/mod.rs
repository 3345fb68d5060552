//! JSON in and out, as Go's `encoding/json` reads and writes it.
//!
//! [`parse`] gives a raw document: entries in document order, repeated keys kept, so that `decode` can name them.
//! [`write`] gives compact text with Go's HTML-safe escapes; [`write_pretty`] indents for people.

mod parse;
mod parts;
mod scan;
mod write;

pub use parse::{DEPTH_MAX, SyntaxError, parse, parse_exact, parse_stored};
pub(crate) use parse::{Parser, plain_end};
pub use parts::parse_parts;
pub use scan::Scan;
pub use write::{number, to_string, write, write_escaped, write_float, write_indented, write_pretty, write_string};
