//! JSON text in path elements, schema defaults and the last-applied annotation.

use crate::value::{Map, Text, Value};

/// How deep lists and objects may lie in each other.
const DEPTH_MAX: usize = 200;

/// The document, or nothing where it is not JSON. Of equal keys the last one stays.
pub(super) fn parse(text: &str) -> Option<Value> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.skip_blanks();
    (reader.at == text.len()).then_some(value)
}

/// JSON text with the characters that HTML knows escaped, as Go's encoder does unless told otherwise.
pub(super) fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", letter as u32)),
            other => out.push(other),
        }
    }
    out
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes the byte where it comes next, after blanks.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str, value: Value) -> Option<Value> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_blanks();
        match self.peek()? {
            b'"' => self.string().map(|text| Value::String(Text::from(text))),
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.at += 1;
        let mut entries = Vec::new();
        if self.take(b'}') {
            return Some(Value::object());
        }
        loop {
            self.skip_blanks();
            let key = self.string()?;
            if !self.take(b':') {
                return None;
            }
            entries.push((Text::from(key), self.value(depth + 1)?));
            if self.take(b'}') {
                return Some(Value::Object(Map::sorted(entries)));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Some(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Some(Value::Array(items));
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    fn number(&mut self) -> Option<Value> {
        let rest = &self.text[self.at..];
        let length =
            rest.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')).count();
        let digits = &rest[..length];
        let body = digits.strip_prefix('-').unwrap_or(digits);
        let leading_zero =
            body.len() > 1 && body.starts_with('0') && !body.starts_with("0.") && !body.starts_with("0e");
        if !body.starts_with(|letter: char| letter.is_ascii_digit()) || leading_zero {
            return None;
        }
        self.at += length;
        match digits.parse::<i64>() {
            Ok(number) => Some(Value::Int(number)),
            Err(_) => digits.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::Float),
        }
    }

    fn string(&mut self) -> Option<String> {
        if self.peek() != Some(b'"') {
            return None;
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|letter: char| letter == '"' || letter == '\\' || letter < ' ')?;
            out.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => return Some(out),
                b'\\' => out.push(self.escape()?),
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += 1;
        Some(match letter {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => {
                let high = self.unit()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return Some(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                let back = self.at;
                let low = self.word("\\u", Value::Null).and_then(|_| self.unit());
                match low.filter(|low| (0xdc00..0xe000).contains(low)) {
                    Some(low) => char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))?,
                    None => {
                        self.at = back;
                        char::REPLACEMENT_CHARACTER
                    }
                }
            }
            b'"' | b'\\' | b'/' => letter as char,
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}
