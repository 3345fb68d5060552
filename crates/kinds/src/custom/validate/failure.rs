//! What a walk found, and how it is told to clients.

use rkube_machinery::field::{BadValue, ErrorType, Errors, Path};
use rkube_machinery::schema::structural::Trail;

/// A walk ends where it has found so much: each failure is compared with all before it, and nobody reads more.
pub(super) const FAILURES_MAX: usize = 1_000;

/// Something wrong. Two with the same message count as one.
pub(super) struct Failure {
    message: String,
    /// Where it is; none: the message says so.
    place: Option<String>,
    what: What,
}

pub(super) enum What {
    Required,
    NotSupported { value: BadValue, supported: Vec<String> },
    TooLong { max: i64 },
    TooMany { actual: usize, max: i64 },
    Type(BadValue),
    Invalid(BadValue),
}

impl Failure {
    /// `words` follow the place, as in `spec.a in body should match 'x'`.
    pub(super) fn new(trail: &Trail<'_>, what: What, words: &str) -> Self {
        let place = trail.validator_path();
        Failure { message: format!("{place} in body {words}"), place: Some(place), what }
    }

    pub(super) fn with_message(trail: &Trail<'_>, what: What, message: String) -> Self {
        Failure { message, place: Some(trail.validator_path()), what }
    }

    /// Of the whole object: several schemas together are not fulfilled, or a number is not of its type.
    pub(super) fn of_all(message: String) -> Self {
        Failure { message, place: None, what: What::Invalid("".into()) }
    }

    pub(super) fn wrong_type(trail: &Trail<'_>, expected: &str, value: &str) -> Self {
        let words = format!("must be of type {expected}: {}", rkube_machinery::field::quote(value));
        Failure::new(trail, What::Type(value.into()), &words)
    }

    /// Adds this to the errors of a value at `path`.
    pub(super) fn report(self, path: Path<'_>, errors: &mut Errors) {
        let place = self.place.as_deref().map_or("", |place| place.strip_prefix('.').unwrap_or(place));
        let below;
        let path = if place.is_empty() {
            path
        } else {
            below = path.child(place);
            below
        };
        match self.what {
            What::Required => errors.required(path, ""),
            What::NotSupported { value, supported } => {
                let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
                errors.not_supported(path, value, &supported);
            }
            What::TooLong { max } => match usize::try_from(max) {
                Ok(max) => errors.too_long(path, max),
                Err(_) => errors.push(ErrorType::TooLong, path, None, "value is too long"),
            },
            What::TooMany { actual, max } => match usize::try_from(max) {
                Ok(max) => errors.too_many(path, actual, max),
                Err(_) => {
                    let actual = BadValue::Text(actual.to_string());
                    errors.push(ErrorType::TooMany, path, Some(actual), "has too many items");
                }
            },
            What::Type(value) => errors.type_invalid(path, value, self.message),
            What::Invalid(value) => errors.invalid(path, value, self.message),
        }
    }
}

/// The result of one schema for one value.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) failed: bool,
    /// Empty in a quiet walk.
    pub(super) failures: Vec<Failure>,
    /// How many checks were right: of several alternatives that all fail, the one with the most is told.
    pub(super) matches: usize,
}

impl Outcome {
    pub(super) fn add(&mut self, failure: Failure) {
        self.failed = true;
        let room = self.failures.len() < FAILURES_MAX;
        if room && self.failures.iter().all(|known| known.message != failure.message) {
            self.failures.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.failed |= other.failed;
        self.matches += other.matches;
        if self.failures.is_empty() {
            self.failures = other.failures;
        } else {
            other.failures.into_iter().for_each(|failure| self.add(failure));
        }
    }
}
