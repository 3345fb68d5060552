//! The three ways to change an object by a document that describes the change: [`json_patch`] (RFC 6902),
//! [`merge_patch`] (RFC 7386) and [`strategic`] merge patches, which know from the schema how lists are merged.
//!
//! All three work on the object in its versioned JSON form; the caller decodes, defaults and validates the result.

mod go_text;
pub mod json_patch;
pub mod merge_patch;
pub mod strategic;

use crate::status::{Details, Status};
use crate::value::Value;

/// Why a patch cannot be applied, told apart by how the API answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400 with this message.
    #[error("{0}")]
    BadRequest(String),
    /// 422 with a message that does not say why; the text is for the log.
    #[error("{0}")]
    Unprocessable(String),
    /// 413 with this message.
    #[error("{0}")]
    TooLarge(String),
    /// 500 with this message and no reason: what Kubernetes makes of errors that it has no answer for.
    #[error("{0}")]
    Unexplained(String),
    /// Kubernetes' server falls over such a patch; its recovery answers 500 in plain text.
    #[error("This request caused apiserver to panic. Look in the logs for details.")]
    Crash,
}

impl From<&PatchError> for Status {
    fn from(error: &PatchError) -> Self {
        match error {
            PatchError::BadRequest(message) => Status::bad_request(message),
            PatchError::TooLarge(message) => Status::request_too_large(message),
            PatchError::Unprocessable(_) => Status {
                code: 422,
                reason: "Invalid",
                message: "the server rejected our request due to an error in our request".to_owned(),
                ..Status::default()
            }
            .with_details(Details::default()),
            PatchError::Unexplained(_) | PatchError::Crash => {
                Status { code: 500, message: error.to_string(), ..Status::default() }
            }
        }
    }
}

/// How strictly a patch's own form is checked before it is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoding {
    /// With field validation `Warn` and `Strict`: the patch must be a list of operations or an object.
    #[default]
    Checked,
    /// With field validation `Ignore`: what can be made sense of is applied.
    Lenient,
}

/// The value as Go's `%v` prints it: `map[a:1 b:[x y]]`. So the API shows a strategic merge patch whose result does not
/// decode.
pub fn printed(value: &Value) -> String {
    go_text::plain(value)
}

/// What JSON calls the value, as Go's decoding errors word it.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod generators;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_statuses() {
        for (error, code, reason, message) in [
            (PatchError::BadRequest("x".into()), 400, "BadRequest", "x"),
            (PatchError::TooLarge("x".into()), 413, "RequestEntityTooLarge", "Request entity too large: x"),
            (
                PatchError::Unprocessable("x".into()),
                422,
                "Invalid",
                "the server rejected our request due to an error in our request",
            ),
            (PatchError::Unexplained("x".into()), 500, "", "x"),
        ] {
            let status = Status::from(&error);
            assert_eq!((status.code, status.reason, status.message.as_str()), (code, reason, message));
        }
    }
}
