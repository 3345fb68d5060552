//! Looking paths up in `fieldsV1` as it is written, without making a set of it.

use std::cmp::Ordering;

use super::element::{PathElement, is_plain};
use super::set::FieldSet;
use super::view::{Child, Form, List, SchemaView};
use crate::short_text;
use crate::value::{Map, Value};

/// Among more steps than these, items are not looked for by their text.
const ITEMS_MAX: usize = 64;

/// Whether the fields are written exactly as we would write them: no step is unusual, all are in order, and none goes
/// below what the schema takes as a whole. `root`: these are all fields of an entry.
pub(super) fn is_as_written<S: SchemaView>(fields: &Map, schema: Option<S>, root: bool) -> bool {
    let mut last = "";
    for (index, (step, value)) in fields.iter().enumerate() {
        let Value::Object(below) = value else { return false };
        if step == "." {
            if root || index > 0 || fields.len() == 1 || !below.is_empty() {
                return false;
            }
            continue;
        }
        let is_right = match (step.as_bytes(), last.as_bytes()) {
            ([b'f', b':', ..], []) => true,
            ([b'f', b':', ..], _) => short_text::order(last, step).is_lt(),
            _ => is_plain_step(step) && (last.is_empty() || is_before(last, step)),
        };
        if !is_right {
            return false;
        }
        last = step;
        if below.is_empty() {
            continue;
        }
        let below_is_right = match schema.map_or(Below::Unknown, |schema| Below::of(schema, step)) {
            Below::Unknown => is_as_written::<S>(below, None, false),
            Below::Whole => false,
            Below::Parts(schema) => is_as_written(below, Some(schema), false),
        };
        if !below_is_right {
            return false;
        }
    }
    true
}

/// What the schema says of what is below a step.
enum Below<S> {
    Unknown,
    /// It is taken as a whole.
    Whole,
    Parts(S),
}

impl<S: SchemaView> Below<S> {
    /// As [`collapse_atomic`](super::fields::collapse_atomic) sees it.
    fn of(schema: S, step: &str) -> Self {
        let child = match (step.strip_prefix("f:"), schema.form(&Value::Null)) {
            (Some(name), Form::Map { .. }) => match schema.child(name) {
                Child::Declared(child) | Child::Entry(child) => child,
                Child::Unknown => return Below::Unknown,
            },
            (_, Form::List(_)) => schema.item(),
            _ => return Below::Unknown,
        };
        match child.form(&Value::Null) {
            Form::Map { .. } if child.is_deduced() => Below::Unknown,
            Form::Map { atomic: true } | Form::List(List::Atomic) => Below::Whole,
            Form::Scalar(_) => Below::Unknown,
            _ => Below::Parts(child),
        }
    }
}

/// Whether the step is an item whose text is the only one that it has.
fn is_plain_step(step: &str) -> bool {
    match step.as_bytes() {
        [b'k', b':', b'{', rest @ ..] => is_plain_key(rest),
        [b'v', b':', rest @ ..] => after_plain_value(rest).is_some_and(<[u8]>::is_empty),
        _ => false,
    }
}

/// Whether this is `"name":value,"other":value}`, by name.
fn is_plain_key(mut rest: &[u8]) -> bool {
    let mut last: Option<&[u8]> = None;
    loop {
        let Some(after) = after_plain_text(rest) else { return false };
        let name = &rest[..rest.len() - after.len()];
        if last.is_some_and(|last| last >= name) {
            return false;
        }
        last = Some(name);
        let Some(after) = after.strip_prefix(b":").and_then(after_plain_value) else { return false };
        match after {
            [b'}'] => return true,
            [b',', after @ ..] => rest = after,
            _ => return false,
        }
    }
}

/// What follows a text, a whole number or a truth value that could not be written otherwise.
fn after_plain_value(written: &[u8]) -> Option<&[u8]> {
    const DIGITS_MAX: usize = 18;
    match written {
        [b'"', ..] => after_plain_text(written),
        [b't', b'r', b'u', b'e', rest @ ..] | [b'f', b'a', b'l', b's', b'e', rest @ ..] => Some(rest),
        _ => {
            let digits = written.strip_prefix(b"-").unwrap_or(written);
            let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let is_plain = match digits.first() {
                Some(b'0') => count == 1 && digits.len() == written.len(),
                _ => (1..=DIGITS_MAX).contains(&count),
            };
            is_plain.then(|| &digits[count..])
        }
    }
}

/// What follows a text in quotes whose letters all stand for themselves and come after the quote in the alphabet: then
/// such texts are ordered as what they stand for.
fn after_plain_text(written: &[u8]) -> Option<&[u8]> {
    let rest = written.strip_prefix(b"\"")?;
    let length = rest.iter().position(|byte| *byte <= b'"' || !is_plain(*byte))?;
    rest[length..].strip_prefix(b"\"")
}

/// Whether an item stands in its order behind another plain step.
fn is_before(left: &str, right: &str) -> bool {
    let (left_bytes, right_bytes) = (left.as_bytes(), right.as_bytes());
    // Fields before keys before values: their letters are in this order, too.
    if left_bytes[0] != right_bytes[0] {
        return left_bytes[0] < right_bytes[0];
    }
    let common = left_bytes.iter().zip(right_bytes).take_while(|(left, right)| left == right).count();
    let is_in_text = left_bytes[..common].iter().filter(|byte| **byte == b'"').count() % 2 == 1;
    if is_in_text && common < left_bytes.len().min(right_bytes.len()) {
        return left_bytes[common] < right_bytes[common];
    }
    match (PathElement::parse(left), PathElement::parse(right)) {
        (Ok(Some(left)), Ok(Some(right))) => left < right,
        _ => false,
    }
}

/// What an owner gets of the paths of a set.
#[derive(Clone, Copy)]
pub(super) enum Gains<'a> {
    /// It loses all of them.
    Nothing,
    /// It loses these, and gets the others.
    AllBut(Option<&'a FieldSet>),
}

/// Whether fields that are as we write them stay as they are when they lose or gain these paths; none where that cannot
/// be said.
pub(super) fn stays(fields: &Map, set: &FieldSet, gains: Gains<'_>) -> Option<bool> {
    let mut place = 0;
    for node in &set.nodes {
        let found = find(fields, &node.element, &mut place)?;
        let (is_gained, gains) = match gains {
            Gains::Nothing => (false, gains),
            Gains::AllBut(apart) => {
                let apart = apart.and_then(|apart| apart.get(&node.element));
                (!apart.is_some_and(|apart| apart.member), Gains::AllBut(apart.map(|apart| &apart.below)))
            }
        };
        if node.member && found.is_some_and(is_member) != is_gained {
            return Some(false);
        }
        let below_stays = match (found, gains) {
            _ if node.below.is_empty() => true,
            (Some(fields), gains) => stays(fields, &node.below, gains)?,
            (None, Gains::Nothing) => true,
            (None, Gains::AllBut(apart)) => !has_any_but(&node.below, apart),
        };
        if !below_stays {
            return Some(false);
        }
    }
    Some(true)
}

/// Whether the set has a path that is not in the other.
pub(super) fn has_any_but(set: &FieldSet, apart: Option<&FieldSet>) -> bool {
    set.nodes.iter().any(|node| {
        let apart = apart.and_then(|apart| apart.get(&node.element));
        node.member && !apart.is_some_and(|apart| apart.member)
            || has_any_but(&node.below, apart.map(|apart| &apart.below))
    })
}

/// Whether the path of these fields is owned itself.
fn is_member(fields: &Map) -> bool {
    fields.is_empty() || fields.at(0).0 == "."
}

/// What is below this step; the outer none where that cannot be said. Fields are asked for in their order, so that each
/// is looked for from where the last one was.
fn find<'a>(fields: &'a Map, element: &PathElement, place: &mut usize) -> Option<Option<&'a Map>> {
    let map = |value: &'a Value| match value {
        Value::Object(map) => Some(map),
        _ => None,
    };
    if let PathElement::Field(name) = element {
        while *place < fields.len() {
            let (step, value) = fields.at(*place);
            let order = match step.strip_prefix("f:") {
                Some(field) => short_text::order(field, name),
                None if step == "." => Ordering::Less,
                None => Ordering::Greater,
            };
            match order {
                Ordering::Less => *place += 1,
                Ordering::Equal => return Some(map(value)),
                Ordering::Greater => break,
            }
        }
        return Some(None);
    }
    if fields.len() > ITEMS_MAX || !has_one_text(element) {
        return None;
    }
    let mut written = String::with_capacity(64);
    element.write(&mut written);
    Some(fields.get(&written).and_then(map))
}

/// Whether no other text stands for the item: a whole number may be written as a fraction, too.
fn has_one_text(element: &PathElement) -> bool {
    let is_fraction = |value: &Value| matches!(value, Value::Float(_));
    match element {
        PathElement::Field(_) => true,
        PathElement::Key(fields) => !fields.iter().any(|(_, value)| is_fraction(value)),
        PathElement::Value(value) => !is_fraction(value),
        PathElement::Index(_) => false,
    }
}
