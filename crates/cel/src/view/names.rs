//! How the names of properties are written in expressions: names that are no identifiers there are escaped.

use std::borrow::Cow;

use crate::parse::RESERVED;

/// Literals and operators that are words: beside those that the parser reserves they are escaped where they are names.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Whether the name is a word of the language.
pub fn is_reserved(name: &str) -> bool {
    WORDS.contains(&name) || RESERVED.contains(&name)
}

/// The name as an identifier; none where it cannot be one, so that expressions cannot speak of it.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-' | '/');
    if !name.chars().all(fits) {
        return None;
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let name = name.replace("__", "__underscores__");
    Some(Cow::Owned(name.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")))
}

/// The name that the identifier stands for; none where it stands for none.
pub fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let mut name = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(at) = rest.find("__") {
        let inner = &rest[at + 2..];
        let length = inner.find('_').unwrap_or(inner.len());
        if length == 0 || !inner[length..].starts_with("__") {
            name.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
            continue;
        }
        name.push_str(&rest[..at]);
        match &inner[..length] {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            word if is_reserved(word) && word.len() + 4 == identifier.len() => name.push_str(word),
            _ => return None,
        }
        rest = &inner[length + 2..];
    }
    name.push_str(rest);
    Some(Cow::Owned(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_identifiers() {
        for (name, identifier) in [
            ("plain", "plain"),
            ("namespace", "__namespace__"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("a__b", "a__underscores__b"),
            ("a___b", "a__underscores___b"),
            ("_x", "_x"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier));
            assert_eq!(unescape(identifier).as_deref(), Some(name));
        }
        for name in ["", "1a", "a b", "é"] {
            assert_eq!(escape(name), None, "{name}");
        }
        for identifier in ["a__nope__", "a__if__", "__dots__"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }
}
