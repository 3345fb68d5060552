//! The part of JSONPath that columns use: fields, indexes, slices, wildcards and filters, the first match of which counts.

use rkube_machinery::{Text, Value, json};

/// Where in an object a column finds its cell.
pub struct JsonPath(Vec<Step>);

enum Step {
    Field(Text),
    Index(i64),
    /// From, and up to but not including; each may be absent.
    Slice(Option<i64>, Option<i64>),
    All,
    Filter {
        path: Vec<Text>,
        test: Test,
    },
}

enum Test {
    Exists,
    Compare(Operator, Value),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    pub fn of_fields(fields: &[&str]) -> JsonPath {
        JsonPath(fields.iter().map(|field| Step::Field((*field).into())).collect())
    }

    /// None where the path uses what is not known here.
    pub fn parse(text: &str) -> Option<JsonPath> {
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = match rest.strip_prefix('[') {
                Some(inside) => {
                    let end = closing(inside)?;
                    steps.push(bracket(&inside[..end])?);
                    &inside[end + 1..]
                }
                None => {
                    let name = rest.strip_prefix('.')?;
                    let (name, behind) = field(name)?;
                    if !name.is_empty() {
                        steps.push(if name == "*" { Step::All } else { Step::Field(name.into()) });
                    }
                    behind
                }
            };
        }
        Some(JsonPath(steps))
    }

    /// The first value that the path leads to.
    pub fn first<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        find(object, &self.0)
    }
}

fn find<'a>(value: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    let items = value.items();
    match step {
        Step::Field(name) => find(value.as_map().get(name)?, rest),
        Step::Index(index) => find(items.get(place(*index, items.len())?)?, rest),
        Step::Slice(from, to) => {
            let bound = |given: &Option<i64>, absent: usize| match given {
                None => Some(absent),
                Some(index) => place(*index, items.len()).or((*index >= 0).then_some(items.len())),
            };
            let (from, to) = (bound(from, 0)?, bound(to, items.len())?);
            items.get(from..to)?.iter().find_map(|item| find(item, rest))
        }
        Step::All => match value {
            Value::Object(map) => map.iter().find_map(|(_, item)| find(item, rest)),
            _ => items.iter().find_map(|item| find(item, rest)),
        },
        Step::Filter { path, test } => {
            items.iter().filter(|item| passes(item, path, test)).find_map(|item| find(item, rest))
        }
    }
}

/// Where an index leads: from the end, if it is negative.
fn place(index: i64, length: usize) -> Option<usize> {
    let index = if index < 0 { index.checked_add(i64::try_from(length).ok()?)? } else { index };
    usize::try_from(index).ok().filter(|index| *index <= length)
}

fn passes(item: &Value, path: &[Text], test: &Test) -> bool {
    let mut found = Some(item);
    for name in path {
        found = found.and_then(|value| value.as_map().get(name));
    }
    match (found, test) {
        (None, _) => false,
        (Some(_), Test::Exists) => true,
        (Some(value), Test::Compare(operator, wanted)) => compare(value, *operator, wanted),
    }
}

fn compare(value: &Value, operator: Operator, wanted: &Value) -> bool {
    use std::cmp::Ordering;
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    let ordering = match (value, wanted) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        _ => number(value).zip(number(wanted)).and_then(|(left, right)| left.partial_cmp(&right)),
    };
    let Some(ordering) = ordering else { return operator == Operator::Unequal };
    match operator {
        Operator::Equal => ordering == Ordering::Equal,
        Operator::Unequal => ordering != Ordering::Equal,
        Operator::Less => ordering == Ordering::Less,
        Operator::LessOrEqual => ordering != Ordering::Greater,
        Operator::Greater => ordering == Ordering::Greater,
        Operator::GreaterOrEqual => ordering != Ordering::Less,
    }
}

/// A field's name, with escaped dots, and what stands behind it.
fn field(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' => name.push(letters.next()?.1),
            '.' | '[' => return Some((name, &text[index..])),
            '{' | '}' | '(' | ')' | '\'' | '"' | ' ' | '@' | '$' | ',' => return None,
            _ => name.push(letter),
        }
    }
    Some((name, ""))
}

/// Where the bracket closes, quotes and inner brackets aside.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(index),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    let inside = inside.trim();
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter_step(filter.trim());
    }
    if let Some(name) = unquoted(inside) {
        return Some(Step::Field(name.into()));
    }
    if let Some((from, to)) = inside.split_once(':') {
        let bound = |text: &str| match text.trim() {
            "" => Some(None),
            number => number.parse().ok().map(Some),
        };
        return Some(Step::Slice(bound(from)?, bound(to)?));
    }
    inside.parse().ok().map(Step::Index)
}

fn filter_step(text: &str) -> Option<Step> {
    let operators = [
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    for (sign, operator) in operators {
        if let Some((path, wanted)) = text.split_once(sign) {
            let wanted = wanted.trim();
            let wanted = match unquoted(wanted) {
                Some(text) => Value::from(text),
                None => json::parse(wanted.as_bytes()).ok()?,
            };
            return Some(Step::Filter { path: filter_path(path)?, test: Test::Compare(operator, wanted) });
        }
    }
    Some(Step::Filter { path: filter_path(text)?, test: Test::Exists })
}

fn filter_path(text: &str) -> Option<Vec<Text>> {
    let JsonPath(steps) = JsonPath::parse(text.trim().strip_prefix('@')?)?;
    let names = steps.into_iter().map(|step| match step {
        Step::Field(name) => Some(name),
        _ => None,
    });
    names.collect()
}

fn unquoted(text: &str) -> Option<&str> {
    let inner = |quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('\'').or_else(|| inner('"'))
}
