//! Reading JSON text into a raw [`Value`].
//!
//! One pass without recursion: open lists and objects lie on a stack of their own, finished entries on two scratch
//! stacks from which each list and object takes exactly its own, so that no vector is larger than what it holds.

mod owners;

use std::borrow::Cow;

pub use owners::parse_stored;

use crate::value::{Map, Text, Value, text_of};

/// How deep lists and objects may lie in each other. Below Go's 10,000, because values are dropped, compared and
/// written by recursion.
pub const DEPTH_MAX: usize = 1_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    #[error("unexpected end of JSON input")]
    End,
    #[error("invalid character {} {context}", quote_byte(*byte))]
    Character {
        byte: u8,
        /// Where Go says it stands: `looking for beginning of value`.
        context: &'static str,
        /// How many bytes were read, this one included.
        offset: usize,
    },
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Range(String),
}

/// The document as it is written: entries in order, repeated keys kept. A number without a point and an exponent that
/// fits is an integer. Invalid UTF-8 and lone surrogates read as U+FFFD.
pub fn parse(bytes: &[u8]) -> Result<Value, SyntaxError> {
    parse_with(bytes, false)
}

/// The same, but numbers that are no integers stay as they are written, for [`crate::decode`] to read and to name.
pub fn parse_exact(bytes: &[u8]) -> Result<Value, SyntaxError> {
    parse_with(bytes, true)
}

fn parse_with(bytes: &[u8], exact: bool) -> Result<Value, SyntaxError> {
    let text = decode_utf8(bytes);
    let mut parser = Parser::new(&text, exact);
    let value = parser.value()?;
    parser.end()?;
    Ok(value)
}

/// One U+FFFD per byte that is not UTF-8, as Go does.
fn decode_utf8(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    open: Vec<Open>,
    entries: Vec<(Text, Value)>,
    items: Vec<Value>,
    exact: bool,
    keeps_owned: bool,
}

/// A list or object whose end is not read yet, and where its entries start on the scratch stack. An object's last
/// entry there has its key and waits for its value.
#[derive(Clone, Copy)]
enum Open {
    List { start: usize },
    Object { start: usize },
}

impl<'a> Parser<'a> {
    /// `exact`: numbers that are no integers stay as they are written.
    pub(crate) fn new(text: &'a str, exact: bool) -> Self {
        Parser {
            text,
            bytes: text.as_bytes(),
            at: 0,
            open: Vec::with_capacity(16),
            entries: Vec::new(),
            items: Vec::new(),
            exact,
            keeps_owned: false,
        }
    }

    /// The value that stands next, whatever it is.
    pub(crate) fn value(&mut self) -> Result<Value, SyntaxError> {
        let around = self.open.len();
        loop {
            let owned = if self.keeps_owned { self.owned() } else { None };
            let mut value = if owned.is_some() { owned } else { self.begin_value()? };
            while let Some(whole) = value {
                if self.open.len() == around {
                    return Ok(whole);
                }
                value = self.add(whole)?;
            }
        }
    }

    /// Behind the last value there is nothing but blanks.
    pub(crate) fn end(&mut self) -> Result<(), SyntaxError> {
        self.skip_blanks();
        if self.peek().is_some() { Err(self.unexpected("after top-level value")) } else { Ok(()) }
    }

    /// Reads a whole scalar or an empty list or object; of others the opening, and then there is no value yet.
    fn begin_value(&mut self) -> Result<Option<Value>, SyntaxError> {
        self.skip_blanks();
        let value = match self.peek() {
            Some(b'"') => {
                self.at += 1;
                Value::String(self.string()?)
            }
            Some(b'{') => {
                self.descend()?;
                if self.peek() == Some(b'}') {
                    self.at += 1;
                    return Ok(Some(Value::Object(Map::new())));
                }
                self.open.push(Open::Object { start: self.entries.len() });
                self.key()?;
                return Ok(None);
            }
            Some(b'[') => {
                self.descend()?;
                if self.peek() == Some(b']') {
                    self.at += 1;
                    return Ok(Some(Value::Array(Vec::new())));
                }
                self.open.push(Open::List { start: self.items.len() });
                return Ok(None);
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true", &IN_TRUE, Value::Bool(true))?,
            Some(b'f') => self.literal("false", &IN_FALSE, Value::Bool(false))?,
            Some(b'n') => self.literal("null", &IN_NULL, Value::Null)?,
            _ => return Err(self.unexpected("looking for beginning of value")),
        };
        Ok(Some(value))
    }

    /// Puts a value into the innermost open list or object and goes on to the next one; or gives the list or object
    /// that ends here.
    fn add(&mut self, value: Value) -> Result<Option<Value>, SyntaxError> {
        let Some(open) = self.open.last().copied() else { return Ok(Some(value)) };
        match (open, self.entries.last_mut()) {
            (Open::Object { .. }, Some(entry)) => entry.1 = value,
            _ => self.items.push(value),
        }
        self.skip_blanks();
        match (open, self.peek()) {
            (Open::List { .. }, Some(b',')) => self.at += 1,
            (Open::List { start }, Some(b']')) => {
                let items = self.items.split_off(start);
                return Ok(Some(self.close(Value::Array(items))));
            }
            (Open::List { .. }, _) => return Err(self.unexpected("after array element")),
            (Open::Object { .. }, Some(b',')) => {
                self.at += 1;
                self.skip_blanks();
                self.key()?;
            }
            (Open::Object { start }, Some(b'}')) => {
                let entries = self.entries.split_off(start);
                return Ok(Some(self.close(Value::Object(Map::in_order(entries)))));
            }
            (Open::Object { .. }, _) => return Err(self.unexpected("after object key:value pair")),
        }
        Ok(None)
    }

    fn close(&mut self, value: Value) -> Value {
        self.at += 1;
        self.open.pop();
        value
    }

    fn descend(&mut self) -> Result<(), SyntaxError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(self.unexpected("exceeded max depth"));
        }
        self.at += 1;
        self.skip_blanks();
        Ok(())
    }

    /// A key and the colon behind it; the entry waits for its value.
    fn key(&mut self) -> Result<(), SyntaxError> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.at += 1;
        let key = self.string()?;
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        self.entries.push((key, Value::Null));
        Ok(())
    }

    /// The rest of a string whose opening quote is read.
    fn string(&mut self) -> Result<Text, SyntaxError> {
        let start = self.at;
        self.at = plain_end(self.bytes, start);
        if self.peek() == Some(b'"') {
            let text = text_of(&self.text[start..self.at]);
            self.at += 1;
            return Ok(text);
        }
        let mut text = String::from(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Text::from(text));
                }
                Some(b'\\') => text.push(self.escape()?),
                _ => return Err(self.unexpected("in string literal")),
            }
            let start = self.at;
            self.at = plain_end(self.bytes, start);
            text.push_str(&self.text[start..self.at]);
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        self.at += 1;
        let letter = match self.peek() {
            Some(letter @ (b'"' | b'\\' | b'/')) => char::from(letter),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(letter)
    }

    /// The character behind `\u`; takes the second half of a pair where it stands next.
    fn unicode(&mut self) -> Result<char, SyntaxError> {
        let first = self.four_digits()?;
        if let Some(letter) = char::from_u32(first) {
            return Ok(letter);
        }
        let behind = self.at;
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.four_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let joined = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = behind;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, SyntaxError> {
        let mut number = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else { return Err(self.unexpected("in \\u hexadecimal character escape")) };
            number = number * 16 + digit;
            self.at += 1;
        }
        Ok(number)
    }

    fn number(&mut self) -> Result<Value, SyntaxError> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let first = self.at;
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        let digits = &self.bytes[first..self.at];
        if !matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            if digits.len() < 19 {
                let number = digits.iter().fold(0i64, |number, digit| number * 10 + i64::from(digit - b'0'));
                return Ok(Value::Int(if negative { -number } else { number }));
            }
            if let Ok(number) = self.text[start..self.at].parse() {
                return Ok(Value::Int(number));
            }
        }
        self.fraction()?;
        let text = &self.text[start..self.at];
        if self.exact {
            return Ok(Value::Written(text.into()));
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::Float(number)),
            _ => Err(SyntaxError::Range(text.to_owned())),
        }
    }

    fn fraction(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    /// `contexts`: what Go says where the letter after the first, second, … is another.
    fn literal(&mut self, word: &str, contexts: &[&'static str], value: Value) -> Result<Value, SyntaxError> {
        self.at += 1;
        for (letter, context) in word.bytes().skip(1).zip(contexts) {
            if self.peek() != Some(letter) {
                return Err(self.unexpected(context));
            }
            self.at += 1;
        }
        Ok(value)
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(crate) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, context: &'static str) -> SyntaxError {
        match self.peek() {
            // Go reads the end as a blank, which is wrong in the middle of a word, a number or an escape.
            None if cuts_short(context) => SyntaxError::Character { byte: b' ', context, offset: self.at },
            None => SyntaxError::End,
            Some(byte) => SyntaxError::Character { byte, context, offset: self.at + 1 },
        }
    }
}

/// For a reader that knows what it expects and keeps the entries itself. None: something else stands here.
impl<'a> Parser<'a> {
    /// The opening of a list or object; says whether there is anything in it before `closing`.
    pub(crate) fn enter(&mut self, closing: u8) -> Option<bool> {
        self.descend().ok()?;
        // Only the depth counts: nothing is added to it.
        self.open.push(Open::List { start: self.items.len() });
        if self.peek()? == closing {
            return self.more(closing);
        }
        Some(true)
    }

    /// After an entry; says whether another one follows before `closing`.
    pub(crate) fn more(&mut self, closing: u8) -> Option<bool> {
        self.skip_blanks();
        let more = self.peek()? == b',';
        if more {
            self.at += 1;
            self.skip_blanks();
        } else {
            self.take(closing)?;
            self.open.pop();
        }
        Some(more)
    }

    /// A key without escapes and the colon behind it.
    pub(crate) fn plain_key(&mut self) -> Option<&'a str> {
        let key = self.plain_string()?;
        self.skip_blanks();
        self.take(b':')?;
        self.skip_blanks();
        Some(key)
    }

    /// A string without escapes. Others are not begun.
    pub(crate) fn plain_string(&mut self) -> Option<&'a str> {
        if self.peek()? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let end = plain_end(self.bytes, start);
        if *self.bytes.get(end)? != b'"' {
            return None;
        }
        self.at = end + 1;
        Some(&self.text[start..end])
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let found = self.peek()? == byte;
        self.at += usize::from(found);
        found.then_some(())
    }
}

fn cuts_short(context: &str) -> bool {
    context.starts_with("in ") && context != "in string literal" || context.starts_with("after decimal point")
}

const IN_TRUE: [&str; 3] =
    ["in literal true (expecting 'r')", "in literal true (expecting 'u')", "in literal true (expecting 'e')"];
const IN_FALSE: [&str; 4] = [
    "in literal false (expecting 'a')",
    "in literal false (expecting 'l')",
    "in literal false (expecting 's')",
    "in literal false (expecting 'e')",
];
const IN_NULL: [&str; 3] =
    ["in literal null (expecting 'u')", "in literal null (expecting 'l')", "in literal null (expecting 'l')"];

/// Where the plain run that starts at `at` ends: at a quote, a backslash, a control character or the end of the text.
/// Looks at eight bytes at a time.
pub(crate) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    while let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let quotes = zero_bytes(word ^ (ONES * u64::from(b'"')));
        let slashes = zero_bytes(word ^ (ONES * u64::from(b'\\')));
        let found = controls | quotes | slashes;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|byte| *byte >= 0x20 && *byte != b'"' && *byte != b'\\') {
        at += 1;
    }
    at
}

/// A byte as Go's messages show it.
fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        0x80..=0x9f | 0xad => format!("'\\u{byte:04x}'"),
        0xa0 => "'\\u00a0'".to_owned(),
        other => {
            let quoted = crate::field::quote(&char::from(other).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_string;

    #[test]
    fn documents_read_as_written() {
        for text in [
            "null",
            "true",
            "-17",
            "9223372036854775807",
            "-9223372036854775808",
            "1.5",
            "\"\"",
            "[]",
            "{}",
            r#"{"b":1,"a":[1,"x",{"c":null},[]],"b":2}"#,
            r#"[[[["deep"]]],{"a":{"b":{}}}]"#,
        ] {
            assert_eq!(to_string(&parse(text.as_bytes()).unwrap()), text);
        }
        assert_eq!(to_string(&parse(b" { \"a\" : [ 1 , 2 ] } \n").unwrap()), r#"{"a":[1,2]}"#);
    }

    #[test]
    fn numbers_are_integers_where_they_fit() {
        for (text, want) in [
            ("-0", Value::Int(0)),
            ("1.0", Value::Float(1.0)),
            ("1e3", Value::Float(1000.0)),
            ("9223372036854775808", Value::Float(9_223_372_036_854_775_808.0)),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(want));
        }
        for text in ["1.0", "1e400", "-0.0", "9223372036854775808"] {
            assert_eq!(parse_exact(text.as_bytes()), Ok(Value::Written(text.into())));
        }
        assert_eq!(parse_exact(b"-0"), Ok(Value::Int(0)));
    }

    #[test]
    fn strings_are_unescaped_and_mended() {
        for (text, want) in [
            (&br#""a\"\\\/\b\f\n\r\t\u00e9""#[..], "a\"\\/\u{8}\u{c}\n\r\té"),
            (br#""\ud83d\ude00""#, "😀"),
            (br#""\ud83d x""#, "\u{fffd} x"),
            (br#""\ude00\ud83d\u0041""#, "\u{fffd}\u{fffd}A"),
            (b"\"a\xff\xfeb\xe2\x82\"", "a\u{fffd}\u{fffd}b\u{fffd}\u{fffd}"),
            ("\"123456789é\\n123456789\"".as_bytes(), "123456789é\n123456789"),
        ] {
            assert_eq!(parse(text), Ok(Value::from(want)));
        }
    }

    #[test]
    fn errors_are_worded_as_go_words_them() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":1", "unexpected end of JSON input"),
            ("\"ab", "unexpected end of JSON input"),
            ("}", "invalid character '}' looking for beginning of value"),
            ("{\"a\":}", "invalid character '}' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 x}", "invalid character 'x' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u00g0\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("nul!", "invalid character '!' in literal null (expecting 'l')"),
            ("tru\"", "invalid character '\"' in literal true (expecting 'e')"),
            ("tru", "invalid character ' ' in literal true (expecting 'e')"),
            ("1e", "invalid character ' ' in exponent of numeric literal"),
            ("1.", "invalid character ' ' after decimal point in numeric literal"),
            ("\"\\u12", "invalid character ' ' in \\u hexadecimal character escape"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), want, "{text}");
        }
    }

    #[test]
    fn depth_has_a_bound_that_a_small_stack_bears() {
        let deep = |depth: usize| format!("{}1{}", "{\"a\":[".repeat(depth / 2), "]}".repeat(depth / 2));
        let run = move || {
            let value = parse(deep(DEPTH_MAX).as_bytes()).unwrap();
            assert_eq!(value.clone(), value);
            assert_eq!(to_string(&value), deep(DEPTH_MAX));
            let mut pretty = Vec::new();
            crate::json::write_pretty(&value, &mut pretty);
            assert_eq!(parse(&pretty).as_ref(), Ok(&value));
            let blocks = crate::yaml::write(&value);
            assert_eq!(crate::yaml::parse(blocks.as_bytes()).as_ref(), Ok(&value));
            let error = parse(deep(DEPTH_MAX + 2).as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "invalid character '{' exceeded max depth");
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    }
}
