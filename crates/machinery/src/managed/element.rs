//! One step of a path: how a field or an item is found in what contains it, and how the step is written.

use std::cmp::Ordering;

use super::text;
use crate::field::quote;
use crate::json;
use crate::short_text;
use crate::value::{Map, Text, Value};

#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or a key of a map: `f:name`.
    Field(Text),
    /// An item of a list of structs by its key fields, sorted by name: `k:{"name":"a"}`.
    Key(Vec<(Text, Value)>),
    /// An item of a set by its value: `v:"x"`.
    Value(Value),
    /// An item by its place: `i:0`.
    Index(i64),
}

/// Why a written step could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    #[error("key must be 2 characters long:")]
    Short,
    #[error("missing colon: {0}")]
    Colon(String),
    #[error("{0} is not a valid path element")]
    Malformed(String),
}

impl PathElement {
    /// Reads `f:name` and its like. A step of a kind that is not known reads as none.
    pub fn parse(written: &str) -> Result<Option<PathElement>, ElementError> {
        let bytes = written.as_bytes();
        if bytes.len() < 2 {
            return Err(ElementError::Short);
        }
        if bytes[1] != b':' {
            return Err(ElementError::Colon(written.to_owned()));
        }
        let rest = &written[2..];
        let malformed = || ElementError::Malformed(written.to_owned());
        match bytes[0] {
            b'f' => Ok(Some(PathElement::Field(Text::new(rest)))),
            b'v' => text::parse(rest).map(|value| Some(PathElement::Value(value))).ok_or_else(malformed),
            b'k' => match text::parse(rest) {
                Some(Value::Object(map)) => Ok(Some(PathElement::key(map.into_entries()))),
                _ => Err(malformed()),
            },
            b'i' => rest.parse().map(|index| Some(PathElement::Index(index))).map_err(|_| malformed()),
            _ => Ok(None),
        }
    }

    /// The key of these fields.
    pub fn key(mut fields: Vec<(Text, Value)>) -> PathElement {
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        PathElement::Key(fields)
    }

    /// Appends the step as managed fields write it.
    pub fn write(&self, out: &mut String) {
        match self {
            PathElement::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            PathElement::Key(fields) => {
                out.push_str("k:{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    out.push_str(if index > 0 { ",\"" } else { "\"" });
                    out.push_str(name);
                    out.push_str("\":");
                    write_value(value, out);
                }
                out.push('}');
            }
            PathElement::Value(value) => {
                out.push_str("v:");
                write_value(value, out);
            }
            PathElement::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
    }

    /// Appends the step as messages show it: `.spec`, `[name="a"]`, `[="x"]`, `[0]`.
    pub fn describe(&self, out: &mut String) {
        match self {
            PathElement::Field(name) => {
                out.push('.');
                out.push_str(name);
            }
            PathElement::Key(fields) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", show(value))).collect();
                out.push_str(&format!("[{}]", fields.join(",")));
            }
            PathElement::Value(value) => out.push_str(&format!("[={}]", show(value))),
            PathElement::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }

    /// Whether this is the field of that name.
    pub fn is_field(&self, name: &str) -> bool {
        matches!(self, PathElement::Field(field) if field == name)
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

/// Names before keys before values before places; numbers in order of size.
impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => short_text::order(left, right),
            (PathElement::Key(left), PathElement::Key(right)) => compare_entries(left.iter(), right.iter()),
            (PathElement::Value(left), PathElement::Value(right)) => compare_values(left, right),
            (PathElement::Index(left), PathElement::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

/// Whether two values are the same; an integer equals the float of its size.
#[inline]
pub(super) fn same(left: &Value, right: &Value) -> bool {
    // Most values are texts, and most of those are found the same: that much is done without a call.
    match (left, right) {
        (Value::String(left), Value::String(right)) => left == right,
        _ => same_of_any_form(left, right),
    }
}

fn same_of_any_form(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Int(left), Value::Float(right)) | (Value::Float(right), Value::Int(left)) => *left as f64 == *right,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => left.len() == right.len() && same_entries(left, right),
        _ => left == right,
    }
}

/// Whether maps of one size are the same. Mostly their entries are in the same order.
fn same_entries(left: &Map, right: &Map) -> bool {
    let mut in_step = left.iter().zip(right.iter());
    let Some(place) = in_step.position(|(left, right)| left.0 != right.0 || !same(left.1, right.1)) else {
        return true;
    };
    if left.at(place).0 == right.at(place).0 {
        return false;
    }
    let right = right.index();
    left.iter().skip(place).all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
}

fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Int(left), Value::Float(right)) => (*left as f64).total_cmp(right),
        (Value::Float(left), Value::Int(right)) => left.total_cmp(&(*right as f64)),
        (Value::Float(left), Value::Float(right)) => left.total_cmp(right),
        (Value::String(left), Value::String(right)) => left.as_str().cmp(right.as_str()),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            for (left, right) in left.iter().zip(right) {
                let order = compare_values(left, right);
                if order != Ordering::Equal {
                    return order;
                }
            }
            left.len().cmp(&right.len())
        }
        (Value::Object(left), Value::Object(right)) => compare_entries(sorted(left).iter(), sorted(right).iter()),
        _ => value_rank(left).cmp(&value_rank(right)),
    }
}

fn compare_entries<'a>(
    mut left: impl Iterator<Item = &'a (Text, Value)>,
    mut right: impl Iterator<Item = &'a (Text, Value)>,
) -> Ordering {
    loop {
        let (left, right) = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(left), Some(right)) => (left, right),
        };
        let order = left.0.as_str().cmp(right.0.as_str()).then_with(|| compare_values(&left.1, &right.1));
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn sorted(map: &Map) -> Vec<(Text, Value)> {
    let mut entries: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    entries.sort_by(|left, right| left.0.cmp(&right.0));
    entries
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Float(_) | Value::Int(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) | Value::Written(_) => 4,
        Value::Null => 5,
    }
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::String(plain) if plain.bytes().all(is_plain) => {
            out.push('"');
            out.push_str(plain);
            out.push('"');
        }
        other => out.push_str(&text::escape_html(&json::to_string(other))),
    }
}

/// Whether the byte stands in JSON text as it is, also where HTML is escaped.
pub(super) fn is_plain(byte: u8) -> bool {
    (0x20..0x80).contains(&byte) && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::String(text) => quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", show(value))).collect(),
        Value::Written(text) => text.to_string(),
    }
}
