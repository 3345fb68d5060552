//! Looking paths up in `fieldsV1` as it is written, without making a set of it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::hash::BuildHasher as _;

use super::element::{PathElement, is_plain};
use super::set::FieldSet;
use super::view::{Child, Form, List, SchemaView};
use crate::json;
use crate::schema::Type;
use crate::short_text;
use crate::value::Value;

/// Among more steps than these, items are not looked for by their text.
const ITEMS_MAX: usize = 64;

/// Whether the fields are written exactly as we would write them: no step is unusual, all are in order, and none goes
/// below what the schema takes as a whole.
pub(super) fn is_as_written<S: SchemaView>(fields: &str, schema: S) -> bool {
    let look = || {
        let mut steps = Steps(fields);
        pass_as_written(&mut steps, Some(schema), true).is_some() && steps.0.is_empty()
    };
    match schema.table_type() {
        Some(kind) if fields.len() <= REMEMBERED_BYTES_MAX => is_remembered(fields, kind, look),
        _ => look(),
    }
}

/// Most objects of a kind are written by the same few writers, who own the same fields of each.
const REMEMBERED_MAX: usize = 128;
/// Longer texts are looked at each time.
const REMEMBERED_BYTES_MAX: usize = 2048;

/// A text that was found to be as we write it, for this type.
type Remembered = (&'static Type, Box<str>);

thread_local! {
    /// By hash: a new one takes the place of one that happens to have the same.
    static REMEMBERED: RefCell<Vec<Option<Remembered>>> = const { RefCell::new(Vec::new()) };
}

/// What `look` says, or said of the same text before.
fn is_remembered(fields: &str, kind: &'static Type, look: impl FnOnce() -> bool) -> bool {
    let hash = foldhash::fast::FixedState::default().hash_one((fields, std::ptr::from_ref(kind)));
    REMEMBERED.with_borrow_mut(|remembered| {
        if remembered.is_empty() {
            remembered.resize_with(REMEMBERED_MAX, || None);
        }
        let place = &mut remembered[(hash % REMEMBERED_MAX as u64) as usize];
        if let Some((of, text)) = place
            && std::ptr::eq(*of, kind)
            && **text == *fields
        {
            return true;
        }
        let is_as_written = look();
        if is_as_written {
            *place = Some((kind, fields.into()));
        }
        is_as_written
    })
}

/// Passes the fields below a step, and says whether there are any; none where they are not as we write them. `root`: these
/// are all fields of an entry.
fn pass_as_written<S: SchemaView>(steps: &mut Steps<'_>, schema: Option<S>, root: bool) -> Option<bool> {
    steps.take(b'{')?;
    if steps.is_at(b'}') {
        steps.take(b'}')?;
        return Some(false);
    }
    let (mut last, mut is_owned_itself) = (Cow::Borrowed(""), false);
    loop {
        let step = steps.step()?;
        if step == "." {
            // It is the first one.
            if root || is_owned_itself || !last.is_empty() || pass_as_written::<S>(steps, None, false)? {
                return None;
            }
            is_owned_itself = true;
        } else {
            let is_right = match (step.as_bytes(), last.as_bytes()) {
                ([b'f', b':', ..], []) => true,
                ([b'f', b':', ..], _) => short_text::order(&last, &step).is_lt(),
                _ => is_plain_step(&step) && (last.is_empty() || is_before(&last, &step)),
            };
            if !is_right {
                return None;
            }
            if steps.take_empty().is_none() {
                match schema.map_or(Below::Unknown, |schema| Below::of(schema, &step)) {
                    Below::Unknown => pass_as_written::<S>(steps, None, false)?,
                    Below::Whole => return None,
                    Below::Parts(schema) => pass_as_written(steps, Some(schema), false)?,
                };
            }
            last = step;
        }
        if steps.is_at(b'}') {
            steps.take(b'}')?;
            // A field that owns nothing below it has none of these steps.
            return (!last.is_empty()).then_some(true);
        }
        steps.take(b',')?;
    }
}

/// The steps of an object in `fieldsV1`, as they stand in the text.
#[derive(Clone, Copy)]
struct Steps<'a>(&'a str);

impl<'a> Steps<'a> {
    fn is_at(&self, byte: u8) -> bool {
        self.0.as_bytes().first() == Some(&byte)
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let rest = self.is_at(byte).then(|| &self.0[1..])?;
        self.0 = rest;
        Some(())
    }

    fn take_empty(&mut self) -> Option<()> {
        self.0 = self.0.strip_prefix("{}")?;
        Some(())
    }

    /// A step and the colon behind it. No other escape is known than that of a quotation mark.
    fn step(&mut self) -> Option<Cow<'a, str>> {
        self.take(b'"')?;
        let mut step = Cow::Borrowed("");
        loop {
            let (plain, rest) = self.0.split_at(json::plain_end(self.0.as_bytes(), 0));
            match step.is_empty() {
                true => step = Cow::Borrowed(plain),
                false => step.to_mut().push_str(plain),
            }
            if let Some(rest) = rest.strip_prefix("\":") {
                self.0 = rest;
                return Some(step);
            }
            self.0 = rest.strip_prefix("\\\"")?;
            step.to_mut().push('"');
        }
    }

    /// What is below a step: an object of objects.
    fn below(&mut self) -> Option<&'a str> {
        let bytes = self.0.as_bytes();
        let (mut depth, mut at) = (0_usize, 0);
        loop {
            match bytes.get(at)? {
                b'{' => depth += 1,
                b'}' => depth = depth.checked_sub(1)?,
                b'"' => {
                    at = json::plain_end(bytes, at + 1);
                    while *bytes.get(at)? == b'\\' {
                        at = json::plain_end(bytes, at + 2);
                    }
                }
                b',' | b':' if depth > 0 => {}
                _ => return None,
            }
            at += 1;
            if depth == 0 {
                let (below, rest) = self.0.split_at_checked(at)?;
                self.0 = rest;
                return Some(below);
            }
        }
    }

    /// The next step with what is below it; `Some(None)`: there is none.
    fn next(&mut self) -> Option<Option<(Cow<'a, str>, &'a str)>> {
        if self.is_at(b'}') {
            return Some(None);
        }
        let found = (self.step()?, self.below()?);
        if !self.is_at(b'}') {
            self.take(b',')?;
        }
        Some(Some(found))
    }
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
pub(super) fn stays(fields: &str, set: &FieldSet, gains: Gains<'_>) -> Option<bool> {
    let mut all = Steps(fields);
    all.take(b'{')?;
    let mut ahead = all;
    for node in &set.nodes {
        let found = match &node.element {
            PathElement::Field(name) => find_field(&mut ahead, name)?,
            element => find_item(all, element)?,
        };
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
fn is_member(fields: &str) -> bool {
    fields == "{}" || fields.starts_with(r#"{".":"#)
}

/// What is below this field. Fields are asked for in their order, so that each is looked for from where the last one was.
fn find_field<'a>(ahead: &mut Steps<'a>, name: &str) -> Option<Option<&'a str>> {
    loop {
        let here = *ahead;
        let Some((step, below)) = ahead.next()? else { return Some(None) };
        let order = match step.strip_prefix("f:") {
            Some(field) => short_text::order(field, name),
            None if step == "." => Ordering::Less,
            None => Ordering::Greater,
        };
        match order {
            Ordering::Less => {}
            Ordering::Equal => return Some(Some(below)),
            Ordering::Greater => {
                *ahead = here;
                return Some(None);
            }
        }
    }
}

/// What is below this item; the outer none where that cannot be said.
fn find_item<'a>(mut all: Steps<'a>, element: &PathElement) -> Option<Option<&'a str>> {
    if !has_one_text(element) {
        return None;
    }
    let mut written = String::with_capacity(64);
    element.write(&mut written);
    for _ in 0..ITEMS_MAX {
        match all.next()? {
            None => return Some(None),
            Some((step, below)) if step == written => return Some(Some(below)),
            Some(_) => {}
        }
    }
    None
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
