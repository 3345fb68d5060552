//! What changed between two objects, field by field as the schema divides them.

use super::element::{PathElement, same};
use super::set::FieldSet;
use super::view::{Child, Form, List, SchemaView};
use crate::short_text;
use crate::value::{Map, Text, Value, text_of};

/// The paths that the newer object added, changed and removed. No path is in two of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    pub added: FieldSet,
    pub modified: FieldSet,
    pub removed: FieldSet,
}

impl Comparison {
    /// The difference; none where an object does not follow the schema.
    pub fn of<S: SchemaView>(old: &Value, new: &Value, schema: S) -> Option<Comparison> {
        let mut walk = Walk { broken: false };
        let found = walk.compare(Some(old), Some(new), schema);
        (!walk.broken).then_some(Comparison {
            added: found.added.below,
            modified: found.modified.below,
            removed: found.removed.below,
        })
    }
}

/// A path's membership and what is below it.
#[derive(Default)]
struct Mark {
    member: bool,
    below: FieldSet,
}

#[derive(Default)]
struct Found {
    added: Mark,
    modified: Mark,
    removed: Mark,
}

impl Found {
    fn marked(added: bool, modified: bool, removed: bool) -> Found {
        let mark = |member| Mark { member, below: FieldSet::new() };
        Found { added: mark(added), modified: mark(modified), removed: mark(removed) }
    }

    /// Puts what was found for a child under its element.
    fn take(&mut self, element: PathElement, child: Found) {
        let marks =
            [(&mut self.added, child.added), (&mut self.modified, child.modified), (&mut self.removed, child.removed)];
        let hits = marks.iter().filter(|(_, mark)| mark.member || !mark.below.is_empty()).count();
        let mut element = Some(element);
        let mut left = hits;
        for (to, mark) in marks {
            if !mark.member && mark.below.is_empty() {
                continue;
            }
            left -= 1;
            let name = if left == 0 { element.take() } else { element.clone() };
            if let Some(name) = name {
                to.below.push(name, mark.member, mark.below);
            }
        }
    }

    fn settle(&mut self) {
        for mark in [&mut self.added, &mut self.modified, &mut self.removed] {
            mark.below.settle();
        }
    }

    fn join(&mut self, other: Found) {
        let marks =
            [(&mut self.added, other.added), (&mut self.modified, other.modified), (&mut self.removed, other.removed)];
        for (to, mark) in marks {
            to.member |= mark.member;
            to.below.extend(mark.below);
        }
    }
}

struct Walk {
    /// Something did not follow the schema.
    broken: bool,
}

impl Walk {
    fn compare<S: SchemaView>(&mut self, old: Option<&Value>, new: Option<&Value>, schema: S) -> Found {
        match (old, new) {
            (None, None) => Found::default(),
            (None, Some(value)) => {
                Found { added: Mark { member: true, below: self.whole(value, schema) }, ..Found::default() }
            }
            (Some(value), None) => {
                Found { removed: Mark { member: true, below: self.whole(value, schema) }, ..Found::default() }
            }
            (Some(before), Some(after)) => {
                let (form, other) = (schema.form(before), schema.form(after));
                let mut found = self.compare_as(other, old, new, schema);
                if form != other {
                    found.join(self.compare_as(form, old, new, schema));
                }
                found
            }
        }
    }

    fn compare_as<S: SchemaView>(&mut self, form: Form, old: Option<&Value>, new: Option<&Value>, schema: S) -> Found {
        match form {
            Form::Scalar(_) => leaf(old, new),
            Form::Map { atomic } => {
                let (before, after) = (entries(old), entries(new));
                if atomic || is_empty(before) && is_empty(after) {
                    return leaf(old, new);
                }
                self.maps(before, after, schema)
            }
            Form::List(kind) => {
                let (before, after) = (items(old), items(new));
                if kind == List::Atomic || before.is_empty() && after.is_empty() {
                    return leaf(old, new);
                }
                self.lists(kind, before, after, schema)
            }
        }
    }

    /// Everything below a value that one side does not have. The value itself is always part of it.
    fn whole<S: SchemaView>(&mut self, value: &Value, schema: S) -> FieldSet {
        let mut set = FieldSet::new();
        match (schema.form(value), value) {
            (Form::Map { atomic: false }, Value::Object(map)) => {
                set.nodes.reserve_exact(map.len());
                // Putting the fields in order before anything is made of them moves less than doing so after.
                let mut fields: Vec<(&Text, &Value)> = map.iter().collect();
                fields.sort_unstable_by(|left, right| short_text::order(left.0, right.0));
                for (name, value) in fields {
                    match schema.child(name) {
                        Child::Declared(child) | Child::Entry(child) => {
                            set.push(PathElement::Field(name.clone()), true, self.whole(value, child));
                        }
                        Child::Unknown => self.broken = true,
                    }
                }
                set.settle();
            }
            (Form::List(kind @ (List::Set | List::Keyed)), Value::Array(items)) => {
                set.nodes.reserve_exact(items.len());
                let item = schema.item();
                for (element, values) in self.index(kind, items, schema) {
                    let below = match values[..] {
                        [value] => self.whole(value, item),
                        _ => FieldSet::new(),
                    };
                    set.push(element, true, below);
                }
            }
            _ => {}
        }
        set
    }

    fn maps<S: SchemaView>(&mut self, old: Option<&Map>, new: Option<&Map>, schema: S) -> Found {
        let mut found = Found::default();
        let (in_old, in_new) = (old.map(Map::index), new.map(Map::index));
        for (name, value) in old.into_iter().flat_map(Map::iter) {
            let other = in_new.as_ref().and_then(|new| new.get(name));
            // Most fields of most writes stay as they are: the schema is asked only about those that do not.
            if !other.is_some_and(|other| same(value, other)) {
                self.entry(name, Some(value), other, schema, &mut found);
            }
        }
        for (name, value) in new.into_iter().flat_map(Map::iter) {
            if !in_old.as_ref().is_some_and(|old| old.contains(name)) {
                self.entry(name, None, Some(value), schema, &mut found);
            }
        }
        found.settle();
        found
    }

    fn entry<S: SchemaView>(
        &mut self,
        name: &Text,
        old: Option<&Value>,
        new: Option<&Value>,
        schema: S,
        found: &mut Found,
    ) {
        match schema.child(name) {
            Child::Declared(child) | Child::Entry(child) => {
                let below = self.compare(old, new, child);
                found.take(PathElement::Field(name.clone()), below);
            }
            Child::Unknown => self.broken = true,
        }
    }

    fn lists<S: SchemaView>(&mut self, kind: List, old: &[Value], new: &[Value], schema: S) -> Found {
        let before = self.index(kind, old, schema);
        let after = self.index(kind, new, schema);
        let mut found = Found::default();
        let mut right = after.into_iter().peekable();
        for (element, olds) in before {
            while let Some((element, news)) = right.next_if(|(other, _)| *other < element) {
                self.item(element, &[], &news, schema, &mut found);
            }
            let news = right.next_if(|(other, _)| *other == element).map(|(_, news)| news).unwrap_or_default();
            self.item(element, &olds, &news, schema, &mut found);
        }
        for (element, news) in right {
            self.item(element, &[], &news, schema, &mut found);
        }
        found.settle();
        found
    }

    /// The items by their elements, in order; those that repeat an element together.
    fn index<'a, S: SchemaView>(
        &mut self,
        kind: List,
        list: &'a [Value],
        schema: S,
    ) -> Vec<(PathElement, Vec<&'a Value>)> {
        let mut index: Vec<(PathElement, Vec<&Value>)> = Vec::with_capacity(list.len());
        for value in list {
            match item_element(kind, schema, value) {
                Ok(element) => index.push((element, vec![value])),
                Err(_) => self.broken = true,
            }
        }
        index.sort_by(|left, right| left.0.cmp(&right.0));
        index.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1.append(&mut later.1);
            }
            same
        });
        index
    }

    /// Items of one element. Repeated ones count as one thing without fields.
    fn item<S: SchemaView>(
        &mut self,
        element: PathElement,
        old: &[&Value],
        new: &[&Value],
        schema: S,
        found: &mut Found,
    ) {
        let item = schema.item();
        let child = match (old, new) {
            ([] | [_], [] | [_]) => self.compare(old.first().copied(), new.first().copied(), item),
            ([_, _, ..], [_, _, ..]) => {
                let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
                Found::marked(false, !equal, false)
            }
            ([_, _, ..], _) => {
                let mut child = self.compare(None, new.first().copied(), item);
                child.removed.member = true;
                child
            }
            (_, _) => {
                let mut child = self.compare(old.first().copied(), None, item);
                child.added.member = true;
                child
            }
        };
        found.take(element, child);
    }
}

/// Why an item of a list has no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ItemError {
    #[error("associative list with keys may not have a null element")]
    NullStruct,
    #[error("associative list with keys may not have non-map elements")]
    NoStruct,
    #[error(
        "associative list with keys has an element that omits all key fields {0} (and doesn't have default values for any key fields)"
    )]
    NoKey(String),
    #[error("associative list without keys has an element that's a map type")]
    Map,
    #[error("not supported: associative list with lists as elements")]
    List,
    #[error("associative list without keys has an element that's an explicit null")]
    Null,
}

/// By what an item of a set or a list of structs is found.
pub(super) fn item_element<S: SchemaView>(kind: List, schema: S, value: &Value) -> Result<PathElement, ItemError> {
    if kind != List::Keyed {
        return match value {
            Value::Object(_) => Err(ItemError::Map),
            Value::Array(_) => Err(ItemError::List),
            Value::Null => Err(ItemError::Null),
            scalar => Ok(PathElement::Value(scalar.clone())),
        };
    }
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Err(ItemError::NullStruct),
        _ => return Err(ItemError::NoStruct),
    };
    let keys = schema.keys();
    let mut fields = Vec::with_capacity(keys.len());
    for key in keys {
        let name = key.as_ref();
        if let Some(value) = map.get(name).cloned().or_else(|| schema.item().key_default(name)) {
            fields.push((text_of(name), value));
        }
    }
    if fields.is_empty() {
        let names: Vec<_> = keys.iter().map(|key| crate::field::quote(key.as_ref())).collect();
        return Err(ItemError::NoKey(format!("[{}]", names.join(" "))));
    }
    Ok(PathElement::key(fields))
}

pub(super) fn entries(value: Option<&Value>) -> Option<&Map> {
    match value {
        Some(Value::Object(map)) => Some(map),
        _ => None,
    }
}

pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.map_or(&[], Value::items)
}

pub(super) fn is_empty(map: Option<&Map>) -> bool {
    map.is_none_or(Map::is_empty)
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Found {
    match (old, new) {
        (None, _) => Found::marked(true, false, false),
        (_, None) => Found::marked(false, false, true),
        (Some(old), Some(new)) => Found::marked(false, !same(old, new), false),
    }
}
