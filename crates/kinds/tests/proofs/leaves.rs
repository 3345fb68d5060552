//! The leaves of an object as managed fields see them: what is owned as one thing.

use std::collections::{BTreeMap, BTreeSet};

use rkube_machinery::managed::{Child, FieldSet, Form, List, PathElement, SchemaView, TableView};
use rkube_machinery::{Map, Type, Value};

use crate::generator::Random;

/// Leaves by their path. An item of a list of structs is no leaf, its fields are.
pub type Leaves = BTreeMap<Vec<PathElement>, Value>;

/// The leaves; none where items of a list have no identity of their own, which managed fields cannot tell apart.
pub fn leaves(value: &Value, schema: &'static Type) -> Option<Leaves> {
    let mut walk = Walk { leaves: Leaves::new(), nodes: BTreeSet::new(), ambiguous: false };
    walk.visit(TableView::Object(schema), value, &mut Vec::new());
    (!walk.ambiguous).then_some(walk.leaves)
}

/// Every path of the object, leaves and what contains them.
pub fn nodes(value: &Value, schema: &'static Type) -> BTreeSet<Vec<PathElement>> {
    let mut walk = Walk { leaves: Leaves::new(), nodes: BTreeSet::new(), ambiguous: false };
    walk.visit(TableView::Object(schema), value, &mut Vec::new());
    walk.nodes
}

/// Some of the leaves, chosen at random, and what is needed to say them: keys of items, and name and type of the object.
pub fn some(random: &mut Random, value: &Value, schema: &'static Type) -> Value {
    let mut part = part(random, TableView::Object(schema), value).unwrap_or_else(Value::object);
    for field in ["apiVersion", "kind"] {
        part.set(field, value.get(field).clone());
    }
    let name = value.get("metadata").get("name").clone();
    part.object_mut("metadata").set("name", name);
    part
}

/// As messages show it: `.spec.containers[name="a"].image`.
pub fn describe(path: &[PathElement]) -> String {
    let mut text = String::new();
    path.iter().for_each(|element| element.describe(&mut text));
    text
}

/// What the entries of `metadata.managedFields` say, by manager.
pub fn owners(object: &Value) -> BTreeMap<String, FieldSet> {
    let entries = object.get("metadata").list("managedFields").iter();
    let set = |entry: &Value| FieldSet::from_fields_v1(entry.get("fieldsV1")).unwrap();
    entries.map(|entry| (entry.str("manager").to_owned(), set(entry))).collect()
}

struct Walk {
    leaves: Leaves,
    nodes: BTreeSet<Vec<PathElement>>,
    ambiguous: bool,
}

impl Walk {
    fn visit(&mut self, view: TableView, value: &Value, path: &mut Vec<PathElement>) {
        if !path.is_empty() {
            self.ambiguous |= !self.nodes.insert(path.clone());
        }
        match (view.form(value), value) {
            (_, Value::Null) => {}
            (Form::Map { atomic: false }, Value::Object(map)) if !map.is_empty() => {
                for (key, child) in map.iter() {
                    self.step(child_of(view, key), child, PathElement::Field(key.clone()), path);
                }
            }
            (Form::List(List::Set), Value::Array(items)) if !items.is_empty() => {
                items.iter().for_each(|item| self.step(view.item(), item, PathElement::Value(item.clone()), path));
            }
            (Form::List(List::Keyed), Value::Array(items)) if !items.is_empty() => {
                for item in items {
                    let key = key_of(view, item);
                    self.ambiguous |= matches!(&key, PathElement::Key(fields) if fields.len() < view.keys().len());
                    self.step(view.item(), item, key, path);
                }
            }
            _ => drop(self.leaves.insert(path.clone(), value.clone())),
        }
    }

    fn step(&mut self, view: TableView, value: &Value, element: PathElement, path: &mut Vec<PathElement>) {
        path.push(element);
        self.visit(view, value, path);
        path.pop();
    }
}

fn child_of(view: TableView, key: &str) -> TableView {
    match view.child(key) {
        Child::Declared(view) | Child::Entry(view) => view,
        Child::Unknown => TableView::Deduced,
    }
}

fn key_of(view: TableView, item: &Value) -> PathElement {
    let value = |key: &&'static str| match item.get(key) {
        Value::Null => view.item().key_default(key).map(|value| ((*key).into(), value)),
        value => Some(((*key).into(), value.clone())),
    };
    PathElement::key(view.keys().iter().filter_map(value).collect())
}

fn part(random: &mut Random, view: TableView, value: &Value) -> Option<Value> {
    match (view.form(value), value) {
        (_, Value::Null) => None,
        (Form::Map { atomic: false }, Value::Object(map)) if !map.is_empty() => {
            let children = map
                .iter()
                .filter_map(|(key, child)| part(random, child_of(view, key), child).map(|child| (key.clone(), child)));
            let children: Vec<_> = children.collect();
            (!children.is_empty()).then(|| Value::Object(Map::in_order(children)))
        }
        (Form::List(List::Keyed), Value::Array(items)) if !items.is_empty() => {
            let items: Vec<Value> = items.iter().filter_map(|item| item_part(random, view, item)).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        (Form::List(List::Set), Value::Array(items)) if !items.is_empty() => {
            let items: Vec<Value> = items.iter().filter(|_| random.one_in(2)).cloned().collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        _ => random.one_in(2).then(|| value.clone()),
    }
}

/// Part of an item, always with its keys; or no item.
fn item_part(random: &mut Random, view: TableView, item: &Value) -> Option<Value> {
    if random.one_in(3) {
        return None;
    }
    let mut kept = part(random, view.item(), item).unwrap_or_else(Value::object);
    for key in view.keys().iter().filter(|key| item.has(key)) {
        kept.set(key, item.get(key).clone());
    }
    Some(kept)
}
