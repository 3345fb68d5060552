//! `'%d of %s'.format([1, 'x'])`.

use super::conversions::to_string;
use super::{EvalError, Outcome, numbers};
use crate::types::Type;
use crate::value::Value;

const PRECISION: usize = 6;

/// What a clause writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex { upper: bool },
    Octal,
}

/// A pattern in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    Clause(Clause),
}

/// The next piece of the pattern and what is left; `index` is that of the clause, of so many arguments.
pub fn next_piece(rest: &str, index: usize, arguments: usize) -> Result<(Piece<'_>, &str), String> {
    let text = rest.find('%').unwrap_or(rest.len());
    if text > 0 {
        return Ok((Piece::Text(&rest[..text]), &rest[text..]));
    }
    if let Some(after) = rest.strip_prefix("%%") {
        return Ok((Piece::Text("%"), after));
    }
    if rest.len() < 2 {
        return Err("unexpected end of string".to_owned());
    }
    if index >= arguments {
        return Err(format!("index {index} out of range"));
    }
    let unparsed = |reason: String| format!("could not parse formatting clause: {reason}");
    let imprecise = |reason: &str| unparsed(format!("error while parsing precision: {reason}"));
    let mut clause = &rest[1..];
    let mut precision = None;
    if let Some(after) = clause.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == after.len() {
            return Err(imprecise("could not find end of precision specifier"));
        }
        let number = after[..digits].parse().map_err(|_| {
            let quoted = rkube_machinery::field::quote(&after[..digits]);
            imprecise(&format!(
                "error while converting precision to integer: strconv.Atoi: parsing {quoted}: invalid syntax"
            ))
        })?;
        precision = Some(number);
        clause = &after[digits..];
    }
    let precision = precision.unwrap_or(PRECISION);
    let letter = clause.chars().next().unwrap_or(' ');
    let kind = match letter {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' | 'X' => Clause::Hex { upper: letter == 'X' },
        'o' => Clause::Octal,
        other => return Err(unparsed(format!("unrecognized formatting clause \"{other}\""))),
    };
    Ok((Piece::Clause(kind), &clause[letter.len_utf8()..]))
}

impl Clause {
    /// What the clause says of a value of a type that it cannot write.
    pub fn refusal(self, given: &str) -> String {
        let reason = match self {
            Clause::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
                 and timestamps"
            }
            Clause::Decimal => "decimal clause can only be used on integers",
            Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
            Clause::Scientific(_) => "scientific clause can only be used on doubles",
            Clause::Binary => "only integers and bools can be formatted as binary",
            Clause::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Clause::Octal => "octal clause can only be used on integers",
        };
        format!("error during formatting: {reason}, was given {given}")
    }

    /// Whether values of this type can be written.
    pub fn takes(self, given: &Type) -> bool {
        let integer = matches!(given, Type::Int | Type::Uint);
        given.is_dyn()
            || match self {
                Clause::String => {
                    integer
                        || matches!(
                            given,
                            Type::List(_)
                                | Type::Map(..)
                                | Type::Double
                                | Type::Bool
                                | Type::String
                                | Type::Timestamp
                                | Type::Bytes
                                | Type::Duration
                                | Type::Type(_)
                                | Type::Null
                        )
                }
                Clause::Decimal | Clause::Octal => integer,
                Clause::Fixed(_) | Clause::Scientific(_) => matches!(given, Type::Double | Type::String),
                Clause::Binary => integer || *given == Type::Bool,
                Clause::Hex { .. } => integer || matches!(given, Type::String | Type::Bytes),
            }
    }

    fn write(self, value: &Value<'_>) -> Result<String, EvalError> {
        let refused = || EvalError::Failed(self.refusal(value.type_of().name()));
        Ok(match (self, value) {
            (Clause::String, value) => text(value, self)?,
            (Clause::Decimal, Value::Int(value)) => value.to_string(),
            (Clause::Decimal, Value::Uint(value)) => value.to_string(),
            (Clause::Fixed(precision), value) => fixed(double(value).ok_or_else(refused)?, precision),
            (Clause::Scientific(precision), value) => scientific(double(value).ok_or_else(refused)?, precision),
            (Clause::Binary, Value::Int(value)) => signed(*value, format!("{:b}", value.unsigned_abs())),
            (Clause::Binary, Value::Uint(value)) => format!("{value:b}"),
            (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
            (Clause::Octal, Value::Int(value)) => signed(*value, format!("{:o}", value.unsigned_abs())),
            (Clause::Octal, Value::Uint(value)) => format!("{value:o}"),
            (Clause::Hex { upper }, value) => {
                let digits = match value {
                    Value::Int(value) => signed(*value, format!("{:x}", value.unsigned_abs())),
                    Value::Uint(value) => format!("{value:x}"),
                    Value::String(text) => hex(text.as_bytes()),
                    Value::Bytes(bytes) => hex(bytes),
                    _ => return Err(refused()),
                };
                if upper { digits.to_uppercase() } else { digits }
            }
            _ => return Err(refused()),
        })
    }
}

pub fn format<'a>(pattern: &str, arguments: &[Value<'a>]) -> Outcome<'a> {
    let mut out = String::new();
    let (mut rest, mut index) = (pattern, 0);
    while !rest.is_empty() {
        let (piece, after) = next_piece(rest, index, arguments.len()).map_err(EvalError::Failed)?;
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(clause) => {
                out.push_str(&clause.write(&arguments[index])?);
                index += 1;
            }
        }
        rest = after;
    }
    Ok(Value::String(out.into()))
}

fn signed(value: i64, digits: String) -> String {
    if value < 0 { format!("-{digits}") } else { digits }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match text.as_ref() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn unusual(value: f64) -> Option<String> {
    if value.is_finite() {
        return None;
    }
    Some(
        if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "∞"
        } else {
            "-∞"
        }
        .to_owned(),
    )
}

/// With thousands marked, as people write numbers.
fn fixed(value: f64, precision: usize) -> String {
    if let Some(text) = unusual(value) {
        return text;
    }
    let plain = format!("{value:.precision$}");
    let (sign, plain) = plain.strip_prefix('-').map_or(("", plain.as_str()), |plain| ("-", plain));
    let (whole, fraction) = plain.split_once('.').map_or((plain, None), |(whole, part)| (whole, Some(part)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

fn scientific(value: f64, precision: usize) -> String {
    if let Some(text) = unusual(value) {
        return text;
    }
    let plain = format!("{value:.precision$e}");
    let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { "⁻" } else { "" };
    let raised: String = format!("{:02}", exponent.abs())
        .chars()
        .filter_map(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize - 48))
        .collect();
    format!("{digits}×10{sign}{raised}")
}

/// A value as `%s` writes it.
fn text(value: &Value<'_>, clause: Clause) -> Result<String, EvalError> {
    match value {
        Value::Null => Ok("null".to_owned()),
        Value::View(view) if view.is_list() || view.is_map() => text(&view.opened()?, clause),
        Value::List(list) => {
            let parts: Result<Vec<String>, EvalError> = list.items.iter().map(|item| nested(item, clause)).collect();
            Ok(format!("[{}]", parts?.join(", ")))
        }
        Value::Map(map) => {
            let mut parts = Vec::new();
            for (key, value) in map.iter() {
                parts.push((nested(key, clause)?, nested(value, clause)?));
            }
            parts.sort();
            let parts: Vec<String> = parts.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Ok(format!("{{{}}}", parts.join(", ")))
        }
        other => to_string(other)?.ok_or_else(|| EvalError::Failed(clause.refusal(other.type_of().name()))),
    }
}

/// A value within another, as an expression would write it.
fn nested(value: &Value<'_>, clause: Clause) -> Result<String, EvalError> {
    let quote = rkube_machinery::field::quote;
    Ok(match value {
        Value::String(text) => quote(text),
        Value::Bytes(bytes) => format!("b{}", quote(&String::from_utf8_lossy(bytes))),
        Value::Timestamp(at) => format!("timestamp({})", quote(&at.text())),
        Value::Duration(_) => format!("duration({})", quote(&text(value, clause)?)),
        Value::Double(value) if value.is_finite() => format!("{value:.6}"),
        Value::Double(value) => quote(&numbers::shortest(*value)),
        other => text(other, clause)?,
    })
}
