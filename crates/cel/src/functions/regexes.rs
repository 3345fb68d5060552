//! Regular expressions with the syntax and meaning of RE2.

use regex::Regex;

use super::{Function, Outcome, go_syntax, unfit};
use crate::value::Value;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "matches" => |arguments| apply("matches", pattern(arguments)?.as_ref(), arguments),
        "find" => |arguments| apply("find", searched(arguments)?.as_ref(), arguments),
        "findAll" => |arguments| apply("findAll", searched(arguments)?.as_ref(), arguments),
        _ => return None,
    })
}

/// Calls one of the functions with a pattern that is compiled already.
pub fn apply<'a>(function: &str, pattern: Option<&Regex>, arguments: &[Value<'a>]) -> Outcome<'a> {
    let (Value::String(text), Some(pattern)) = (&arguments[0], pattern) else { return unfit() };
    match (function, arguments) {
        ("matches", [_, _]) => Ok(Value::Bool(pattern.is_match(text))),
        ("find", [_, _]) => Ok(Value::string(pattern.find(text).map_or("", |found| found.as_str()))),
        ("findAll", [_, _]) => Ok(all(pattern, text, -1)),
        ("findAll", [_, _, Value::Int(limit)]) => Ok(all(pattern, text, *limit)),
        _ => unfit(),
    }
}

fn all(pattern: &Regex, text: &str, limit: i64) -> Value<'static> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Value::list(pattern.find_iter(text).take(limit).map(|found| Value::string(found.as_str())).collect())
}

fn pattern(arguments: &[Value]) -> Result<Option<Regex>, super::EvalError> {
    match &arguments[1] {
        Value::String(text) => compile(text).map(Some).map_err(super::EvalError::Failed),
        _ => Err(super::EvalError::Unfit),
    }
}

/// The pattern of a search, which words it differently where it is wrong.
fn searched(arguments: &[Value<'_>]) -> Result<Option<Regex>, super::EvalError> {
    pattern(arguments).map_err(|error| match error {
        super::EvalError::Failed(reason) => super::EvalError::Failed(format!("Illegal regex: {reason}")),
        other => other,
    })
}

/// The pattern, or what is wrong with it in the words of Go.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let words = |fault: String| format!("error parsing regexp: {fault}");
    let translated = go_syntax::translate(pattern).map_err(words)?;
    Regex::new(&translated).map_err(|_| words(format!("expression too large: `{pattern}`")))
}
