//! What a label's key and value may look like, and how it is said that they do not.

const NAME_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                         alphanumeric character";
const SUBDOMAIN_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                              or '.', and must start and end with an alphanumeric character";
const NAME_LENGTH_MAX: usize = 63;
const SUBDOMAIN_LENGTH_MAX: usize = 253;

/// What is wrong with a label's key (`name` or `prefix/name`); empty where nothing is.
pub fn label_key_errors(key: &str) -> Vec<String> {
    let name_rule = format!(
        "{NAME_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME_FORMAT}')"
    );
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {name_rule} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain_errors(prefix).into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_LENGTH_MAX {
        errors.push(format!("name part must be no more than {NAME_LENGTH_MAX} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {name_rule}"));
    }
    errors
}

/// What is wrong with a label's value; empty where nothing is.
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > NAME_LENGTH_MAX {
        errors.push(format!("must be no more than {NAME_LENGTH_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '({NAME_FORMAT})?')"
        ));
    }
    errors
}

/// What is wrong with a DNS subdomain; empty where nothing is.
fn subdomain_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH_MAX {
        errors.push(format!("must be no more than {SUBDOMAIN_LENGTH_MAX} bytes"));
    }
    if !value.split('.').all(is_dns_label) {
        errors
            .push(format!("{SUBDOMAIN_RULE} (e.g. 'example.com', regex used for validation is '{SUBDOMAIN_FORMAT}')"));
    }
    errors
}

fn is_dns_label(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_word(text, edge, |byte| edge(byte) || byte == b'-')
}

fn is_name(text: &str) -> bool {
    is_word(text, |byte| byte.is_ascii_alphanumeric(), |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether the text is not empty, begins and ends with `edge` bytes and has only `inner` ones between.
fn is_word(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => edge(*only),
        [first, middle @ .., last] => edge(*first) && edge(*last) && middle.iter().all(|byte| inner(*byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_told_apart() {
        for key in ["a", "a.b-c_d", "example.com/A", "1"] {
            assert!(label_key_errors(key).is_empty(), "{key}");
        }
        for key in ["", "-a", "a-", "/a", "a/", "A.com/a", "a..b/c", "a/b/c", "ä", &"x".repeat(64)] {
            assert!(!label_key_errors(key).is_empty(), "{key}");
        }
        for (value, right) in [("", true), ("A_b.c-9", true), ("-", false), ("a b", false), ("a/b", false)] {
            assert_eq!(label_value_errors(value).is_empty(), right, "{value}");
        }
        assert_eq!(label_key_errors("").len(), 2);
    }

    #[test]
    fn errors_name_the_rule() {
        assert_eq!(
            label_value_errors("a b"),
            ["a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
              start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
              for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]
        );
    }
}
