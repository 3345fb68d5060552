//! `fieldPath`: where in the object an error of a rule is reported.

use rkube_machinery::schema::structural::{AdditionalProperties, Structural};

/// Why a path is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("does not refer to a valid field")]
    Unknown,
    #[error("unexpected end of JSON path")]
    End,
    #[error("array notation is not allowed")]
    Brackets,
    #[error("expected single quoted string but got {0}")]
    Unquoted(String),
    #[error("invalid string literal: invalid escape char {0}")]
    Escape(String),
    #[error("expected ] but got {0}")]
    Unclosed(String),
    #[error("expected [ or . but got: {0}")]
    Start(String),
}

/// The path as errors write it, and the schema at its end. `brackets` says whether `['name']` may stand for `.name`.
pub fn resolve<'a>(path: &str, schema: &'a Structural, brackets: bool) -> Result<(String, &'a Structural), PathError> {
    let mut found = Found { written: String::new(), schema };
    let mut tokens = Tokens { rest: path };
    while let Some(token) = tokens.next() {
        match token {
            "[" if !brackets => return Err(PathError::Brackets),
            "[" => {
                let quoted = tokens.next().ok_or(PathError::End)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| PathError::Unquoted(quoted.to_owned()))?;
                found.step(&unquote(inner)?)?;
                match tokens.next() {
                    Some("]") => {}
                    Some(other) => return Err(PathError::Unclosed(other.to_owned())),
                    None => return Err(PathError::End),
                }
            }
            "." => found.step(tokens.next().ok_or(PathError::End)?)?,
            other => return Err(PathError::Start(other.to_owned())),
        }
    }
    Ok((found.written, found.schema))
}

struct Found<'a> {
    written: String,
    schema: &'a Structural,
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), PathError> {
        if !self.schema.properties.is_empty() {
            if !self.written.is_empty() {
                self.written.push('.');
            }
            self.written.push_str(name);
            self.schema = self.schema.property(name).ok_or(PathError::Unknown)?;
            return Ok(());
        }
        match &self.schema.additional_properties {
            AdditionalProperties::Schema(values) => {
                self.written.push_str(&format!("[{name}]"));
                self.schema = values;
                Ok(())
            }
            _ => Err(PathError::Unknown),
        }
    }
}

/// Dots and brackets by themselves, and what stands between them. In single quotes they are nothing special.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        let first = *bytes.first()?;
        let length = if first == b'\'' {
            let closes = |at: &usize| bytes[*at] == b'\'' && bytes[*at - 1] != b'\\';
            (1..bytes.len()).find(closes).map_or(bytes.len(), |at| at + 1)
        } else if matches!(first, b'.' | b'[' | b']') {
            1
        } else {
            self.rest.find(['.', '[', ']']).unwrap_or(bytes.len())
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}

fn unquote(text: &str) -> Result<String, PathError> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(same @ ('\'' | '\\')) => out.push(same),
            Some(other) => return Err(PathError::Escape(format!("\\{other}"))),
            None => out.push('\\'),
        }
    }
    Ok(out)
}
