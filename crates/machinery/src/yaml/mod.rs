//! YAML in and out, as `sigs.k8s.io/yaml` reads and writes it: YAML 1.1 scalars (`yes` is true, `017` is 15), merge
//! keys, the first document only; written with sorted keys, two blanks per level and lines folded at column 80.
//!
//! Reading gives what the same document gives as JSON: keys are sorted, whole floats are integers, a repeated key
//! keeps its last value.

mod go_errors;
mod parse;
mod resolve;
mod write;

pub use parse::{Document, Error, parse, parse_document};
pub use write::write;

#[cfg(test)]
mod tests;
