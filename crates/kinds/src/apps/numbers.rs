//! Checks of numbers: counts that are not negative, counts that stay below others, numbers that may be percentages.

use rkube_machinery::field::{Errors, Path};
use rkube_machinery::{Value, names};

const NEGATIVE: &str = "must be greater than or equal to 0";

/// The fields of the object that may not be negative; absent ones are not.
pub(crate) fn validate_not_negative(path: Path<'_>, object: &Value, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        validate_number(path.child(field), object.int(field), errors);
    }
}

pub(crate) fn validate_number(path: Path<'_>, number: i64, errors: &mut Errors) {
    if number < 0 {
        errors.invalid(path, number, NEGATIVE);
    }
}

/// A part of a status' replicas cannot be more than all of them.
pub(crate) fn validate_parts(path: Path<'_>, status: &Value, parts: &[&str], errors: &mut Errors) {
    for part in parts {
        if status.int(part) > status.int("replicas") {
            errors.invalid(path.child(part), status.int(part), "cannot be greater than status.replicas");
        }
    }
}

/// Replicas that are available are ready too.
pub(crate) fn validate_available(path: Path<'_>, status: &Value, words: &str, errors: &mut Errors) {
    let available = status.int("availableReplicas");
    if available > status.int("readyReplicas") {
        errors.invalid(path.child("availableReplicas"), available, words);
    }
}

/// The count of collisions only grows; once there, it stays.
pub(crate) fn validate_collisions(path: Path<'_>, status: &Value, old: &Value, errors: &mut Errors) {
    const FIELD: &str = "collisionCount";
    let gone = !status.has(FIELD) && old.has(FIELD);
    let lower = status.has(FIELD) && old.has(FIELD) && status.int(FIELD) < old.int(FIELD);
    if gone || lower {
        errors.invalid(path.child(FIELD), status.int(FIELD), "cannot be decremented");
    }
}

/// A number that is not negative, or a percentage.
pub(crate) fn validate_count_or_percent(path: Path<'_>, value: &Value, errors: &mut Errors) {
    match value {
        Value::String(text) => {
            for message in names::percent(text) {
                errors.invalid(path, text.as_str(), message);
            }
        }
        other => validate_number(path, other.as_int().unwrap_or(0), errors),
    }
}

pub(crate) fn validate_at_most_all(path: Path<'_>, value: &Value, errors: &mut Errors) {
    if percent(value).is_some_and(|percent| percent > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

/// The number, with or without a percent sign; a text that is neither counts as zero.
pub(crate) fn count_or_percent(value: &Value) -> i64 {
    percent(value).unwrap_or_else(|| match value {
        Value::String(text) => clamped(text),
        other => other.as_int().unwrap_or(0),
    })
}

fn percent(value: &Value) -> Option<i64> {
    let Value::String(text) = value else { return None };
    let digits = text.strip_suffix('%')?;
    let right = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    right.then(|| clamped(digits))
}

/// The number in the text; the nearest one that fits where it is too large.
fn clamped(text: &str) -> i64 {
    use std::num::IntErrorKind;
    match text.parse::<i64>() {
        Ok(number) => number,
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => i64::MAX,
            IntErrorKind::NegOverflow => i64::MIN,
            _ => 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_percentages() {
        for (text, number, large) in [
            ("25%", 25, false),
            ("0%", 0, false),
            ("101%", 101, true),
            ("99999999999999999999%", i64::MAX, true),
            ("5", 5, false),
            ("-1", -1, false),
            ("%", 0, false),
            ("x", 0, false),
            ("+5%", 0, false),
        ] {
            let value = Value::from(text);
            assert_eq!(count_or_percent(&value), number, "{text}");
            let mut errors = Errors::new();
            validate_at_most_all(Path::ROOT, &value, &mut errors);
            assert_eq!(!errors.is_empty(), large, "{text}");
        }
        assert_eq!(count_or_percent(&Value::Int(3)), 3);
        assert_eq!(count_or_percent(&Value::Null), 0);
    }
}
