//! What changed between two objects, field by field as the schema divides them.

use super::element::{PathElement, same};
use super::set::FieldSet;
use super::view::{Child, Form, List, SchemaView};
use crate::short_text;
use crate::value::{Map, Text, Value, text_of};

/// How many entries of a map are tried before one is looked up.
const LOOK_AHEAD: usize = 3;
/// So many items of a list are told apart by comparing each with all others.
const PAIRED_MAX: usize = 8;

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
#[derive(Debug, Default, PartialEq)]
struct Mark {
    member: bool,
    below: FieldSet,
}

impl Mark {
    fn is_any(&self) -> bool {
        self.member || !self.below.is_empty()
    }

    fn take(&mut self, element: PathElement, child: Mark) {
        self.below.push(element, child.member, child.below);
    }
}

#[derive(Debug, Default, PartialEq)]
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
        let Found { added, modified, removed } = child;
        match (added.is_any(), modified.is_any(), removed.is_any()) {
            (true, false, false) => self.added.take(element, added),
            (false, true, false) => self.modified.take(element, modified),
            (false, false, _) => self.removed.take(element, removed),
            _ => {
                self.added.take(element.clone(), added);
                self.modified.take(element.clone(), modified);
                self.removed.take(element, removed);
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
        const NONE: &Map = &Map::new();
        let (old, new) = (old.unwrap_or(NONE), new.unwrap_or(NONE));
        let mut found = Found::default();
        let mut new_by_key = None;
        // Where in the new map the next entry is looked for first, and how many were found so: both maps are mostly in
        // the same order.
        let (mut place, mut met) = (0, 0);
        for (name, value) in old.iter() {
            let ahead = (place..new.len().min(place + LOOK_AHEAD)).find(|place| new.at(*place).0 == name);
            let other = match ahead {
                Some(at) => {
                    place = at + 1;
                    met += 1;
                    Some(new.at(at).1)
                }
                None => new_by_key.get_or_insert_with(|| new.index()).get(name),
            };
            // Most fields of most writes stay as they are: the schema is asked only about those that do not.
            if !other.is_some_and(|other| same(value, other)) {
                self.entry(name, Some(value), other, schema, &mut found);
            }
        }
        if met < new.len() {
            let old_by_key = old.index();
            for (name, value) in new.iter().filter(|(name, _)| !old_by_key.contains(name)) {
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
        if kind == List::Keyed && are_pairs(old, new, schema.keys()) {
            return self.pairs(old, new, schema);
        }
        self.by_element(kind, old, new, schema)
    }

    fn by_element<S: SchemaView>(&mut self, kind: List, old: &[Value], new: &[Value], schema: S) -> Found {
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

    /// Lists with the same items in the same order, see [`are_pairs`].
    fn pairs<S: SchemaView>(&mut self, old: &[Value], new: &[Value], schema: S) -> Found {
        let mut found = Found::default();
        for (old, new) in old.iter().zip(new).filter(|(old, new)| !same(old, new)) {
            match item_element(List::Keyed, schema, new) {
                Ok(element) => self.item(element, &[old], &[new], schema, &mut found),
                Err(_) => self.broken = true,
            }
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

/// Whether the lists are short, have all the keys of their items written out, and no two items of a list but those at
/// the same place of both have the same. Then nothing has to be made to find out which belong together.
fn are_pairs(old: &[Value], new: &[Value], keys: &[impl AsRef<str>]) -> bool {
    let same_key = |one: &Value, other: &Value, key: &str| match (one.get(key), other.get(key)) {
        (Value::String(one), Value::String(other)) => Some(short_text::same(one, other)),
        (Value::Int(one), Value::Int(other)) => Some(one == other),
        _ => None,
    };
    let is_pair = |(one, other)| keys.iter().all(|key| same_key(one, other, key.as_ref()) == Some(true));
    let differ = |one, other| keys.iter().any(|key| same_key(one, other, key.as_ref()) == Some(false));
    let are_distinct = || (1..new.len()).all(|index| new[..index].iter().all(|other| differ(other, &new[index])));
    !keys.is_empty()
        && old.len() == new.len()
        && new.len() <= PAIRED_MAX
        && old.iter().zip(new).all(is_pair)
        && are_distinct()
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::managed::TableView;
    use crate::schema::TypeRef;

    fn conditions() -> TableView {
        let pod = TableView::of(TypeRef::find("io.k8s.api.core.v1.Pod").unwrap());
        let child = |view: TableView, name: &str| match view.child(name) {
            Child::Declared(child) => child,
            _ => panic!("a field"),
        };
        child(child(pod, "status"), "conditions")
    }

    fn entries() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
        let value = prop_oneof![
            proptest::sample::select(vec!["a", "b", "c", "d", "e"]).prop_map(Value::from),
            (1..3i64).prop_map(Value::Int),
            Just(Value::Null),
        ];
        proptest::collection::vec((proptest::sample::select(vec!["type", "status", "reason", "message"]), value), 1..4)
    }

    fn item() -> impl Strategy<Value = Value> {
        entries()
            .prop_map(|entries| entries.into_iter().map(|(key, value)| (Text::new(key), value)).collect::<Vec<_>>())
            .prop_map(|entries| Value::Object(Map::sorted(entries)))
    }

    proptest! {
        #[test]
        fn items_in_pairs_are_those_of_one_element(
            types in proptest::collection::vec("[a-f]", 0..5),
            mut old in proptest::collection::vec(item(), 0..5),
            mut new in proptest::collection::vec(item(), 0..5),
        ) {
            for (index, kind) in types.iter().enumerate() {
                for list in [&mut old, &mut new] {
                    if let Some(item) = list.get_mut(index) {
                        item.set("type", kind.as_str());
                    }
                }
            }
            let schema = conditions();
            if are_pairs(&old, &new, schema.keys()) {
                let (mut one, mut other) = (Walk { broken: false }, Walk { broken: false });
                let found = (one.pairs(&old, &new, schema), one.broken);
                prop_assert_eq!(found, (other.by_element(List::Keyed, &old, &new, schema), other.broken));
            }
        }

        #[test]
        fn the_order_of_entries_does_not_matter(
            old in proptest::collection::btree_map("[a-h]", "[ab]", 0..9),
            new in proptest::collection::btree_map("[a-h]", "[ab]", 0..9),
            turn in 0usize..9,
        ) {
            let in_order: Map = new.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let mut turned = in_order.clone().into_entries();
            let by = turn % turned.len().max(1);
            turned.rotate_left(by);
            let old: Map = old.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let (old, in_order) = (Value::Object(old), Value::Object(in_order));
            let turned = Value::Object(Map::in_order(turned));
            let compare = |new: &Value| Comparison::of(&old, new, TableView::Deduced).unwrap();
            let Comparison { added, modified, removed } = compare(&in_order);
            for (name, value) in old.as_map().iter() {
                let path = [PathElement::Field(name.clone())];
                let is = (added.contains(&path), modified.contains(&path), removed.contains(&path));
                let other = in_order.as_map().get(name);
                prop_assert_eq!(is, (false, other.is_some_and(|other| other != value), other.is_none()));
            }
            for (name, _) in in_order.as_map().iter() {
                let is_new = !old.as_map().contains(name);
                prop_assert_eq!(added.contains(&[PathElement::Field(name.clone())]), is_new);
            }
            prop_assert_eq!(compare(&turned), Comparison { added, modified, removed });
            prop_assert!(same(&in_order, &turned) && same(&in_order, &old) == (in_order == old));
        }
    }
}
