//! The names of pools, attributes, capacities and shares.

use rkube_machinery::field::{Errors, Path, quote};
use rkube_machinery::names;

use crate::core::pod_spec::checks::{dns_subdomain, each};
use crate::core::pod_spec::validate_driver_name;

pub(super) const POOL_MAX_BYTES: usize = 253;
const IDENTIFIER_MAX_BYTES: usize = 32;
/// A domain, a slash and an identifier.
pub(super) const QUALIFIED_MAX_BYTES: usize = 63 + 1 + IDENTIFIER_MAX_BYTES;
const UUID_BYTES: usize = 36;

pub(super) fn pool(path: Path<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > POOL_MAX_BYTES {
        errors.too_long(path, POOL_MAX_BYTES);
    }
    for part in name.split('/') {
        dns_subdomain(path, part, errors);
    }
}

/// An identifier, with or without a domain before it. Names with two slashes pass, as they do upstream.
pub(super) fn qualified(path: Path<'_>, name: &str, errors: &mut Errors) {
    let Some((domain, rest)) = name.split_once('/') else { return identifier(path, name, errors) };
    if rest.contains('/') {
        return;
    }
    if domain.is_empty() {
        errors.invalid(path, "", "the domain must not be empty");
    } else {
        validate_driver_name(path, domain, errors);
    }
    if rest.is_empty() {
        errors.invalid(path, "", "the name must not be empty");
    } else {
        identifier(path, rest, errors);
    }
}

/// [`qualified`], with a domain.
pub(super) fn fully_qualified(path: Path<'_>, name: &str, errors: &mut Errors) {
    qualified(path, name, errors);
    if !name.contains('/') {
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn identifier(path: Path<'_>, name: &str, errors: &mut Errors) {
    if name.len() > IDENTIFIER_MAX_BYTES {
        errors.too_long(path, IDENTIFIER_MAX_BYTES);
    }
    each(path, name, names::c_identifier(name), errors);
}

pub(super) fn label_value(path: Path<'_>, value: &str, errors: &mut Errors) {
    each(path, value, names::label_value(value), errors);
}

/// A UUID in its usual form, in small letters.
pub(super) fn uuid(path: Path<'_>, text: &str, errors: &mut Errors) {
    if let Err(words) = check_uuid(text) {
        errors.invalid(path, text, format!("error validating uid: {words}"));
    } else if text.len() != UUID_BYTES || text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        let words = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase \
                     hexadecimal characters";
        errors.invalid(path, text, words);
    }
}

/// Any form of UUID: plain, with a prefix, in brackets, without dashes.
fn check_uuid(text: &str) -> Result<(), String> {
    const PREFIX: &str = "urn:uuid:";
    const BAD: &str = "invalid UUID format";
    let bytes = text.as_bytes();
    let plain = match bytes.len() {
        UUID_BYTES => bytes,
        45 => {
            let (prefix, rest) = bytes.split_at(PREFIX.len());
            if !prefix.eq_ignore_ascii_case(PREFIX.as_bytes()) {
                let shown = quote(&String::from_utf8_lossy(prefix));
                return Err(format!("invalid urn prefix: {shown}"));
            }
            rest
        }
        38 if bytes[0] == b'{' && bytes[37] == b'}' => &bytes[1..37],
        38 => return Err("invalid bracketed UUID format".to_owned()),
        32 => return bytes.iter().all(u8::is_ascii_hexdigit).then_some(()).ok_or_else(|| BAD.to_owned()),
        other => return Err(format!("invalid UUID length: {other}")),
    };
    let fits = |(index, byte): (usize, &u8)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    plain.iter().enumerate().all(fits).then_some(()).ok_or_else(|| BAD.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(check: fn(Path<'_>, &str, &mut Errors), text: &str) -> usize {
        let mut errors = Errors::new();
        check(Path::new("x"), text, &mut errors);
        errors.len()
    }

    #[test]
    fn names_are_checked() {
        for (name, count) in [("a_b", 0), ("d.io/a", 0), ("/a", 1), ("d.io/", 1), ("a/b/c", 0), ("1", 1), ("/", 2)] {
            assert_eq!(wrong(qualified, name), count, "{name}");
        }
        for (name, count) in [("", 1), ("a/b", 0), ("a//b", 1), ("A", 1)] {
            assert_eq!(wrong(pool, name), count, "{name}");
        }
        let id = "8c2bdf4e-0f6e-4f7d-8a1c-2b1d6f0a9c3e";
        for (text, count) in [
            (id.to_owned(), 0),
            (id.to_uppercase(), 1),
            (format!("{{{id}}}"), 1),
            (format!("urn:uuid:{id}"), 1),
            (id.replace('-', ""), 1),
            (id.replace('-', "0"), 1),
            (String::new(), 1),
        ] {
            assert_eq!(wrong(uuid, &text), count, "{text}");
        }
    }
}
