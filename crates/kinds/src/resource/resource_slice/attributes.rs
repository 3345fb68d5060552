//! What a device is like: a number, a truth, a text or a version under a name.

use rkube_machinery::Value;
use rkube_machinery::field::{BadValue, Errors, Path};

use crate::core::pod_spec::go_form;

const VALUE_MAX_BYTES: usize = 64;

pub(super) fn validate(path: Path<'_>, attribute: &Value, errors: &mut Errors) {
    const ONE: &str = "exactly one value must be specified";
    if attribute.has("string") && attribute.str("string").len() > VALUE_MAX_BYTES {
        errors.too_long(path.child("string"), VALUE_MAX_BYTES);
    }
    if attribute.has("version") {
        let version = attribute.str("version");
        if !is_version(version) {
            let words = "must be a string compatible with semver.org spec 2.0.0";
            errors.invalid(path.child("version"), version, words);
        }
        if version.len() > VALUE_MAX_BYTES {
            errors.too_long(path.child("version"), VALUE_MAX_BYTES);
        }
    }
    let count = ["bool", "int", "string", "version"].iter().filter(|field| attribute.has(field)).count();
    match count {
        0 => errors.invalid(path, "", ONE),
        1 => {}
        _ => errors.invalid(path, BadValue::Text(go_form::go_json("DeviceAttribute", attribute)), ONE),
    }
}

/// Three numbers, what comes before a release after a dash, what names a build after a plus.
fn is_version(text: &str) -> bool {
    let letters =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, early) = rest.split_once('-').map_or((rest, None), |(core, early)| (core, Some(early)));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && early.is_none_or(|early| early.split('.').all(|part| letters(part) && (!digits(part) || number(part))))
        && build.is_none_or(|build| build.split('.').all(letters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let table = [
            ("1.2.3", true),
            ("0.0.0-alpha.1+b-1.x", true),
            ("1.2.3-0a", true),
            ("1.2.3+-", true),
            ("1.2", false),
            ("01.2.3", false),
            ("1.2.3-01", false),
            ("1.2.3-", false),
            ("1.2.3+", false),
            ("v1.2.3", false),
            ("", false),
        ];
        for (text, fits) in table {
            assert_eq!(is_version(text), fits, "{text}");
        }
    }
}
