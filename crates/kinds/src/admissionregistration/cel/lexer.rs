//! The words of a CEL expression.

use super::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Identifier,
    /// An identifier in backticks.
    Escaped,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    Symbol,
    End,
}

#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// In bytes from the beginning.
    pub offset: usize,
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];

/// The tokens up to the end; letters that belong to none are faults.
pub fn tokens<'a>(text: &'a str, faults: &mut Vec<Fault>) -> Vec<Token<'a>> {
    let mut tokens = Vec::new();
    let mut offset = 0;
    while offset < text.len() {
        let rest = &text[offset..];
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_ascii_whitespace() {
            offset += first.len_utf8();
            continue;
        }
        if rest.starts_with("//") {
            offset += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        let found = literal(rest).or_else(|| word(rest)).or_else(|| symbol(rest));
        let Some((kind, length)) = found else {
            let length = unknown_length(rest, first);
            let message = format!("Syntax error: token recognition error at: '{}'", &rest[..length]);
            faults.push(Fault { offset, message });
            offset += length;
            continue;
        };
        tokens.push(Token { kind, text: &rest[..length], offset });
        offset += length;
    }
    tokens.push(Token { kind: Kind::End, text: "<EOF>", offset: text.len() });
    tokens
}

/// Half a symbol takes the next letter with it, a string that does not end all that follows.
fn unknown_length(rest: &str, first: char) -> usize {
    match first {
        '=' | '&' | '|' => rest.chars().take(2).map(char::len_utf8).sum(),
        '\'' | '"' | '`' => rest.len(),
        other => other.len_utf8(),
    }
}

fn symbol(rest: &str) -> Option<(Kind, usize)> {
    SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)).map(|symbol| (Kind::Symbol, symbol.len()))
}

fn word(rest: &str) -> Option<(Kind, usize)> {
    if let Some(inner) = rest.strip_prefix('`') {
        return inner.find('`').filter(|end| *end > 0).map(|end| (Kind::Escaped, end + 2));
    }
    let begins = rest.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    begins.then_some((Kind::Identifier, length))
}

fn literal(rest: &str) -> Option<(Kind, usize)> {
    string(rest).or_else(|| number(rest))
}

fn number(rest: &str) -> Option<(Kind, usize)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(hex) = rest.strip_prefix("0x") {
        let length = 2 + hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        return (length > 2).then(|| unsigned(rest, length));
    }
    let whole = digits(rest);
    let mut length = whole;
    let fraction = rest[length..].strip_prefix('.').map_or(0, digits);
    if fraction > 0 {
        length += 1 + fraction;
    }
    if length == 0 {
        return None;
    }
    if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let power = digits(&exponent[sign..]);
        if power > 0 {
            return Some((Kind::Float, length + 1 + sign + power));
        }
    }
    if fraction > 0 {
        return Some((Kind::Float, length));
    }
    Some(unsigned(rest, length))
}

fn unsigned(rest: &str, length: usize) -> (Kind, usize) {
    if rest[length..].starts_with(['u', 'U']) { (Kind::Uint, length + 1) } else { (Kind::Int, length) }
}

fn string(rest: &str) -> Option<(Kind, usize)> {
    let prefix = rest.bytes().take_while(|byte| b"rRbB".contains(byte)).count().min(2);
    let marks = &rest[..prefix];
    let body = &rest[prefix..];
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| body.starts_with(quote))?;
    let raw = marks.contains(['r', 'R']);
    let kind = if marks.contains(['b', 'B']) { Kind::Bytes } else { Kind::String };
    let mut index = quote.len();
    while index < body.len() {
        if body[index..].starts_with(quote) {
            return Some((kind, prefix + index + quote.len()));
        }
        let letter = body[index..].chars().next()?;
        if quote.len() == 1 && matches!(letter, '\n' | '\r') {
            return None;
        }
        index += letter.len_utf8();
        if letter == '\\' && !raw {
            index += body[index..].chars().next()?.len_utf8();
        }
    }
    None
}
