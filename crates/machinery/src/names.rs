//! What names, keys and numbers must look like, and the words that say so.
//!
//! Each check answers with the messages of what is wrong, worded as Kubernetes words them; an empty `Vec` (which
//! allocates nothing) where all is well. The checks are matched by hand: they run on every label of every write.

pub mod address;
mod classes;
pub mod generated;
mod version;

pub use version::compare_versions;

use crate::field::{Errors, Path};
use classes::{ALPHANUMERIC, ALPHANUMERIC_DASH, KEY, LOWER, LOWER_DASH, LOWER_DASH_UNDERSCORE};
use classes::{all_of, framed, is_label, is_subdomain};

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_PATTERN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED_NAME_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_NAME_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character";

/// A DNS label: lower case letters, digits and dashes.
pub fn dns1123_label(value: &str) -> Vec<String> {
    if value.len() <= LABEL_MAX && is_label(value.as_bytes()) {
        return Vec::new();
    }
    let mut messages = too_long(value, LABEL_MAX);
    messages.extend(label_pattern(value));
    messages
}

/// DNS labels with dots between them.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_MAX);
    messages.extend(subdomain_pattern(value));
    messages
}

/// [`dns1123_subdomain`] in the words of newer checks, which count bytes.
pub fn long_name(value: &str) -> Vec<String> {
    in_bytes(dns1123_subdomain(value))
}

/// [`long_name`] in which capital letters are fine too.
pub fn long_name_caseless(value: &str) -> Vec<String> {
    in_bytes(dns1123_subdomain_caseless(value))
}

/// [`dns1123_label`] in the words of newer checks, which count bytes.
pub fn short_name(value: &str) -> Vec<String> {
    in_bytes(dns1123_label(value))
}

fn in_bytes(mut messages: Vec<String>) -> Vec<String> {
    for message in &mut messages {
        if message.starts_with("must be no more than ")
            && let Some(limit) = message.strip_suffix(" characters")
        {
            *message = format!("{limit} bytes");
        }
    }
    messages
}

/// [`dns1123_subdomain`] whose labels may carry underscores, as search domains do.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_MAX);
    let fits = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        framed(label.as_bytes(), LOWER, LOWER_DASH_UNDERSCORE)
    };
    if !value.split('.').all(fits) {
        messages.push(pattern_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character",
            r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    messages
}

/// [`dns1123_subdomain`] in which capital letters are fine too.
pub fn dns1123_subdomain_caseless(value: &str) -> Vec<String> {
    let mut messages = too_many_bytes(value, SUBDOMAIN_MAX);
    if !value.split('.').all(|label| framed(label.as_bytes(), ALPHANUMERIC, ALPHANUMERIC_DASH)) {
        messages.push(pattern_error(
            "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an \
             alphanumeric character",
            SUBDOMAIN_PATTERN,
            &["Example.com"],
        ));
    }
    messages
}

/// A DNS label that begins with a letter.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_MAX);
    if !(is_label(value.as_bytes()) && value.as_bytes()[0].is_ascii_lowercase()) {
        messages.push(pattern_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    messages
}

/// `*.` and a subdomain.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_MAX);
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        messages.push(pattern_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist \
             of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["*.example.com"],
        ));
    }
    messages
}

/// The key of a label: a name, with an optional DNS subdomain and a slash before it.
pub fn qualified_name(value: &str) -> Vec<String> {
    if is_qualified_name(value) {
        return Vec::new();
    }
    let mut messages = Vec::new();
    let mut parts = value.split('/');
    let first = parts.next().unwrap_or_default();
    let name = match (parts.next(), parts.next()) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = too_many_bytes(first, SUBDOMAIN_MAX).into_iter().chain(subdomain_pattern(first));
                messages.extend(wrong.map(|message| format!("prefix part {message}")));
            }
            name
        }
        (Some(_), Some(_)) => {
            let pattern = qualified_name_pattern_error();
            let rest = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {pattern} {rest}")];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        messages.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_qualified(name.as_bytes()) {
        messages.push(format!("name part {}", qualified_name_pattern_error()));
    }
    messages
}

/// The value of a label; may be empty.
pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = too_many_bytes(value, LABEL_MAX);
    if !value.is_empty() && !is_qualified(value.as_bytes()) {
        messages.push(pattern_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

/// An identifier in C.
pub fn c_identifier(value: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if starts_without_digit(value) && value.bytes().all(fits) {
        return Vec::new();
    }
    vec![pattern_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric \
         characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The name of an environment variable in its strict form.
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if !(starts_without_digit(value) && all_of(value.as_bytes(), KEY)) {
        messages.push(pattern_error(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and \
             must not start with a digit",
            "[-._a-zA-Z][-._a-zA-Z0-9]*",
            &["my.env-name", "MY_ENV.NAME", "MyEnvName1"],
        ));
    }
    messages.extend(climbs(value));
    messages
}

/// The name of an environment variable as containers may have it: printable ASCII without `=`.
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        return Vec::new();
    }
    let words = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    vec![words.to_owned()]
}

/// A key in the data of a ConfigMap or Secret.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_MAX);
    if value.is_empty() || !all_of(value.as_bytes(), KEY) {
        messages.push(pattern_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    messages.extend(climbs(value));
    messages
}

/// The name of a port as IANA has it, in lower case.
pub fn port_name(value: &str) -> Vec<String> {
    let mut messages = too_long(value, PORT_NAME_MAX);
    let mut add = |wrong: bool, words: &str| {
        if wrong {
            messages.push(words.to_owned());
        }
    };
    let bytes = value.as_bytes();
    add(
        bytes.is_empty() || !all_of(bytes, LOWER_DASH),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    add(!bytes.iter().any(u8::is_ascii_lowercase), "must contain at least one letter (a-z)");
    add(value.contains("--"), "must not contain consecutive hyphens");
    add(value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen");
    messages
}

/// A port that traffic can be sent to.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// A numeric user id as the kernel takes it.
pub fn user_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

pub fn group_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// A number followed by `%`.
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    let words = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![pattern_error(words, "[0-9]+%", &["1%", "93%"])]
}

pub fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    let words = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern_error(words, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// What can stand as one segment of a path.
pub fn path_segment_name(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    path_segment_prefix(value)
}

/// What a segment of a path can begin with.
pub fn path_segment_prefix(value: &str) -> Vec<String> {
    if !value.bytes().any(|byte| matches!(byte, b'/' | b'%')) {
        return Vec::new();
    }
    let found = ["/", "%"].into_iter().filter(|letter| value.contains(letter));
    found.map(|letter| format!("may not contain '{letter}'")).collect()
}

/// A reason in a condition.
pub fn condition_reason(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|byte| word(*byte))
        && bytes.iter().all(|byte| word(*byte) || b",:".contains(byte));
    if fits {
        return Vec::new();
    }
    vec![pattern_error(
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
         characters or '_,:', and must end with an alphanumeric character or '_'",
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )]
}

/// A domain of at least three segments.
pub fn fully_qualified_name(path: Path<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let messages = dns1123_subdomain(name);
    if !messages.is_empty() {
        return errors.invalid(path, name, messages.join(","));
    }
    if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

/// A domain of at least two segments; a dot at the end is fine.
pub fn fully_qualified_domain_name(path: Path<'_>, name: &str, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = dns1123_subdomain(name);
    if !messages.is_empty() {
        return errors.invalid(path, name, messages.join(","));
    }
    if name.split('.').count() < 2 {
        return errors.invalid(path, name, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.') {
        let messages = dns1123_label(label);
        if !messages.is_empty() {
            return errors.invalid(path, label, messages.join(","));
        }
    }
}

/// A domain, a slash and the path of a URL: `acme.io/foo`.
pub fn domain_prefixed_path(path: Path<'_>, value: &str, errors: &mut Errors) {
    if value.is_empty() {
        return errors.required(path, "");
    }
    let Some((host, rest)) = value.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        return errors.invalid(path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    for message in dns1123_subdomain(host) {
        errors.invalid(path, host, message);
    }
    if !is_http_path(rest) {
        errors.invalid(path, rest, pattern_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]));
    }
}

/// A label key that has its domain: `acme.io/foo`.
pub fn domain_prefixed_key(path: Path<'_>, key: &str, errors: &mut Errors) {
    if key.is_empty() {
        return errors.required(path, "");
    }
    let messages = qualified_name(key);
    if messages.is_empty() && !key.contains('/') {
        errors.invalid(path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
    }
    for message in messages {
        errors.invalid(path, key, message);
    }
}

/// Whether the text is made of what the path of a URL may contain, and not empty.
pub fn is_http_path(value: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    !value.is_empty() && value.bytes().all(fits)
}

/// The words for a text that does not match a pattern.
pub fn pattern_error(words: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{words} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn qualified_name_pattern_error() -> String {
    pattern_error(QUALIFIED_NAME_WORDS, QUALIFIED_NAME_PATTERN, &["MyName", "my.name", "123-abc"])
}

fn label_pattern(value: &str) -> Option<String> {
    if is_label(value.as_bytes()) {
        return None;
    }
    if is_subdomain(value) {
        return Some("must not contain dots".to_owned());
    }
    let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                 end with an alphanumeric character";
    Some(pattern_error(words, LABEL_PATTERN, &["my-name", "123-abc"]))
}

fn subdomain_pattern(value: &str) -> Option<String> {
    let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                 must start and end with an alphanumeric character";
    (!is_subdomain(value)).then(|| pattern_error(words, SUBDOMAIN_PATTERN, &["example.com"]))
}

fn too_long(value: &str, max: usize) -> Vec<String> {
    if value.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

fn too_many_bytes(value: &str, max: usize) -> Vec<String> {
    if value.len() > max { vec![format!("must be no more than {max} bytes")] } else { Vec::new() }
}

/// A key that would leave its folder once it is a file's name.
fn climbs(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// Whether [`qualified_name`] has nothing to say.
fn is_qualified_name(value: &str) -> bool {
    let (prefix, name) = match value.bytes().position(|byte| byte == b'/') {
        None => (None, value),
        Some(slash) => (Some(&value[..slash]), &value[slash + 1..]),
    };
    name.len() <= LABEL_MAX
        && is_qualified(name.as_bytes())
        && prefix.is_none_or(|prefix| prefix.len() <= SUBDOMAIN_MAX && is_subdomain(prefix))
}

fn is_qualified(bytes: &[u8]) -> bool {
    framed(bytes, ALPHANUMERIC, KEY)
}

fn starts_without_digit(value: &str) -> bool {
    value.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "a234567890123456789012345678901234567890123456789012345678901234";

    #[test]
    fn names_are_told_apart() {
        type Check = fn(&str) -> Vec<String>;
        let table: &[(Check, &[&str], &[&str])] = &[
            (dns1123_label, &["a", "1", "a-1", &LONG[1..]], &["", "-a", "a-", "a.b", "A", "a_b", LONG]),
            (dns1123_subdomain, &["a", "a.b", "1.2-3"], &["", ".", "a.", ".a", "a..b", "a.-b", "A.b"]),
            (dns1123_subdomain_with_underscore, &["_a.b_c", "a"], &["", "_", "a_.b", "__a"]),
            (dns1123_subdomain_caseless, &["A.b"], &["", "_a"]),
            (dns1035_label, &["a", "a-1"], &["", "1a", "a-", "a.b"]),
            (wildcard_dns1123_subdomain, &["*.a.b"], &["*", "*.", "a.b", "*.*.a"]),
            (qualified_name, &["a", "A_b.c-1", "x.y/Z"], &["", "/a", "a/", "a/b/c", "-a", "X.y/a", LONG]),
            (label_value, &["", "a", "A_b.c-1"], &["-", "a/b", "a ", LONG]),
            (c_identifier, &["_", "a1"], &["", "1a", "a-b"]),
            (env_var_name, &["a.b", "-", "_x"], &["", "1a", "a b", ".", "..a"]),
            (relaxed_env_var_name, &["1 x", "a/b"], &["", "a=b", "ä", "a\tb"]),
            (config_map_key, &["a", ".a", "1_2"], &["", ".", "..", "..a", "a/b"]),
            (port_name, &["http", "a-1", "1a"], &["", "1", "a--b", "-a", "a-", "A", "abcdefghijklmnop"]),
            (percent, &["1%"], &["%", "1", "-1%"]),
            (http_header_name, &["X-A"], &["", "X_A"]),
            (path_segment_name, &["", "a b"], &[".", "..", "a/b", "a%"]),
            (condition_reason, &["A", "A_b,c:D"], &["", "1", "A:"]),
        ];
        for (check, good, bad) in table {
            for value in *good {
                assert_eq!(check(value), Vec::<String>::new(), "{value:?}");
            }
            for value in *bad {
                assert!(!check(value).is_empty(), "{value:?}");
            }
        }
    }

    #[test]
    fn words_are_upstreams() {
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            qualified_name("/"),
            [
                "prefix part must be non-empty",
                "name part must be non-empty",
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                 alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            ]
        );
        assert_eq!(port_number(0), ["must be between 1 and 65535, inclusive"]);
    }

    #[test]
    fn domains_and_keys() {
        let mut errors = Errors::new();
        let path = Path::new("x");
        fully_qualified_name(path, "a.b", &mut errors);
        fully_qualified_domain_name(path, "a", &mut errors);
        domain_prefixed_path(path, "acme.io/", &mut errors);
        domain_prefixed_key(path, "foo", &mut errors);
        assert_eq!(errors.len(), 4);
        let mut errors = Errors::new();
        fully_qualified_name(path, "a.b.c", &mut errors);
        fully_qualified_domain_name(path, "a.b.", &mut errors);
        domain_prefixed_path(path, "acme.io/a%20b", &mut errors);
        domain_prefixed_key(path, "acme.io/foo", &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
    }
}
