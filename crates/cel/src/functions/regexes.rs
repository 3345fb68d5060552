//! Regular expressions with the syntax and meaning of RE2.

use regex::Regex;
use regex_syntax::ast::ErrorKind;

use super::{Function, Outcome, unfit};
use crate::value::Value;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "matches" => |arguments| apply("matches", pattern(arguments)?.as_ref(), arguments),
        "find" => |arguments| apply("find", pattern(arguments)?.as_ref(), arguments),
        "findAll" => |arguments| apply("findAll", pattern(arguments)?.as_ref(), arguments),
        _ => return None,
    })
}

/// Calls one of the functions with a pattern that is compiled already.
pub fn apply(function: &str, pattern: Option<&Regex>, arguments: &[Value]) -> Outcome {
    let (Value::String(text), Some(pattern)) = (&arguments[0], pattern) else { return unfit() };
    match (function, arguments) {
        ("matches", [_, _]) => Ok(Value::Bool(pattern.is_match(text))),
        ("find", [_, _]) => Ok(Value::string(pattern.find(text).map_or("", |found| found.as_str()))),
        ("findAll", [_, _]) => Ok(all(pattern, text, -1)),
        ("findAll", [_, _, Value::Int(limit)]) => Ok(all(pattern, text, *limit)),
        _ => unfit(),
    }
}

fn all(pattern: &Regex, text: &str, limit: i64) -> Value {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Value::list(pattern.find_iter(text).take(limit).map(|found| Value::string(found.as_str())).collect())
}

fn pattern(arguments: &[Value]) -> Result<Option<Regex>, super::EvalError> {
    match &arguments[1] {
        Value::String(text) => compile(text).map(Some).map_err(super::EvalError::Failed),
        _ => Err(super::EvalError::Unfit),
    }
}

/// The pattern, or what is wrong with it in the words of Go.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    Regex::new(&translated(pattern)).map_err(|_| format!("error parsing regexp: {}", fault(pattern)))
}

/// The classes `\d`, `\s` and `\w` have ASCII letters only, `\Q` quotes, and `[` in a class is a letter.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut letters = pattern.chars().peekable();
    let mut in_class = false;
    let mut class_start = false;
    while let Some(letter) = letters.next() {
        let first_in_class = std::mem::take(&mut class_start);
        match letter {
            '\\' => {
                let Some(escaped) = letters.next() else {
                    out.push('\\');
                    break;
                };
                if escaped == 'Q' && !in_class {
                    quote_into(&mut letters, &mut out);
                } else {
                    out.push_str(&escape(escaped, in_class));
                }
            }
            '[' if !in_class => {
                out.push('[');
                in_class = true;
                class_start = true;
                if letters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            '[' if letters.peek() == Some(&':') => {
                out.push('[');
                // A named class has its own end.
                while let Some(inner) = letters.next() {
                    out.push(inner);
                    if inner == ':' && letters.next_if_eq(&']').is_some() {
                        out.push(']');
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            ']' if in_class && first_in_class => out.push_str("\\]"),
            ']' if in_class => {
                out.push(']');
                in_class = false;
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(letter);
            }
            other => out.push(other),
        }
    }
    out
}

fn quote_into(letters: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    while let Some(letter) = letters.next() {
        if letter == '\\' && letters.next_if_eq(&'E').is_some() {
            return;
        }
        out.push_str(&regex::escape(&letter.to_string()));
    }
}

fn escape(letter: char, in_class: bool) -> String {
    let (class, negated) = match letter.to_ascii_lowercase() {
        'd' => ("0-9", letter == 'D'),
        's' => ("\\t\\n\\x0C\\r ", letter == 'S'),
        'w' => ("0-9A-Za-z_", letter == 'W'),
        _ if letter == 'b' && !in_class => return "(?-u:\\b)".to_owned(),
        _ => return format!("\\{letter}"),
    };
    match (in_class, negated) {
        (true, false) => class.to_owned(),
        (_, true) => format!("[^{class}]"),
        (false, false) => format!("[{class}]"),
    }
}

/// What is wrong, as Go says it.
fn fault(pattern: &str) -> String {
    let error = match regex_syntax::ast::parse::Parser::new().parse(pattern) {
        Err(error) => error,
        Ok(_) => return format!("expression too large: `{pattern}`"),
    };
    let span = error.span();
    let part = pattern.get(span.start.offset..span.end.offset).unwrap_or(pattern);
    let rest = pattern.get(span.start.offset..).unwrap_or(pattern);
    match error.kind() {
        ErrorKind::GroupUnclosed => format!("missing closing ): `{pattern}`"),
        ErrorKind::GroupUnopened => format!("unexpected ): `{pattern}`"),
        ErrorKind::ClassUnclosed => format!("missing closing ]: `{rest}`"),
        ErrorKind::ClassRangeInvalid | ErrorKind::ClassRangeLiteral => {
            format!("invalid character class range: `{part}`")
        }
        ErrorKind::EscapeUnexpectedEof => "trailing backslash at end of expression: ``".to_owned(),
        ErrorKind::RepetitionMissing => {
            let operator = pattern.get(span.start.offset..).and_then(|rest| rest.chars().next()).unwrap_or('*');
            format!("missing argument to repetition operator: `{operator}`")
        }
        ErrorKind::RepetitionCountInvalid => format!("invalid repeat count: `{part}`"),
        ErrorKind::UnsupportedLookAround | ErrorKind::FlagUnrecognized => {
            format!("invalid or unsupported Perl syntax: `{part}`")
        }
        ErrorKind::UnsupportedBackreference | ErrorKind::EscapeUnrecognized => {
            format!("invalid escape sequence: `{part}`")
        }
        _ => format!("invalid escape sequence: `{part}`"),
    }
}
