//! What an unquoted scalar stands for, by the rules of YAML 1.1 as Go's library has them.

use crate::json;
use crate::value::Value;

/// What a plain scalar resolves to. Numbers come as JSON would carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Timestamp,
    String,
}

impl Tag {
    pub(super) fn name(self) -> &'static str {
        match self {
            Tag::Null => "!!null",
            Tag::Bool => "!!bool",
            Tag::Int => "!!int",
            Tag::Float => "!!float",
            Tag::Timestamp => "!!timestamp",
            Tag::String => "!!str",
        }
    }
}

pub(super) fn resolve(text: &str) -> (Tag, Value) {
    let string = || (Tag::String, Value::from(text));
    match text.as_bytes().first() {
        None => (Tag::Null, Value::Null),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            word(text).unwrap_or_else(string)
        }
        Some(b'.') => word(text).or_else(|| float(text)).unwrap_or_else(string),
        Some(b'0'..=b'9') if is_timestamp(text) => (Tag::Timestamp, Value::from(text)),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            let plain = text.replace('_', "");
            word(text).or_else(|| integer(&plain)).or_else(|| float(&plain)).unwrap_or_else(string)
        }
        Some(_) => string(),
    }
}

fn word(text: &str) -> Option<(Tag, Value)> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            (Tag::Bool, Value::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            (Tag::Bool, Value::Bool(false))
        }
        "~" | "null" | "Null" | "NULL" => (Tag::Null, Value::Null),
        ".nan" | ".NaN" | ".NAN" => (Tag::Float, Value::Float(f64::NAN)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => (Tag::Float, Value::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => (Tag::Float, Value::Float(f64::NEG_INFINITY)),
        _ => return None,
    })
}

/// Decimal, `0x`, `0o`, `0b`, and octal with a leading zero. Above the signed range it is a float in JSON.
fn integer(text: &str) -> Option<(Tag, Value)> {
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => (-1, &text[1..]),
        [b'+', ..] => (1, &text[1..]),
        _ => (1, text),
    };
    let lower = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (radix, digits) = match lower.as_str() {
        "0x" => (16, &digits[2..]),
        "0o" => (8, &digits[2..]),
        "0b" => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let number = sign * i128::from_str_radix(digits, radix).ok()?;
    match i64::try_from(number) {
        Ok(number) => Some((Tag::Int, Value::Int(number))),
        Err(_) if u64::try_from(number).is_ok() && !text.starts_with('+') => {
            Some((Tag::Int, Value::Float(number as f64)))
        }
        Err(_) => None,
    }
}

fn float(text: &str) -> Option<(Tag, Value)> {
    let allowed = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(allowed) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    number.is_finite().then(|| (Tag::Float, json::number(number)))
}

/// Whether Go's library takes the text for a point in time: `2001-2-3`, alone or with a time behind.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    let year = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if year != 4 || bytes.get(4) != Some(&b'-') {
        return false;
    }
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), short_number(parts.next()), short_number(parts.next()));
    let year = year.and_then(|digits| digits.parse::<i64>().ok());
    let (Some(year), Some(month), Some(day), None) = (year, month, day, parts.next()) else { return false };
    if crate::time::parse(&format!("{year:04}-{month:02}-{day:02}T00:00:00Z")).is_err() {
        return false;
    }
    match time.as_bytes().first() {
        None => true,
        Some(b' ') => is_time_of_day(&time[1..]),
        Some(_) => match time[1..].find(['Z', '+', '-']) {
            Some(at) => {
                let (clock, zone) = time[1..].split_at(at);
                let zoned = crate::time::parse(&format!("2000-01-01T00:00:00{zone}"));
                is_time_of_day(clock) && zoned.is_ok()
            }
            None => false,
        },
    }
}

fn is_time_of_day(text: &str) -> bool {
    let mut parts = text.split(':');
    let (hour, minute, second) = (short_number(parts.next()), short_number(parts.next()), parts.next());
    let (second, fraction) = second.unwrap_or_default().split_once('.').unwrap_or((second.unwrap_or_default(), "0"));
    parts.next().is_none()
        && hour.is_some_and(|hour| hour < 24)
        && minute.is_some_and(|minute| minute < 60)
        && short_number(Some(second)).is_some_and(|second| second < 60)
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

fn short_number(digits: Option<&str>) -> Option<u8> {
    let digits = digits.filter(|digits| matches!(digits.len(), 1 | 2))?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}
