//! Cuts an expression into words: always the longest that fits, as the grammar's lexer does.

use super::token::{Kind, Token};
use crate::source::Source;

const SYMBOLS: [(&str, Kind); 24] = [
    ("==", Kind::Equals),
    ("!=", Kind::NotEquals),
    ("<=", Kind::LessEquals),
    (">=", Kind::GreaterEquals),
    ("&&", Kind::And),
    ("||", Kind::Or),
    ("<", Kind::Less),
    (">", Kind::Greater),
    ("[", Kind::LeftBracket),
    ("]", Kind::RightBracket),
    ("{", Kind::LeftBrace),
    ("}", Kind::RightBrace),
    ("(", Kind::LeftParenthesis),
    (")", Kind::RightParenthesis),
    (".", Kind::Dot),
    (",", Kind::Comma),
    ("-", Kind::Minus),
    ("!", Kind::Exclamation),
    ("?", Kind::Question),
    (":", Kind::Colon),
    ("+", Kind::Plus),
    ("*", Kind::Star),
    ("/", Kind::Slash),
    ("%", Kind::Percent),
];

/// What stands at a place: a word of this length, a gap, or nothing that is known.
enum Found {
    Word(Kind, usize),
    Gap(usize),
    /// So many letters were read before it was clear that nothing fits.
    Nothing(usize),
}

/// The words up to the end; letters that belong to none are reported, from where to where.
pub fn tokens(source: &Source, report: &mut impl FnMut(usize, usize, String)) -> Vec<Token> {
    let letters = source.characters();
    let mut tokens = Vec::new();
    let mut start = 0;
    while start < letters.len() {
        match next(&letters[start..]) {
            Found::Gap(length) => start += length,
            Found::Word(kind, length) => {
                tokens.push(Token { kind, start, end: start + length });
                start += length;
            }
            Found::Nothing(read) => {
                // The letter that ended the hope is dropped with those before it.
                let text = source.slice(start, start + read + 1);
                report(start, start + read + 1, format!("Syntax error: token recognition error at: '{text}'"));
                start += read + 1;
            }
        }
    }
    tokens.push(Token { kind: Kind::End, start: letters.len(), end: letters.len() });
    tokens
}

fn next(letters: &[char]) -> Found {
    let first = letters[0];
    if is_gap(first) {
        return Found::Gap(count(letters, is_gap));
    }
    if letters.starts_with(&['/', '/']) {
        return Found::Gap(count(letters, |letter| letter != '\n'));
    }
    if let Some((kind, length)) = number(letters) {
        return Found::Word(kind, length);
    }
    let string = string(letters);
    if let Ok((kind, length)) = string {
        return Found::Word(kind, length);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        return word(letters);
    }
    if first == '`' {
        let inner = count(&letters[1..], |letter| letter.is_ascii_alphanumeric() || "_.-/ ".contains(letter));
        let closed = inner > 0 && letters.get(inner + 1) == Some(&'`');
        return if closed { Found::Word(Kind::Escaped, inner + 2) } else { Found::Nothing(inner + 1) };
    }
    for (symbol, kind) in SYMBOLS {
        if symbol.chars().enumerate().all(|(index, letter)| letters.get(index) == Some(&letter)) {
            return Found::Word(kind, symbol.len());
        }
    }
    match (first, string) {
        ('=' | '&' | '|', _) => Found::Nothing(1),
        ('\'' | '"', Err(read)) => Found::Nothing(read),
        _ => Found::Nothing(0),
    }
}

fn is_gap(letter: char) -> bool {
    matches!(letter, '\t' | ' ' | '\r' | '\n' | '\u{c}')
}

fn count(letters: &[char], holds: impl Fn(char) -> bool) -> usize {
    letters.iter().take_while(|letter| holds(**letter)).count()
}

fn word(letters: &[char]) -> Found {
    let length = count(letters, |letter| letter.is_ascii_alphanumeric() || letter == '_');
    let text: String = letters[..length].iter().collect();
    let kind = match text.as_str() {
        "in" => Kind::In,
        "true" => Kind::True,
        "false" => Kind::False,
        "null" => Kind::Null,
        _ => Kind::Identifier,
    };
    Found::Word(kind, length)
}

fn number(letters: &[char]) -> Option<(Kind, usize)> {
    let digits = |from: usize| count(letters.get(from..).unwrap_or_default(), |letter| letter.is_ascii_digit());
    if letters.starts_with(&['0', 'x']) {
        let hex = count(&letters[2..], |letter| letter.is_ascii_hexdigit());
        if hex > 0 {
            return Some(unsigned(letters, 2 + hex));
        }
    }
    let whole = digits(0);
    let fraction = if letters.get(whole) == Some(&'.') { digits(whole + 1) } else { 0 };
    if whole == 0 && fraction == 0 {
        return None;
    }
    let length = if fraction > 0 { whole + 1 + fraction } else { whole };
    if matches!(letters.get(length), Some('e' | 'E')) {
        let sign = usize::from(matches!(letters.get(length + 1), Some('+' | '-')));
        let power = digits(length + 1 + sign);
        if power > 0 {
            return Some((Kind::Float, length + 1 + sign + power));
        }
    }
    if fraction > 0 { Some((Kind::Float, length)) } else { Some(unsigned(letters, length)) }
}

fn unsigned(letters: &[char], length: usize) -> (Kind, usize) {
    match letters.get(length) {
        Some('u' | 'U') => (Kind::Uint, length + 1),
        _ => (Kind::Int, length),
    }
}

/// A string or bytes; otherwise how many letters were read until it was clear that it is none.
fn string(letters: &[char]) -> Result<(Kind, usize), usize> {
    let bytes = matches!(letters[0], 'b' | 'B');
    let after_bytes = usize::from(bytes);
    let raw = matches!(letters.get(after_bytes), Some('r' | 'R'));
    let prefix = after_bytes + usize::from(raw);
    let body = &letters[prefix..];
    let Some(quote) = body.first().copied().filter(|letter| matches!(letter, '\'' | '"')) else { return Err(0) };
    let kind = if bytes { Kind::Bytes } else { Kind::String };
    if body.starts_with(&[quote, quote, quote])
        && let Ok(length) = closed(body, quote, 3, raw)
    {
        return Ok((kind, prefix + length));
    }
    closed(body, quote, 1, raw).map(|length| (kind, prefix + length)).map_err(|read| prefix + read)
}

/// The length up to the closing quotes, or what was read before it went wrong.
fn closed(body: &[char], quote: char, quotes: usize, raw: bool) -> Result<usize, usize> {
    let mut index = quotes;
    while let Some(letter) = body.get(index) {
        if body[index..].iter().take_while(|other| **other == quote).count() >= quotes {
            return Ok(index + quotes);
        }
        if quotes == 1 && matches!(letter, '\n' | '\r') {
            return Err(index);
        }
        index += if *letter == '\\' && !raw { escape(&body[index..]).map_err(|read| index + read)? } else { 1 };
    }
    Err(index)
}

/// The length of the escape sequence, or what was read before it went wrong.
fn escape(letters: &[char]) -> Result<usize, usize> {
    let digits = |from: usize, wanted: usize, fits: fn(char) -> bool| {
        let found = letters.iter().skip(from).take(wanted).take_while(|letter| fits(**letter)).count();
        if found == wanted { Ok(from + wanted) } else { Err(from + found) }
    };
    match letters.get(1) {
        Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(2),
        Some('x' | 'X') => digits(2, 2, |letter| letter.is_ascii_hexdigit()),
        Some('u') => digits(2, 4, |letter| letter.is_ascii_hexdigit()),
        Some('U') => digits(2, 8, |letter| letter.is_ascii_hexdigit()),
        Some('0'..='3') => digits(2, 2, |letter| ('0'..='7').contains(&letter)),
        _ => Err(1),
    }
}
