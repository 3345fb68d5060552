//! Writing YAML as Go's library lays it out: block style, lists level with their key, scalars quoted where they would
//! read as something else, long lines folded.

use std::cmp::Ordering;

use super::resolve::{Tag, resolve};
use crate::json;
use crate::value::{Map, Text, Value};

/// Lines are folded at the first blank behind this column.
const WIDTH: usize = 80;
const INDENT: usize = 2;
/// Longer keys are written behind a question mark.
const SIMPLE_KEY_MAX: usize = 128;

/// The value as a YAML document with a line break at its end.
pub fn write(value: &Value) -> String {
    let mut writer = Writer { out: String::with_capacity(256) };
    match value {
        Value::Object(map) if !map.is_empty() => writer.map(map, 0),
        Value::Array(items) if !items.is_empty() => writer.list(items, 0),
        scalar => writer.scalar(scalar, INDENT),
    }
    if !writer.out.ends_with('\n') {
        writer.out.push('\n');
    }
    writer.out
}

/// A float as Go's `%g` writes it.
pub(super) fn short_float(number: f64) -> String {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

struct Writer {
    out: String,
}

impl Writer {
    /// Entries at `indent`; the first stands where the writer is.
    fn map(&mut self, map: &Map, indent: usize) {
        let mut entries: Vec<(&Text, &Value)> = map.iter().collect();
        entries.sort_by(|left, right| compare_keys(left.0, right.0));
        for (index, (key, value)) in entries.into_iter().enumerate() {
            if index > 0 {
                self.new_line(indent);
            }
            let simple = key.len() <= SIMPLE_KEY_MAX && !key.chars().any(is_break);
            if simple {
                self.string(key, indent + INDENT, true);
                self.out.push(':');
            } else {
                self.out.push_str("? ");
                self.string(key, indent + INDENT, false);
                self.new_line(indent);
                self.out.push(':');
            }
            self.map_value(value, indent, simple);
        }
    }

    fn map_value(&mut self, value: &Value, indent: usize, simple: bool) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                if simple {
                    self.new_line(indent + INDENT);
                } else {
                    self.out.push(' ');
                }
                self.map(map, indent + INDENT);
            }
            Value::Array(items) if !items.is_empty() => {
                let indent = if simple { indent } else { indent + INDENT };
                if simple {
                    self.new_line(indent);
                } else {
                    self.out.push(' ');
                }
                self.list(items, indent);
            }
            scalar => {
                self.out.push(' ');
                self.scalar(scalar, indent + INDENT);
            }
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.new_line(indent);
            }
            self.out.push_str("- ");
            match item {
                Value::Object(map) if !map.is_empty() => self.map(map, indent + INDENT),
                Value::Array(items) if !items.is_empty() => self.list(items, indent + INDENT),
                scalar => self.scalar(scalar, indent + INDENT),
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) => self.string(text, indent, false),
            Value::Array(_) => self.out.push_str("[]"),
            Value::Object(_) => self.out.push_str("{}"),
            Value::Float(number) => {
                let whole = json::to_string(value);
                let is_whole = whole.parse::<i64>().is_ok() || whole.parse::<u64>().is_ok();
                self.out.push_str(&if is_whole { whole } else { short_float(*number) });
            }
            other => self.out.push_str(&json::to_string(other)),
        }
    }

    fn string(&mut self, text: &str, indent: usize, is_key: bool) {
        let analysis = Analysis::of(text);
        let plain = resolve(text).0 == Tag::String && !is_base_60(text);
        let fold = !is_key;
        if text.contains('\n') {
            if analysis.block && !is_key { self.literal(text, indent) } else { self.double_quoted(text, indent, fold) }
        } else if !plain {
            self.double_quoted(text, indent, fold);
        } else if analysis.plain {
            self.folded(text, indent, fold, 0);
        } else if analysis.single_quoted {
            self.out.push('\'');
            self.folded(&text.replace('\'', "''"), indent, fold, 1);
            self.out.push('\'');
        } else {
            self.double_quoted(text, indent, fold);
        }
    }

    /// The text with a line break for each lone blank behind the width; not for the first and last `margin` letters.
    fn folded(&mut self, text: &str, indent: usize, fold: bool, margin: usize) {
        let mut column = self.column();
        let bytes = text.as_bytes();
        let mut after_blank = false;
        for (at, letter) in text.char_indices() {
            let inside = at >= margin && at + margin < bytes.len();
            let lone = letter == ' ' && !after_blank && bytes.get(at + 1).is_some_and(|next| *next != b' ');
            if fold && lone && inside && column > WIDTH {
                self.new_line(indent);
                column = indent;
            } else {
                self.out.push(letter);
                column += 1;
            }
            after_blank = letter == ' ';
        }
    }

    fn double_quoted(&mut self, text: &str, indent: usize, fold: bool) {
        self.out.push('"');
        let mut column = self.column();
        let mut after_blank = false;
        for (at, letter) in text.char_indices() {
            let next_is_blank = text[at + letter.len_utf8()..].starts_with(' ');
            if letter == ' ' && fold && !after_blank && column > WIDTH && at > 0 && at + 1 < text.len() {
                self.new_line(indent);
                column = indent;
                if next_is_blank {
                    self.out.push('\\');
                    column += 1;
                }
            } else {
                let before = self.out.len();
                self.push_escaped(letter);
                column += self.out[before..].chars().count();
            }
            after_blank = letter == ' ';
        }
        self.out.push('"');
    }

    fn push_escaped(&mut self, letter: char) {
        let short = match letter {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ if is_printable(letter) => {
                self.out.push(letter);
                return;
            }
            _ => {
                let code = letter as u32;
                self.out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02X}"),
                    0x100..=0xffff => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                });
                return;
            }
        };
        self.out.push('\\');
        self.out.push(short);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with(|letter| letter == ' ' || is_break(letter)) {
            self.out.push('2');
        }
        let ends = text.chars().rev().take(2).take_while(|letter| is_break(*letter)).count();
        match ends {
            0 => self.out.push('-'),
            1 if text.chars().nth(1).is_some() => {}
            _ => self.out.push('+'),
        }
        self.out.push('\n');
        let mut at_start = true;
        for letter in text.chars() {
            if is_break(letter) {
                self.out.push(letter);
                at_start = true;
                continue;
            }
            if at_start {
                self.out.extend(std::iter::repeat_n(' ', indent));
                at_start = false;
            }
            self.out.push(letter);
        }
    }

    /// On to the next line, where the writer is not at the start of one already (behind a literal text).
    fn new_line(&mut self, indent: usize) {
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn column(&self) -> usize {
        let start = self.out.rfind('\n').map_or(0, |at| at + 1);
        self.out[start..].chars().count()
    }
}

/// Which styles a text bears.
struct Analysis {
    plain: bool,
    single_quoted: bool,
    block: bool,
}

impl Analysis {
    fn of(text: &str) -> Self {
        let mut found = Analysis { plain: true, single_quoted: true, block: true };
        if text.starts_with("---") || text.starts_with("...") {
            found.plain = false;
        }
        let mut before = None;
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let next = letters.peek().copied();
            let before_blank = next.is_none_or(|next| matches!(next, ' ' | '\t'));
            let after_blank = before.is_none_or(|before| matches!(before, ' ' | '\t') || is_break(before));
            let indicator = match letter {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    before.is_none()
                }
                '?' | '-' => before.is_none() && before_blank,
                ':' => before_blank,
                '#' => after_blank,
                _ => false,
            };
            let edge = before.is_none() || next.is_none();
            let blank = letter == ' ' || is_break(letter);
            if indicator || (edge && blank) || is_break(letter) {
                found.plain = false;
            }
            if letter == ' ' && next.is_none() {
                found.block = false;
            }
            let break_then_blank = letter == ' ' && before.is_some_and(is_break);
            let blank_then_break = is_break(letter) && before == Some(' ');
            if break_then_blank || blank_then_break || !is_printable(letter) {
                found.plain = false;
                found.single_quoted = false;
            }
            if blank_then_break || !is_printable(letter) {
                found.block = false;
            }
            before = Some(letter);
        }
        found
    }
}

fn is_break(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(letter: char) -> bool {
    matches!(letter, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// `1:30`, which older readers take for a number.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let mut rest: Vec<&str> = parts.collect();
    let Some(last) = rest.pop() else { return false };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let sexagesimal = |part: &str| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
    first.starts_with(|letter: char| letter.is_ascii_digit())
        && first.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit() || byte == b'_')
        && rest.into_iter().chain([last]).all(sexagesimal)
}

/// Keys in the order of Go's library: numbers in them by size, letters behind all else.
fn compare_keys(left: &str, right: &str) -> Ordering {
    let left_letters: Vec<char> = left.chars().collect();
    let right_letters: Vec<char> = right.chars().collect();
    let Some(at) = left_letters.iter().zip(&right_letters).position(|(left, right)| left != right) else {
        return left_letters.len().cmp(&right_letters.len());
    };
    let (left, right) = (left_letters[at], right_letters[at]);
    match (left.is_alphabetic(), right.is_alphabetic()) {
        (true, true) => return left.cmp(&right),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let inside_number = (left == '0' || right == '0')
        && left_letters[..at].iter().rev().take_while(|letter| letter.is_ascii_digit()).any(|digit| *digit != '0');
    let number = |letters: &[char]| {
        let digits = letters[at..].iter().take_while(|letter| letter.is_ascii_digit());
        digits.fold((i64::from(inside_number), 0usize), |(number, count), digit| {
            let digit = i64::from(digit.to_digit(10).unwrap_or(0));
            (number.wrapping_mul(10).wrapping_add(digit), count + 1)
        })
    };
    number(&left_letters).cmp(&number(&right_letters)).then(left.cmp(&right))
}
