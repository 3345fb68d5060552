//! Finding items by what identifies them, in time that does not grow with the list.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::PatchError;
use super::same;
use crate::value::{Text, Value};

/// Shorter lists are searched from the start: that is quicker than to index them.
const SHORT_MAX: usize = 16;

/// A scalar that can be looked up. Two are equal where the values are.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(Text),
}

impl Key {
    /// None for lists and objects, which are never looked for.
    fn of(value: &Value) -> Option<Key> {
        Some(match value {
            Value::Null => Key::Null,
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            // The two zeros are equal.
            Value::Float(value) => Key::Float((value + 0.0).to_bits()),
            Value::String(text) => Key::Text(text.clone()),
            Value::Array(_) | Value::Object(_) | Value::Written(_) => return None,
        })
    }
}

/// The first position of each value in a list that the caller keeps.
pub(super) struct Index {
    firsts: HashMap<Key, usize>,
    length: usize,
}

impl Index {
    /// `values`: what identifies the items; none for those that cannot be found.
    /// `length`: how long the list may become.
    pub(super) fn new<'v>(values: impl Iterator<Item = Option<&'v Value>>, length: usize) -> Index {
        let mut index = Index { firsts: HashMap::new(), length: 0 };
        if length > SHORT_MAX {
            values.for_each(|value| index.push(value));
        }
        index
    }

    /// Follows the list as it grows.
    pub(super) fn push(&mut self, value: Option<&Value>) {
        if let Some(key) = value.and_then(Key::of) {
            self.firsts.entry(key).or_insert(self.length);
        }
        self.length += 1;
    }

    /// The first item with this value. `identify` is what the index was made with.
    pub(super) fn find(
        &self,
        list: &[Value],
        identify: impl Fn(&Value) -> Option<&Value>,
        wanted: &Value,
    ) -> Result<Option<usize>, PatchError> {
        if self.length == list.len()
            && let Some(key) = Key::of(wanted)
        {
            return Ok(self.firsts.get(&key).copied());
        }
        for (position, item) in list.iter().enumerate() {
            if let Some(value) = identify(item)
                && same(value, wanted)?
            {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }
}

/// Scalars that are looked up among others.
pub(super) struct Among<'a> {
    values: &'a [Value],
    keys: HashSet<Key>,
}

impl<'a> Among<'a> {
    pub(super) fn new(values: &'a [Value]) -> Among<'a> {
        let keys = if values.len() > SHORT_MAX { values.iter().filter_map(Key::of).collect() } else { HashSet::new() };
        Among { values, keys }
    }

    pub(super) fn contains(&self, value: &Value) -> bool {
        match Key::of(value) {
            Some(key) if self.values.len() > SHORT_MAX => self.keys.contains(&key),
            _ => self.values.contains(value),
        }
    }
}

/// Each scalar once. A repeated one gives its place to the last of all.
pub(super) fn without_repetition(mut values: Vec<Value>) -> Vec<Value> {
    let mut places: HashMap<Key, BTreeSet<usize>> = HashMap::new();
    for (place, key) in values.iter().enumerate().filter_map(|(place, value)| Some((place, Key::of(value)?))) {
        places.entry(key).or_default().insert(place);
    }
    let mut first = 0;
    while first < values.len() {
        let key = Key::of(&values[first]);
        first += 1;
        let Some(key) = key else { continue };
        while let Some(repeated) = places.get_mut(&key).and_then(|places| take_from(places, first)) {
            let last = values.len() - 1;
            if let Some(moved) = Key::of(&values[last]).and_then(|moved| places.get_mut(&moved))
                && last > repeated
            {
                moved.remove(&last);
                moved.insert(repeated);
            }
            values.swap_remove(repeated);
        }
    }
    values
}

/// Takes out the first place that is not before this one.
fn take_from(places: &mut BTreeSet<usize>, start: usize) -> Option<usize> {
    let found = places.range(start..).next().copied()?;
    places.remove(&found);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it should do, said slowly.
    fn slowly(mut values: Vec<Value>) -> Vec<Value> {
        let mut first = 0;
        while first < values.len() {
            let mut second = first + 1;
            while second < values.len() {
                if values[first] == values[second] {
                    values.swap_remove(second);
                } else {
                    second += 1;
                }
            }
            first += 1;
        }
        values
    }

    #[test]
    fn repetitions_are_taken_out_in_the_same_order() {
        let mut state = 7_u64;
        for length in 0..200 {
            let mut next = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % bound
            };
            let bound = 1 + next(40);
            let values: Vec<Value> = (0..length).map(|_| Value::Int(next(bound) as i64)).collect();
            assert_eq!(without_repetition(values.clone()), slowly(values));
        }
    }

    #[test]
    fn long_lists_are_searched_as_short_ones_are() {
        let values: Vec<Value> = (0..100).map(|number| Value::from(format!("{}", number % 50))).collect();
        let index = Index::new(values.iter().map(Some), values.len());
        for wanted in ["0", "49", "50", "x"].map(Value::from) {
            let expected = values.iter().position(|value| *value == wanted);
            assert_eq!(index.find(&values, |item| Some(item), &wanted).unwrap(), expected);
            assert_eq!(Among::new(&values).contains(&wanted), expected.is_some());
        }
        assert!(index.find(&values, |item| Some(item), &Value::Array(Vec::new())).unwrap().is_none());
    }
}
