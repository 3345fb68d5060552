//! The applied configuration laid over the live object.

use super::compare::{entries, is_empty, item_element, items};
use super::element::PathElement;
use super::view::{Child, Form, List, SchemaView};
use crate::value::{Map, Value};

/// The live value with what the configuration says put over it; nothing is removed. None where nothing is left.
pub(super) fn merge<S: SchemaView>(live: Option<&Value>, config: Option<&Value>, schema: S) -> Option<Value> {
    let form = match (live, config) {
        (_, Some(config)) if !config.is_null() => schema.form(config),
        (Some(live), _) => schema.form(live),
        _ => schema.form(&Value::Null),
    };
    match form {
        Form::Map { atomic: false } => {
            let (left, right) = (entries(live), entries(config));
            match is_empty(left) && is_empty(right) {
                true => keep_config(live, config),
                false => merge_maps(left, right, schema),
            }
        }
        Form::List(kind @ (List::Set | List::Keyed)) => {
            let (left, right) = (items(live), items(config));
            match left.is_empty() && right.is_empty() {
                true => keep_config(live, config),
                false => merge_lists(kind, left, right, schema),
            }
        }
        _ => keep_config(live, config),
    }
}

fn keep_config(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    config.or(live).cloned()
}

fn merge_maps<S: SchemaView>(live: Option<&Map>, config: Option<&Map>, schema: S) -> Option<Value> {
    let mut merged = Vec::new();
    let mut put = |name: &crate::value::Text, left: Option<&Value>, right: Option<&Value>| {
        let value = match schema.child(name) {
            Child::Declared(child) | Child::Entry(child) => merge(left, right, child),
            Child::Unknown => keep_config(left, right),
        };
        merged.extend(value.map(|value| (name.clone(), value)));
    };
    let (in_live, in_config) = (live.map(Map::index), config.map(Map::index));
    for (name, value) in live.into_iter().flat_map(Map::iter) {
        put(name, Some(value), in_config.as_ref().and_then(|config| config.get(name)));
    }
    for (name, value) in config.into_iter().flat_map(Map::iter) {
        if !in_live.as_ref().is_some_and(|live| live.contains(name)) {
            put(name, None, Some(value));
        }
    }
    (!merged.is_empty()).then(|| Value::Object(Map::in_order(merged)))
}

/// One side of a list: its elements in order, and where each is found first.
struct Side<'a> {
    order: Vec<(PathElement, &'a Value)>,
    /// Positions in `order`, sorted by element, the first of equal ones, and whether there are others.
    sorted: Vec<(usize, bool)>,
}

impl<'a> Side<'a> {
    fn new<S: SchemaView>(kind: List, list: &'a [Value], schema: S) -> Self {
        let order: Vec<_> =
            list.iter().filter_map(|item| Some((item_element(kind, schema, item).ok()?, item))).collect();
        let mut sorted: Vec<(usize, bool)> = (0..order.len()).map(|position| (position, false)).collect();
        sorted.sort_by(|left, right| order[left.0].0.cmp(&order[right.0].0));
        sorted.dedup_by(|later, earlier| {
            let repeats = order[later.0].0 == order[earlier.0].0;
            earlier.1 |= repeats;
            repeats
        });
        Side { order, sorted }
    }

    /// Where the element stands first, and whether it is repeated.
    fn locate(&self, element: &PathElement) -> Option<(usize, bool)> {
        let found = self.sorted.binary_search_by(|(position, _)| self.order[*position].0.cmp(element)).ok()?;
        Some(self.sorted[found])
    }

    fn find(&self, element: &PathElement) -> Option<usize> {
        self.locate(element).map(|(position, _)| position)
    }

    fn has(&self, element: &PathElement) -> bool {
        self.find(element).is_some()
    }

    /// The item to merge with; one that is repeated has no say.
    fn value(&self, element: &PathElement) -> Option<&'a Value> {
        let (first, repeated) = self.locate(element)?;
        Some(if repeated { &Value::Null } else { self.order[first].1 })
    }
}

/// Items that both sides have come in the configuration's order, the others stay near where they stood.
fn merge_lists<S: SchemaView>(kind: List, live: &[Value], config: &[Value], schema: S) -> Option<Value> {
    let (left, right) = (Side::new(kind, live, schema), Side::new(kind, config, schema));
    let item = schema.item();
    let mut shared = right.order.iter().map(|(element, _)| element).filter(|element| left.has(element));
    let mut next_shared = shared.next();
    let mut merged = Vec::with_capacity(left.order.len().max(right.order.len()));
    let mut done = vec![false; right.order.len()];
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left.order.len() || at_right < right.order.len() {
        if let (Some((element, _)), Some((wanted, _))) = (left.order.get(at_left), right.order.get(at_right)) {
            if element == wanted {
                done[at_right] = true;
                merged.extend(merge(left.value(element), right.value(element), item));
                (at_left, at_right) = (at_left + 1, at_right + 1);
                next_shared = shared.next();
                continue;
            }
            if right.has(element) && next_shared.is_some_and(|next| next != element) {
                at_left += 1;
                continue;
            }
        }
        if let Some((element, value)) = left.order.get(at_left) {
            match right.find(element) {
                None => {
                    merged.extend(merge(Some(value), None, item));
                    at_left += 1;
                    continue;
                }
                Some(position) if done[position] => at_left += 1,
                Some(_) => {}
            }
        }
        if let Some((element, _)) = right.order.get(at_right) {
            done[at_right] = true;
            merged.extend(merge(left.value(element), right.value(element), item));
            at_right += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged))
}
