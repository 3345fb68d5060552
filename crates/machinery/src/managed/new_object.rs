//! Who owns what of a new object, written down in one walk.
//!
//! All that a new object has is its maker's, but for what an object has in any case and what nobody owns. That is the
//! most frequent write of all, so its field set is not made first: what [`FieldSet`] would write goes straight into the
//! text. Where an object is not as plain as most are, the walk gives up and the long way is taken.

use super::Reset;
use super::compare::item_element;
use super::element::{PathElement, same};
use super::owners::below;
use super::set::FieldSet;
use super::view::{Child, Form, List, SchemaView};
use crate::json;
use crate::short_text;
use crate::value::{Map, Value};

/// `fieldsV1` of the only owner; none where the walk gives up.
pub(super) fn write<S: SchemaView>(new: &Value, schema: S, reset: Reset<'_>, nobodys: &FieldSet) -> Option<String> {
    let reset = match reset {
        Reset::Nothing => &[],
        Reset::Fields(paths) => paths,
        Reset::AllBut(_) => return None,
    };
    let Value::Object(map) = new else { return None };
    let mut writer = Writer { out: Vec::with_capacity(1024), fields: Vec::with_capacity(32) };
    writer.out.push(b'{');
    writer.map(schema.zero().as_map(), map, schema, &Apart { reset, nobodys: Some(nobodys) })?;
    writer.out.push(b'}');
    String::from_utf8(writer.out).ok()
}

/// What the maker does not own at a place.
struct Apart<'a> {
    /// What the server resets: the rests of the paths that lead here.
    reset: &'a [&'a [&'a str]],
    nobodys: Option<&'a FieldSet>,
}

const NOTHING: Apart<'_> = Apart { reset: &[], nobodys: None };

struct Writer {
    out: Vec<u8>,
    /// The fields of the maps that are open, each with the first letters of its name and its place in the map.
    fields: Vec<(u64, u32)>,
}

impl Writer {
    /// What is in the map and not in `old`, by name.
    fn map<S: SchemaView>(&mut self, old: &Map, new: &Map, schema: S, apart: &Apart<'_>) -> Option<()> {
        let start = self.fields.len();
        self.fields.extend(new.keys().enumerate().map(|(place, name)| (short_text::first(name), place as u32)));
        self.fields[start..].sort_unstable_by(|left, right| {
            (left.0.cmp(&right.0)).then_with(|| new.at(left.1 as usize).0.cmp(new.at(right.1 as usize).0))
        });
        for index in start..start + new.len() {
            let (name, value) = new.at(self.fields[index].1 as usize);
            let (child, declared) = match schema.child(name) {
                Child::Declared(child) => (child, true),
                Child::Entry(child) => (child, false),
                Child::Unknown => return None,
            };
            let nobodys = apart.nobodys.and_then(|set| set.field(name));
            let reset = match apart.reset {
                [] => Vec::new(),
                paths => below(name, paths),
            };
            let before = old.get(name);
            if reset.iter().any(|path| path.is_empty()) {
                // What does not count must follow the schema as well, which is not looked at here.
                if before.is_some_and(|before| same(before, value)) { continue } else { return None }
            }
            let member = match before {
                None => true,
                Some(before) => is_leaf(before, value, child)? && !same(before, value),
            };
            let is_nobodys = nobodys.is_some_and(|node| node.member);
            let start = self.step(|out| match child.owned().filter(|_| declared) {
                Some(written) => out.extend_from_slice(&written.as_bytes()[..written.len() - 1]),
                None => {
                    out.extend_from_slice(b"\"f:");
                    json::write_escaped(name, out);
                    out.extend_from_slice(b"\":{");
                }
            });
            let apart = Apart { reset: &reset, nobodys: nobodys.map(|node| &node.below) };
            self.node(start, before, value, child, member && !is_nobodys, &apart)?;
        }
        self.fields.truncate(start);
        Some(())
    }

    /// Opens a step, and says where.
    fn step(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.out.len();
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        write(&mut self.out);
        start
    }

    /// What is below the step that was opened at `start`; takes that back where there is nothing.
    fn node<S: SchemaView>(
        &mut self,
        start: usize,
        old: Option<&Value>,
        new: &Value,
        schema: S,
        member: bool,
        apart: &Apart<'_>,
    ) -> Option<()> {
        if member && !matches!(new, Value::Object(_) | Value::Array(_)) {
            self.out.push(b'}');
            return Some(());
        }
        let inside = self.out.len();
        if member {
            self.out.extend_from_slice(b"\".\":{}");
        }
        let marked = self.out.len();
        self.below(old, new, schema, apart)?;
        if self.out.len() == marked {
            self.out.truncate(inside);
        }
        match self.out.len() == inside && !member {
            true => self.out.truncate(start),
            false => self.out.push(b'}'),
        }
        Some(())
    }

    fn below<S: SchemaView>(&mut self, old: Option<&Value>, new: &Value, schema: S, apart: &Apart<'_>) -> Option<()> {
        match (schema.form(new), new) {
            (Form::Map { atomic: false }, Value::Object(map)) => {
                static EMPTY: Map = Map::new();
                self.map(old.map_or(&EMPTY, Value::as_map), map, schema, apart)
            }
            (Form::List(kind @ (List::Set | List::Keyed)), Value::Array(items)) => {
                // A list that is part of any object, and one with anything taken out of its items: not seen so far.
                if old.is_some_and(|old| !old.is_null()) || !apart.reset.is_empty() {
                    return None;
                }
                self.list(kind, items, schema)
            }
            _ => Some(()),
        }
    }

    fn list<S: SchemaView>(&mut self, kind: List, items: &[Value], schema: S) -> Option<()> {
        let item = schema.item();
        let mut steps: Vec<(PathElement, &Value)> = Vec::with_capacity(items.len());
        for value in items {
            steps.push((item_element(kind, schema, value).ok()?, value));
        }
        if !steps.is_sorted_by(|left, right| left.0 < right.0) {
            steps.sort_by(|left, right| left.0.cmp(&right.0));
            if steps.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
        }
        let mut name = String::with_capacity(64);
        for (step, value) in steps {
            name.clear();
            step.write(&mut name);
            let start = self.step(|out| {
                json::write_string(&name, out);
                out.extend_from_slice(b":{");
            });
            self.node(start, None, value, item, true, &NOTHING)?;
        }
        Some(())
    }
}

/// Whether what an object has in any case and what is there now are compared as a whole; none where they are of
/// different forms.
fn is_leaf<S: SchemaView>(old: &Value, new: &Value, schema: S) -> Option<bool> {
    let form = schema.form(new);
    if schema.form(old) != form {
        return None;
    }
    Some(match form {
        Form::Scalar(_) | Form::Map { atomic: true } | Form::List(List::Atomic) => true,
        Form::Map { atomic: false } => old.as_map().is_empty() && new.as_map().is_empty(),
        Form::List(_) => old.items().is_empty() && new.items().is_empty(),
    })
}
