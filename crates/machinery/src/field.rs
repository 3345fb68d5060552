//! Where in an object something is wrong, and what: field paths and validation errors, worded as Kubernetes words them.
//!
//! A [`Path`] lives on the stack and costs nothing until an error is written down, so that validating a right object
//! allocates nothing.

use std::collections::HashSet;
use std::fmt;

use crate::json;
use crate::value::Value;

/// A place in an object, from the root. Made by [`Path::child`], [`Path::index`] and [`Path::key`].
#[derive(Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The whole object; an error there is at `<nil>`, as Kubernetes has it.
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// A path of its own: `Path::new("spec")`.
    pub const fn new(name: &'a str) -> Self {
        Path { parent: None, step: Step::Name(name) }
    }

    pub const fn child(&'a self, name: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    pub const fn index(&'a self, index: usize) -> Path<'a> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    pub const fn key(&'a self, key: &'a str) -> Path<'a> {
        Path { parent: Some(self), step: Step::Key(key) }
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            Step::Root => {}
            Step::Name(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                // A name that is empty reads as an empty index.
                out.push_str(if name.is_empty() { "[]" } else { name });
            }
            Step::Index(index) => out.push_str(&format!("[{index}]")),
            Step::Key(key) => out.push_str(&format!("[{key}]")),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        formatter.write_str(if text.is_empty() { "<nil>" } else { &text })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooShort,
    TooMany,
    TooFew,
    Internal,
    TypeInvalid,
}

impl ErrorType {
    /// The machine readable reason, as it stands in a Status' causes.
    pub fn reason(self) -> &'static str {
        match self {
            ErrorType::NotFound => "FieldValueNotFound",
            ErrorType::Required => "FieldValueRequired",
            ErrorType::Duplicate => "FieldValueDuplicate",
            ErrorType::Invalid => "FieldValueInvalid",
            ErrorType::NotSupported => "FieldValueNotSupported",
            ErrorType::Forbidden => "FieldValueForbidden",
            ErrorType::TooLong => "FieldValueTooLong",
            ErrorType::TooShort => "FieldValueTooShort",
            ErrorType::TooMany => "FieldValueTooMany",
            ErrorType::TooFew => "FieldValueTooFew",
            ErrorType::Internal => "InternalError",
            ErrorType::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            ErrorType::NotFound => "Not found",
            ErrorType::Required => "Required value",
            ErrorType::Duplicate => "Duplicate value",
            ErrorType::Invalid | ErrorType::TypeInvalid => "Invalid value",
            ErrorType::NotSupported => "Unsupported value",
            ErrorType::Forbidden => "Forbidden",
            ErrorType::TooLong => "Too long",
            ErrorType::TooShort => "Too short",
            ErrorType::TooMany => "Too many",
            ErrorType::TooFew => "Too few",
            ErrorType::Internal => "Internal error",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorType,
    /// The path as text: `spec.containers[0].name`.
    pub field: String,
    /// What stands behind the path: `Required value: …`.
    pub body: String,
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.body)
    }
}

/// With so much text, what else is wrong with an object is not noted: a value may be shown once for each of its parts, and
/// a path may be long.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// All that is wrong with an object, in the order in which it was found, and how many bytes it takes to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(pub Vec<Error>, usize);

impl Errors {
    pub fn new() -> Self {
        Errors::default()
    }

    /// Whether no more are noted: what takes long to word need not be.
    pub fn is_full(&self) -> bool {
        self.1 >= TEXT_BYTES_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn required(&mut self, path: Path<'_>, detail: impl AsRef<str>) {
        self.push(ErrorType::Required, path, None, detail.as_ref());
    }

    /// The bad value as it is worded: strings quoted, everything else as JSON.
    pub fn invalid(&mut self, path: Path<'_>, value: impl Into<BadValue>, detail: impl AsRef<str>) {
        self.push(ErrorType::Invalid, path, self.shown(value), detail.as_ref());
    }

    pub fn type_invalid(&mut self, path: Path<'_>, value: impl Into<BadValue>, detail: impl AsRef<str>) {
        self.push(ErrorType::TypeInvalid, path, self.shown(value), detail.as_ref());
    }

    pub fn duplicate(&mut self, path: Path<'_>, value: impl Into<BadValue>) {
        self.push(ErrorType::Duplicate, path, self.shown(value), "");
    }

    pub fn not_found(&mut self, path: Path<'_>, value: impl Into<BadValue>) {
        self.push(ErrorType::NotFound, path, self.shown(value), "");
    }

    /// `supported` in the order in which the message names them.
    pub fn not_supported(&mut self, path: Path<'_>, value: impl Into<BadValue>, supported: &[&str]) {
        let quoted: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        let detail = if quoted.is_empty() { String::new() } else { format!("supported values: {}", quoted.join(", ")) };
        self.push(ErrorType::NotSupported, path, self.shown(value), &detail);
    }

    pub fn forbidden(&mut self, path: Path<'_>, detail: impl AsRef<str>) {
        self.push(ErrorType::Forbidden, path, None, detail.as_ref());
    }

    pub fn too_long(&mut self, path: Path<'_>, max_bytes: usize) {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        self.push(ErrorType::TooLong, path, None, &format!("may not be more than {max_bytes} {unit}"));
    }

    pub fn too_many(&mut self, path: Path<'_>, actual: usize, max: usize) {
        let unit = if max == 1 { "item" } else { "items" };
        let value = BadValue::Text(actual.to_string());
        self.push(ErrorType::TooMany, path, Some(value), &format!("must have at most {max} {unit}"));
    }

    pub fn internal(&mut self, path: Path<'_>, detail: impl AsRef<str>) {
        self.push(ErrorType::Internal, path, None, detail.as_ref());
    }

    /// For wordings that none of the others has.
    pub fn push(&mut self, kind: ErrorType, path: Path<'_>, value: Option<BadValue>, detail: &str) {
        if self.is_full() {
            return;
        }
        let mut body = kind.words().to_owned();
        if let Some(value) = value {
            body.push_str(": ");
            body.push_str(&value.text());
        }
        if !detail.is_empty() {
            body.push_str(": ");
            body.push_str(detail);
        }
        self.note(Error { kind, field: path.to_string(), body });
    }

    /// Values are worded only where that will be read.
    fn shown(&self, value: impl Into<BadValue>) -> Option<BadValue> {
        (!self.is_full()).then(|| value.into())
    }

    fn note(&mut self, error: Error) {
        self.1 += size_of::<Error>() + error.field.len() + error.body.len();
        self.0.push(error);
    }

    pub fn extend(&mut self, other: Errors) {
        for error in other.0 {
            if !self.is_full() {
                self.note(error);
            }
        }
    }

    /// The errors as one text: one alone as it is, several in brackets, each distinct text once.
    pub fn summary(&self) -> String {
        let mut seen: HashSet<(&str, &str)> = HashSet::new();
        let fresh = self.0.iter().filter(|error| seen.insert((error.field.as_str(), error.body.as_str())));
        let mut texts: Vec<String> = fresh.map(ToString::to_string).collect();
        match texts.len() {
            1 => texts.swap_remove(0),
            _ => format!("[{}]", texts.join(", ")),
        }
    }
}

/// A value as an error message shows it.
pub enum BadValue {
    /// Shown quoted.
    String(String),
    /// Shown as it is.
    Text(String),
}

impl BadValue {
    fn text(&self) -> String {
        match self {
            BadValue::String(text) => quote(text),
            BadValue::Text(text) => text.clone(),
        }
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        BadValue::String(text.to_owned())
    }
}
impl From<&String> for BadValue {
    fn from(text: &String) -> Self {
        BadValue::String(text.clone())
    }
}
impl From<String> for BadValue {
    fn from(text: String) -> Self {
        BadValue::String(text)
    }
}
impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        BadValue::Text(number.to_string())
    }
}
impl From<bool> for BadValue {
    fn from(flag: bool) -> Self {
        BadValue::Text(flag.to_string())
    }
}
impl From<&Value> for BadValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => BadValue::String(text.to_string()),
            Value::Float(number) => BadValue::Text(go_float(*number)),
            other => BadValue::Text(json::to_string(other)),
        }
    }
}

/// A number as Go's `%v` prints it: the shortest form that reads back the same, from a million on with an exponent.
pub fn go_float(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => number.to_string(),
    }
}

/// A string in double quotes as Go's `%q` writes it.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\u{b}' => out.push_str("\\v"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                out.push_str(&format!("\\x{:02x}", control as u32));
            }
            other if is_printable(other) => out.push(other),
            other if (other as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", other as u32)),
            other => out.push_str(&format!("\\U{:08x}", other as u32)),
        }
    }
    out.push('"');
    out
}

/// Whether the letter leaves a mark on paper, the plain space included. Letters of no use yet count as printable.
pub fn is_printable(letter: char) -> bool {
    let is_blank = letter.is_whitespace() && letter != ' ';
    let is_format = matches!(letter as u32,
        0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f
        | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xfffe..=0xffff | 0xe0000.. );
    !letter.is_control() && !is_blank && !is_format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_what_is_said() {
        let mut errors = Errors::new();
        let large = Value::Array(vec![Value::from("x".repeat(1 << 20))]);
        for _ in 0..1_000_000 {
            errors.invalid(Path::new("spec"), &large, "too large");
        }
        assert!(errors.is_full() && errors.len() < 5, "{}", errors.len());
        assert!(errors.summary().len() < 2 << 20, "the same is said once");
        let mut both = Errors::new();
        both.extend(errors.clone());
        both.extend(errors.clone());
        assert_eq!(both.len(), errors.len());
    }

    #[test]
    fn errors_read_as_upstream_words_them() {
        let mut errors = Errors::new();
        let spec = Path::new("spec");
        let containers = spec.child("containers");
        let first = containers.index(0);
        errors.required(first.child("name"), "");
        errors.invalid(Path::new("metadata").child("labels").key("a"), "x y", "no blanks");
        errors.not_supported(spec.child("type"), "X", &["A", "B"]);
        errors.too_many(spec.child("list"), 3, 1);
        let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.containers[0].name: Required value",
                "metadata.labels[a]: Invalid value: \"x y\": no blanks",
                "spec.type: Unsupported value: \"X\": supported values: \"A\", \"B\"",
                "spec.list: Too many: 3: must have at most 1 item",
            ]
        );
        assert_eq!(Path::ROOT.to_string(), "<nil>");
    }

    #[test]
    fn numbers_print_as_in_go() {
        for (number, text) in [
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (100_000.0, "100000"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (-1.5, "-1.5"),
            (0.0, "0"),
        ] {
            assert_eq!(go_float(number), text);
        }
    }
}
