//! Numbers, strings and bytes as they are written.

use super::token::Kind;
use crate::ast::Literal;

pub fn literal(kind: Kind, negative: bool, text: &str) -> Result<Literal, &'static str> {
    let sign = if negative { "-" } else { "" };
    match kind {
        Kind::Int => int(sign, text).map(Literal::Int).ok_or("invalid int literal"),
        Kind::Uint => uint(&text[..text.len() - 1]).map(Literal::Uint).ok_or("invalid uint literal"),
        Kind::Float => {
            let value: Option<f64> = format!("{sign}{text}").parse().ok();
            value.filter(|value| value.is_finite()).map(Literal::Double).ok_or("invalid double literal")
        }
        Kind::String => {
            let bytes = unescape(text, false)?;
            let text = String::from_utf8(bytes).map_err(|_| "unable to unescape string")?;
            Ok(Literal::String(text.into()))
        }
        Kind::Bytes => Ok(Literal::Bytes(unescape(&text[1..], true)?.into())),
        Kind::True => Ok(Literal::Bool(true)),
        Kind::False => Ok(Literal::Bool(false)),
        _ => Ok(Literal::Null),
    }
}

fn int(sign: &str, text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

fn uint(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What a quoted text stands for. The lexer has seen that quotes and escapes are well formed.
fn unescape(text: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, body) = match text.strip_prefix(['r', 'R']) {
        Some(body) => (true, body),
        None => (false, text.as_str()),
    };
    let quotes = if body.len() >= 6 && (body.starts_with("'''") || body.starts_with("\"\"\"")) { 3 } else { 1 };
    let body = body.get(quotes..body.len() - quotes).ok_or("unable to unescape string")?;
    if raw {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut letters = body.chars();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            escape(&mut letters, bytes, &mut out)?;
        } else {
            push(&mut out, letter);
        }
    }
    Ok(out)
}

fn escape(letters: &mut std::str::Chars<'_>, bytes: bool, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let kind = letters.next().ok_or("unable to unescape string, found '\\' as last character")?;
    let plain = match kind {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '\'' | '"' | '`' | '?' => kind,
        'u' | 'U' if bytes => return Err("unable to unescape string"),
        'x' | 'X' => return code(letters, 16, 2, 0, bytes, out),
        'u' => return code(letters, 16, 4, 0, bytes, out),
        'U' => return code(letters, 16, 8, 0, bytes, out),
        '0'..='3' => return code(letters, 8, 2, kind.to_digit(8).unwrap_or(0), bytes, out),
        _ => return Err("unable to unescape string"),
    };
    push(out, plain);
    Ok(())
}

/// So many digits that stand for a character, or in bytes for one of them.
fn code(
    letters: &mut std::str::Chars<'_>,
    radix: u32,
    digits: usize,
    first: u32,
    bytes: bool,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let mut value = first;
    for _ in 0..digits {
        let digit = letters.next().and_then(|letter| letter.to_digit(radix)).ok_or("unable to unescape string")?;
        value = value.wrapping_mul(radix).wrapping_add(digit);
    }
    if bytes {
        out.push(value as u8);
        return Ok(());
    }
    push(out, char::from_u32(value).ok_or("invalid unicode code point")?);
    Ok(())
}

fn push(out: &mut Vec<u8>, letter: char) {
    let mut buffer = [0; 4];
    out.extend_from_slice(letter.encode_utf8(&mut buffer).as_bytes());
}
