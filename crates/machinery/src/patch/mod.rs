//! The three ways to change an object by a document that describes the change: [`json_patch`] (RFC 6902),
//! [`merge_patch`] (RFC 7386) and [`strategic`] merge patches, which know from the schema how lists are merged.
//!
//! All three work on the object in its versioned JSON form; the caller decodes, defaults and validates the result.

pub mod go_text;
pub mod json_patch;
pub mod merge_patch;
pub mod strategic;

use crate::decode::{Complaints, STRICT_ERRORS_MAX};
use crate::status::{Details, Status};
use crate::value::{Map, Value};

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

/// Leaves the last of fields that stand twice in an object; says, as strict reading does, which those were.
pub fn take_last(patch: &mut Value) -> Vec<String> {
    let mut complaints = Vec::new();
    take_last_below(patch, &mut String::new(), &mut complaints, &mut Complaints::default());
    complaints
}

fn take_last_below(value: &mut Value, path: &mut String, complaints: &mut Vec<String>, known: &mut Complaints) {
    let length = path.len();
    match value {
        Value::Object(map) => {
            if !map.keys().zip(map.keys().skip(1)).all(|(left, right)| left < right) {
                let mut seen = std::collections::HashSet::with_capacity(map.len());
                let mut repeats = false;
                for key in map.keys() {
                    if seen.insert(key.clone()) {
                        continue;
                    }
                    repeats = true;
                    if complaints.len() >= STRICT_ERRORS_MAX || known.is_full() {
                        continue;
                    }
                    let dot = if path.is_empty() { "" } else { "." };
                    let complaint = format!("duplicate field {}", crate::field::quote(&format!("{path}{dot}{key}")));
                    if known.add(&complaint) {
                        complaints.push(complaint);
                    }
                }
                if repeats {
                    *map = Map::sorted(std::mem::take(map).into_entries());
                }
            }
            for (key, value) in map.iter_mut() {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                take_last_below(value, path, complaints, known);
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push_str(&format!("[{index}]"));
                take_last_below(item, path, complaints, known);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// What JSON calls the value, as Go's decoding errors word it.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Written(text) if !text.starts_with('{') => "number",
        Value::Object(_) | Value::Written(_) => "object",
    }
}

#[cfg(test)]
pub(crate) mod generators;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_fields_that_stand_twice_the_last_counts() {
        let mut patch = crate::json::parse(br#"{"a":1,"b":[{"c":1,"c":2}],"a":{"d":1,"d":3}}"#).unwrap();
        let complaints = take_last(&mut patch);
        assert_eq!(complaints, [r#"duplicate field "a""#, r#"duplicate field "a.d""#, r#"duplicate field "b[0].c""#]);
        assert_eq!(crate::json::to_string(&patch), r#"{"a":{"d":3},"b":[{"c":2}]}"#);
        assert!(take_last(&mut patch).is_empty());
    }

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
