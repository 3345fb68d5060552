//! Whether a text is a path into an object as `kubectl -o jsonpath` reads it, and the words for why it is not.
//!
//! Paths are only checked, never followed.

use std::iter::Peekable;
use std::str::Chars;

/// A path as it stands between braces.
pub(super) fn check(path: &str) -> Result<(), String> {
    check_text(&format!("{{{path}}}"))
}

/// Text in which paths stand between braces.
fn check_text(text: &str) -> Result<(), String> {
    let mut reader = Reader { rest: text };
    while let Some(start) = reader.rest.find('{') {
        reader.rest = &reader.rest[start + 1..];
        reader.path()?;
    }
    Ok(())
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// One path with the brace that ends it.
    fn path(&mut self) -> Result<(), String> {
        let mut descends = false;
        loop {
            if self.skip("}") {
                return Ok(());
            }
            let descended = std::mem::take(&mut descends);
            if self.skip("[?(") {
                self.filter()?;
                continue;
            }
            if self.skip("..") {
                if descended {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                descends = !self.rest.starts_with(is_word);
                if !descends {
                    self.field();
                }
                continue;
            }
            match self.rest.chars().next() {
                None | Some('\r' | '\n') => return Err("unclosed action".to_owned()),
                Some(blank @ (' ' | '@' | '$')) => {
                    self.advance(blank);
                    descends = descended;
                }
                Some('[') => self.array()?,
                Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
                Some('.') => {
                    self.advance('.');
                    self.field();
                }
                Some(letter) if letter.is_numeric() || "+-".contains(letter) => self.number()?,
                Some(letter) if is_word(letter) => drop(self.take_until(is_end)),
                Some(other) => {
                    return Err(format!("unrecognized character in action: U+{:04X} '{other}'", other as u32));
                }
            }
        }
    }

    /// A name in which a backslash takes the next letter along.
    fn field(&mut self) {
        loop {
            self.take_until(|letter| letter == '\\' || is_end(letter));
            if !self.skip("\\") {
                return;
            }
            if let Some(letter) = self.rest.chars().next() {
                self.advance(letter);
            }
        }
    }

    fn number(&mut self) -> Result<(), String> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let length = self.rest[sign..].find(|letter: char| letter != '.' && !letter.is_numeric());
        let text = &self.rest[..length.map_or(self.rest.len(), |length| length + sign)];
        self.rest = &self.rest[text.len()..];
        text.parse::<f64>().map(drop).map_err(|_| format!("cannot parse number {text}"))
    }

    fn array(&mut self) -> Result<(), String> {
        let inner = self.rest[1..].find([']', '\n']).map(|end| &self.rest[1..=end]);
        let Some(inner) = inner.filter(|inner| self.rest[1 + inner.len()..].starts_with(']')) else {
            return Err("unterminated array".to_owned());
        };
        self.rest = &self.rest[inner.len() + 2..];
        if inner.contains(',') {
            return inner.split(',').try_for_each(|one| check(&format!("[{}]", one.trim_matches(' '))));
        }
        let key = inner.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\''));
        match key {
            Some(key) if !key.contains('\'') => check(&format!(".{key}")),
            _ if inner == "*" => Ok(()),
            _ => check_range(inner),
        }
    }

    /// A condition, after its beginning. A bracket inside of quotes does not end it.
    fn filter(&mut self) -> Result<(), String> {
        let (mut opened, mut closed, mut before) = (None, false, ' ');
        let mut end = None;
        for (place, letter) in self.rest.char_indices() {
            match letter {
                '\n' => break,
                '"' | '\'' if opened.is_none() => opened = Some(letter),
                '"' | '\'' => closed |= before != '\\' && opened == Some(letter),
                ')' if opened.is_some() == closed => {
                    end = Some(place);
                    break;
                }
                _ => {}
            }
            before = letter;
        }
        let Some(end) = end else { return Err("unterminated filter".to_owned()) };
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        if !self.skip("]") {
            return Err("unclosed array expect ]".to_owned());
        }
        match comparison(text) {
            Some((left, right)) => check(left).and_then(|()| check(right)),
            None => check(text),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<(), String> {
        let mut before = quote;
        let mut end = None;
        for (place, letter) in self.rest.char_indices().skip(1) {
            if letter == '\n' {
                break;
            }
            if letter == quote && before != '\\' {
                end = Some(place);
                break;
            }
            before = letter;
        }
        let Some(end) = end else { return Err("unterminated quoted string".to_owned()) };
        let (text, rest) = self.rest.split_at(end + 1);
        self.rest = rest;
        if escapes_hold(&text[1..end], quote) {
            return Ok(());
        }
        Err(format!("unquote string {text} error invalid syntax"))
    }

    fn skip(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn advance(&mut self, letter: char) {
        self.rest = &self.rest[letter.len_utf8()..];
    }

    fn take_until(&mut self, ends: impl FnMut(char) -> bool) -> &'a str {
        let (taken, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }
}

/// `first:last:step`, each of them a number or nothing.
fn check_range(text: &str) -> Result<(), String> {
    let parts: Vec<&str> = text.split(':').collect();
    let digits = |part: &&str| part.strip_prefix('-').unwrap_or(part).bytes().all(|byte| byte.is_ascii_digit());
    if parts.len() > 3 || !parts.iter().all(digits) {
        return Err(format!("invalid array index {text}"));
    }
    match parts.iter().find(|part| !part.is_empty() && part.parse::<i64>().is_err()) {
        Some(part) => Err(format!("array index {part} is not a number")),
        None => Ok(()),
    }
}

/// The sides of a comparison; neither is empty.
fn comparison(text: &str) -> Option<(&str, &str)> {
    let is_operator = |letter: char| "!<>=".contains(letter);
    let (left, rest) = text.split_at(text.find(is_operator).filter(|start| *start > 0)?);
    match rest.trim_start_matches(is_operator) {
        "" if rest.len() > 1 => Some((left, &rest[rest.len() - 1..])),
        "" => None,
        right => Some((left, right)),
    }
}

/// Whether what stands between these quotes has only escapes that Go knows.
fn escapes_hold(text: &str, quote: char) -> bool {
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            continue;
        }
        let holds = match letters.next() {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\') => true,
            Some(escaped @ ('"' | '\'')) => escaped == quote,
            Some('x') => take_digits(&mut letters, 2, 16),
            Some('u') => take_digits(&mut letters, 4, 16),
            Some('U') => take_digits(&mut letters, 8, 16),
            Some('0'..='7') => take_digits(&mut letters, 2, 8),
            _ => false,
        };
        if !holds {
            return false;
        }
    }
    true
}

fn take_digits(letters: &mut Peekable<Chars<'_>>, count: usize, radix: u32) -> bool {
    (0..count).all(|_| letters.next_if(|letter| letter.is_digit(radix)).is_some())
}

fn is_word(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

fn is_end(letter: char) -> bool {
    " \t\r\n.,[]$@{}".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let table = [
            ("spec.validations[0].expression", ""),
            (".a..b[*]['x.y'][1:-1:2][0,1]", ""),
            ("$.a[?(@.b=='c)')].d\\.e", ""),
            ("..", ""),
            ("....", "invalid multiple recursive descent"),
            ("[0", "unterminated array"),
            ("[x]", "invalid array index x"),
            ("[-]", "array index - is not a number"),
            ("*", "unrecognized character in action: U+002A '*'"),
            ("/x/", "unrecognized character in action: U+002F '/'"),
            ("a\nb", "unclosed action"),
            ("'a", "unterminated quoted string"),
            (r"'a\q'", r"unquote string 'a\q' error invalid syntax"),
            (r#"'a\n\x41' "b""#, ""),
            ("1.2.3", "cannot parse number 1.2.3"),
            ("-7 a", ""),
            ("[?(a", "unterminated filter"),
            ("[?(a)", "unclosed array expect ]"),
            ("[?(a=*)]", "unrecognized character in action: U+002A '*'"),
            ("", ""),
        ];
        for (path, want) in table {
            assert_eq!(check(path).err().unwrap_or_default(), want, "{path}");
        }
    }

    #[test]
    fn anything_is_read() {
        let parts =
            ["a", "ä", "1", ".", "[", "]", "[?(", ")", "'", "\"", "\\", "{", "}", "=", ",", ":", "-", " ", "\n"];
        for count in 0..parts.len().pow(4) {
            let (mut path, mut left) = (String::new(), count);
            while left > 0 {
                path += parts[left % parts.len()];
                left /= parts.len();
            }
            let _ = check(&path);
        }
    }
}
