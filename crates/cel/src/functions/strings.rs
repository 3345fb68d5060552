//! Functions on texts. Indices count characters.

use super::{EvalError, Function, Outcome, failed, unfit};
use crate::cost::TEXT_MAX_BYTES;
use crate::value::Value;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "contains" => |arguments| test(arguments, |text, part| text.contains(part)),
        "startsWith" => |arguments| test(arguments, |text, part| text.starts_with(part)),
        "endsWith" => |arguments| test(arguments, |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "lowerAscii" => |arguments| map(arguments, |text| text.to_ascii_lowercase()),
        "upperAscii" => |arguments| map(arguments, |text| text.to_ascii_uppercase()),
        "trim" => |arguments| map(arguments, |text| text.trim().to_owned()),
        "strings.quote" => |arguments| map(arguments, quote),
        "jsonpatch.escapeKey" => |arguments| map(arguments, |text| text.replace('~', "~0").replace('/', "~1")),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => |arguments| match arguments {
            [Value::String(pattern), Value::List(list)] => super::format::format(pattern, &list.items),
            _ => unfit(),
        },
        _ => return None,
    })
}

fn test<'a>(arguments: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Outcome<'a> {
    match arguments {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => unfit(),
    }
}

fn map<'a>(arguments: &[Value<'a>], change: fn(&str) -> String) -> Outcome<'a> {
    match arguments {
        [Value::String(text)] => Ok(Value::String(change(text).into())),
        _ => unfit(),
    }
}

fn out_of_range(index: i64) -> Outcome<'static> {
    failed(format!("index out of range: {index}"))
}

fn char_at<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let [Value::String(text), Value::Int(index)] = arguments else { return unfit() };
    let Ok(at) = usize::try_from(*index) else { return out_of_range(*index) };
    match text.chars().nth(at) {
        Some(letter) => Ok(Value::String(letter.to_string().into())),
        None if at == text.chars().count() => Ok(Value::string("")),
        None => out_of_range(*index),
    }
}

fn replace<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (text, old, new, limit) = match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => (text, old, new, *limit),
        _ => return unfit(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Nothing in its cost bounds what it makes.
    let times = text.matches(old.as_ref()).take(limit).count();
    if text.len().saturating_add(times.saturating_mul(new.len())) > TEXT_MAX_BYTES {
        return Err(EvalError::CostLimit);
    }
    Ok(Value::String(text.replacen(old.as_ref(), new, limit).into()))
}

fn split<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator, limit) = match arguments {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return unfit(),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<&str> = match (limit, separator.is_empty()) {
        (0, _) => Vec::new(),
        (_, false) => text.splitn(limit, separator.as_ref()).collect(),
        (_, true) => letters(text, limit),
    };
    Ok(Value::list(parts.into_iter().map(Value::string).collect()))
}

/// Letter by letter; the last part has what is left.
fn letters(text: &str, limit: usize) -> Vec<&str> {
    let starts: Vec<usize> = text.char_indices().map(|(start, _)| start).take(limit).collect();
    starts
        .iter()
        .enumerate()
        .map(|(at, start)| {
            let end = starts.get(at + 1).copied().unwrap_or_else(|| match limit > starts.len() {
                true => start + text[*start..].chars().next().map_or(0, char::len_utf8),
                false => text.len(),
            });
            &text[*start..end]
        })
        .collect()
}

fn substring<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (text, start, end) = match arguments {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return unfit(),
    };
    let length = text.chars().count();
    if let Some(end) = end.filter(|end| start > *end) {
        return failed(format!("invalid substring range. start: {start}, end: {end}"));
    }
    let within = |index: i64| usize::try_from(index).ok().filter(|index| *index <= length);
    let Some(from) = within(start) else { return out_of_range(start) };
    let to = match end {
        None => length,
        Some(end) => match within(end) {
            Some(to) => to,
            None => return out_of_range(end),
        },
    };
    Ok(Value::String(text.chars().skip(from).take(to - from).collect::<String>().into()))
}

fn join<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (list, separator) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_ref()),
        _ => return unfit(),
    };
    let mut parts = Vec::with_capacity(list.items.len());
    for item in list.items.iter() {
        let Value::String(text) = item else { return unfit() };
        parts.push(text.as_ref());
    }
    let gaps = separator.len().saturating_mul(parts.len());
    if parts.iter().fold(gaps, |sum, part| sum.saturating_add(part.len())) > TEXT_MAX_BYTES {
        return Err(EvalError::CostLimit);
    }
    Ok(Value::String(parts.join(separator).into()))
}

/// In double quotes, with escapes as in expressions.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Where the part begins in the text, from this index on.
pub fn index_of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, from) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, *from),
        _ => return unfit(),
    };
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let Ok(start) = usize::try_from(from) else { return out_of_range(from) };
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let found = (start..text.len()).find(|at| text[*at..].starts_with(&part));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

/// Where the part begins for the last time, up to this index.
pub fn last_index_of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let (text, part, from) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return unfit(),
    };
    let (text, part): (Vec<char>, Vec<char>) = (text.chars().collect(), part.chars().collect());
    let from = from.unwrap_or(if part.is_empty() { text.len() as i64 } else { text.len() as i64 - 1 });
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if part.len() > text.len() && from < 0 && text.is_empty() {
        return Ok(Value::Int(-1));
    }
    let Ok(end) = usize::try_from(from) else { return out_of_range(from) };
    if end >= text.len() {
        return Ok(Value::Int(-1));
    }
    let found = (0..=end).rev().find(|at| text[*at..].starts_with(&part));
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}
