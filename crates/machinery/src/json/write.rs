//! Writing JSON text.

use crate::value::{Map, Value};

/// The value as compact JSON text, as Go's encoder writes it (`<`, `>` and `&` escaped).
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::with_capacity(128);
    write(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// A float as it comes back from its JSON text: whole ones are integers.
pub fn number(number: f64) -> Value {
    let text = to_string(&Value::Float(number));
    text.parse().map_or(Value::Float(number), Value::Int)
}

/// Appends the value as compact JSON.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => write_map(map, out),
        scalar => write_scalar(scalar, out),
    }
}

fn write_map(map: &Map, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(key, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

fn write_scalar(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Float(number) => write_float(*number, out),
        Value::String(text) => write_string(text, out),
        Value::Written(text) => out.extend_from_slice(text.as_bytes()),
        Value::Null | Value::Array(_) | Value::Object(_) => out.extend_from_slice(b"null"),
    }
}

/// Appends the value over several lines, two blanks per level. Empty lists and maps stay on one line.
pub fn write_pretty(value: &Value, out: &mut Vec<u8>) {
    write_indented(value, 0, out);
}

/// The same for a value that stands inside others, so many levels down; what stands before it is not written.
pub fn write_indented(value: &Value, level: usize, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                separate(index, level + 1, out);
                write_indented(item, level + 1, out);
            }
            new_line(level, out);
            out.push(b']');
        }
        Value::Object(map) if !map.is_empty() => {
            out.push(b'{');
            for (index, (key, value)) in map.iter().enumerate() {
                separate(index, level + 1, out);
                write_string(key, out);
                out.extend_from_slice(b": ");
                write_indented(value, level + 1, out);
            }
            new_line(level, out);
            out.push(b'}');
        }
        Value::Array(_) => out.extend_from_slice(b"[]"),
        Value::Object(_) => out.extend_from_slice(b"{}"),
        scalar => write_scalar(scalar, out),
    }
}

fn separate(index: usize, level: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
    new_line(level, out);
}

fn new_line(level: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + 2 * level, b' ');
}

/// Appends the number as Go does: an exponent only below 1e-6 and from 1e21 on.
pub fn write_float(number: f64, out: &mut Vec<u8>) {
    let size = number.abs();
    if !number.is_finite() {
        out.extend_from_slice(b"null");
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        out.extend_from_slice(format!("{mantissa}e{sign}{exponent}").as_bytes());
    } else {
        out.extend_from_slice(number.to_string().as_bytes());
    }
}

/// Whether a byte of a string is written as it is. 0xe2 may open U+2028 or U+2029, which Go escapes.
const PLAIN: [bool; 256] = {
    let mut table = [true; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = false;
        control += 1;
    }
    table[b'"' as usize] = false;
    table[b'\\' as usize] = false;
    table[b'<' as usize] = false;
    table[b'>' as usize] = false;
    table[b'&' as usize] = false;
    table[0xe2] = false;
    table
};

/// Where the first byte that is not plain stands.
fn first_special(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        if may_be_special(u64::from_ne_bytes(*word))
            && let Some(offset) = word.iter().position(|byte| !PLAIN[*byte as usize])
        {
            return Some(8 * index + offset);
        }
    }
    let offset = rest.iter().position(|byte| !PLAIN[*byte as usize])?;
    Some(bytes.len() - rest.len() + offset)
}

/// Whether one of eight bytes may not be plain. Sometimes it says so of bytes that are.
fn may_be_special(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let is = |byte: u8| zero(word ^ (ONES * u64::from(byte)));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    // `<` and `>` differ in one bit.
    let angle = zero((word & !(ONES * 2)) ^ (ONES * u64::from(b'<')));
    (control | angle | is(b'"') | is(b'\\') | is(b'&') | word) & HIGH != 0
}

/// Appends the text in quotes, escaped as Go's encoder escapes it.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// The same without the quotes.
pub fn write_escaped(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(length) = first_special(rest) {
        out.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
        let taken = write_special(rest, out);
        rest = &rest[taken..];
    }
    out.extend_from_slice(rest);
}

/// Appends the first character, which is not plain; says how many bytes it had.
fn write_special(rest: &[u8], out: &mut Vec<u8>) -> usize {
    let escape: &[u8] = match rest[0] {
        b'"' => b"\\\"",
        b'\\' => b"\\\\",
        b'\n' => b"\\n",
        b'\r' => b"\\r",
        b'\t' => b"\\t",
        0x08 => b"\\b",
        0x0c => b"\\f",
        0xe2 => {
            match rest.get(1..3) {
                Some([0x80, 0xa8]) => out.extend_from_slice(b"\\u2028"),
                Some([0x80, 0xa9]) => out.extend_from_slice(b"\\u2029"),
                _ => {
                    out.push(0xe2);
                    return 1;
                }
            }
            return 3;
        }
        other => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"\\u00");
            out.push(DIGITS[usize::from(other >> 4)]);
            out.push(DIGITS[usize::from(other & 15)]);
            return 1;
        }
    };
    out.extend_from_slice(escape);
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn strings_are_escaped_as_go_does() {
        let mut out = Vec::new();
        write_string("a\"b\\c\n\r\t\u{8}\u{c}\u{1}\u{7f}<>&é\u{2028}\u{2029}€", &mut out);
        let want = "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\u{7f}\\u003c\\u003e\\u0026é\\u2028\\u2029€\"";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn floats_are_written_as_go_does() {
        for (number, want) in [
            (1.0, "1"),
            (0.5, "0.5"),
            (-0.0, "-0"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (-2.5e-10, "-2.5e-10"),
        ] {
            assert_eq!(to_string(&Value::Float(number)), want);
        }
    }

    #[test]
    fn pretty_text_has_two_blanks_per_level() {
        let value = object! { "a": 1, "b": vec![Value::Int(1), Value::object()], "c": vec![] };
        let mut out = Vec::new();
        write_pretty(&value, &mut out);
        let want = "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    {}\n  ],\n  \"c\": []\n}";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
