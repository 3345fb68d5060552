//! Field selectors: `metadata.name=x,status.phase!=Running`.
//!
//! Which fields there are is the resource's business: the server checks and renames them with
//! [`Selector::transform`]. In values `\`, `,` and `=` stand behind a backslash.

use std::fmt;

use crate::value::Text;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub field: Text,
    pub operator: Operator,
    pub value: Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Equals,
    NotEquals,
}

/// Why a text is not a field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// Shown as the character's number, as Kubernetes does.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

impl Selector {
    /// The selector that matches every object.
    pub const fn everything() -> Self {
        Selector { requirements: Vec::new() }
    }

    /// Reads the text form; an empty text matches everything.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(ParseError::Term { selector: text.to_owned(), term: term.to_owned() });
            };
            let requirement = Requirement { field: Text::new(field), operator, value: unescape(value)? };
            if !requirement.is_empty() {
                requirements.push(requirement);
            }
        }
        Ok(Selector { requirements })
    }

    /// The selector that asks for one field's value.
    pub fn exactly(field: &str, value: &str) -> Self {
        let requirement = Requirement { field: Text::new(field), operator: Operator::Equals, value: Text::new(value) };
        Selector { requirements: vec![requirement] }
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object with these fields is selected; an absent field reads as empty.
    pub fn matches<T: AsRef<str>>(&self, field: impl Fn(&str) -> Option<T>) -> bool {
        self.requirements.iter().all(|requirement| {
            let found = field(&requirement.field);
            let same = found.as_ref().map_or("", AsRef::as_ref) == requirement.value;
            same == (requirement.operator == Operator::Equals)
        })
    }

    /// The one value that the field must have, where the selector asks for one.
    pub fn exact(&self, field: &str) -> Option<&str> {
        let asks = |requirement: &&Requirement| requirement.field == field && requirement.operator == Operator::Equals;
        self.requirements.iter().find(asks).map(|requirement| requirement.value.as_str())
    }

    /// Checks and renames fields and values. A requirement of which nothing remains is left out.
    pub fn transform<E>(self, mut change: impl FnMut(&str, &str) -> Result<(Text, Text), E>) -> Result<Self, E> {
        let mut requirements = Vec::with_capacity(self.requirements.len());
        for requirement in self.requirements {
            let (field, value) = change(&requirement.field, &requirement.value)?;
            let requirement = Requirement { field, operator: requirement.operator, value };
            if !requirement.is_empty() {
                requirements.push(requirement);
            }
        }
        Ok(Selector { requirements })
    }
}

impl Requirement {
    /// A requirement of no field for no value is none.
    fn is_empty(&self) -> bool {
        self.field.is_empty() && self.value.is_empty()
    }
}

/// The terms between commas; a comma behind a backslash is part of its term.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|letter| {
        let splits = letter == ',' && !escaped;
        escaped = letter == '\\' && !escaped;
        splits
    })
    .collect()
}

/// Splits at the first operator.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    let at = term.match_indices(['=', '!']).find(|(at, sign)| *sign == "=" || term[at + 1..].starts_with('='))?.0;
    let (field, rest) = term.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        return Some((field, Operator::NotEquals, value));
    }
    let value = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?;
    Some((field, Operator::Equals, value))
}

fn unescape(value: &str) -> Result<Text, ParseError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Text::new(value));
    }
    let mut out = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(special @ ('\\' | ',' | '=')) => out.push(special),
                Some(other) => return Err(ParseError::Escape(format!("\\{other}"))),
                None => return Err(ParseError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(ParseError::Unescaped(letter)),
            other => out.push(other),
        }
    }
    Ok(Text::from(out))
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                formatter.write_str(",")?;
            }
            requirement.fmt(formatter)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.operator {
            Operator::Equals => "=",
            Operator::NotEquals => "!=",
        };
        let value = self.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
        write!(formatter, "{}{sign}{value}", self.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_and_written() {
        for (text, written) in [
            ("", ""),
            (",", ""),
            ("metadata.name=x", "metadata.name=x"),
            ("b==1,a!=2", "a!=2,b=1"),
            ("a=", "a="),
            ("=", ""),
            (r"a=x\,y\=z\\", r"a=x\,y\=z\\"),
            ("a!b=c", "a!b=c"),
        ] {
            assert_eq!(Selector::parse(text).unwrap().to_string(), written, "{text}");
        }
        let selector = Selector::parse("metadata.name=x,status.phase!=y").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("x"));
        assert_eq!(selector.exact("status.phase"), None);
        assert!(selector.matches(|field| (field == "metadata.name").then_some("x")));
        assert!(!selector.matches(|field| Some(if field == "metadata.name" { "x" } else { "y" })));
    }

    #[test]
    fn errors_read_as_upstream_words_them() {
        for (text, error) in [
            ("x", "invalid selector: 'x'; can't understand 'x'"),
            ("a=1,x!", "invalid selector: 'a=1,x!'; can't understand 'x!'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn transformed_away_terms_are_gone() {
        let selector = Selector::parse("a=1,b=2").unwrap();
        let kept = selector.transform(|field, value| {
            Ok::<_, ()>(if field == "a" { (Text::default(), Text::default()) } else { ("c".into(), value.into()) })
        });
        assert_eq!(kept.unwrap().to_string(), "c=2");
    }

    proptest::proptest! {
        #[test]
        fn values_survive_the_text_form(value in ".{0,12}", text in ".{0,24}") {
            let written = Selector::exactly("a.b", &value).to_string();
            let read = Selector::parse(&written).unwrap();
            proptest::prop_assert_eq!(read.exact("a.b"), Some(value.as_str()));
            let _ = Selector::parse(&text);
        }
    }
}
