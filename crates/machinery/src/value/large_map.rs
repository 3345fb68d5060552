//! Maps with many entries in no order: looking up and changing a good part of them takes time in proportion to their
//! size, not to its square. A client decides how large its objects are.

use std::collections::BTreeMap;

use super::{LINEAR_MAX, Map, Text, Value};

impl Map {
    /// For looking up a good part of the entries.
    pub(crate) fn index(&self) -> Index<'_> {
        if self.sorted || self.len() <= LINEAR_MAX {
            return Index { map: self, by_key: None };
        }
        let mut by_key: Vec<usize> = (0..self.len()).collect();
        // Stable: of equal keys the first stays first, which is the one that counts.
        by_key.sort_by(|left, right| self.entries[*left].0.cmp(&self.entries[*right].0));
        Index { map: self, by_key: Some(by_key) }
    }

    /// For so many changes. The result is the same as that of changing the map itself.
    pub(crate) fn edit(self, changes: usize) -> Editor {
        if changes <= LINEAR_MAX {
            return Editor::Few(self);
        }
        let positions: BTreeMap<Text, usize> =
            self.entries.iter().enumerate().map(|(position, (key, _))| (key.clone(), position)).collect();
        // Which of several entries of one key is meant, only the map itself knows.
        if positions.len() < self.len() {
            return Editor::Few(self);
        }
        let entries = self.entries.into_iter().map(|(key, value)| (key, Some(value))).collect();
        Editor::Many { entries, positions, sorted: self.sorted }
    }
}

/// A map with its keys at hand.
pub(crate) struct Index<'a> {
    map: &'a Map,
    by_key: Option<Vec<usize>>,
}

impl<'a> Index<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        let Some(by_key) = &self.by_key else { return self.map.get(key) };
        let entry = |position: usize| &self.map.entries[position];
        let first = by_key.partition_point(|position| entry(*position).0.as_str() < key);
        let found = by_key.get(first).map(|position| entry(*position));
        found.filter(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// A map that is being changed.
pub(crate) enum Editor {
    Few(Map),
    Many {
        /// Removed ones leave a gap; new ones go last.
        entries: Vec<(Text, Option<Value>)>,
        positions: BTreeMap<Text, usize>,
        sorted: bool,
    },
}

impl Editor {
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match self {
            Editor::Few(map) => map.get_mut(key),
            Editor::Many { entries, positions, .. } => entries[*positions.get(key)?].1.as_mut(),
        }
    }

    /// The value of `key`, made null where it is absent.
    pub(crate) fn entry(&mut self, key: &str) -> &mut Value {
        match self {
            Editor::Few(map) => map.entry(key),
            Editor::Many { entries, positions, .. } => {
                let position = *positions.entry(Text::new(key)).or_insert(entries.len());
                if position == entries.len() {
                    entries.push((Text::new(key), None));
                }
                entries[position].1.get_or_insert(Value::Null)
            }
        }
    }

    pub(crate) fn insert(&mut self, key: &str, value: Value) {
        *self.entry(key) = value;
    }

    pub(crate) fn remove(&mut self, key: &str) {
        match self {
            Editor::Few(map) => drop(map.remove(key)),
            Editor::Many { entries, positions, .. } => {
                // What comes back later goes last, as in the map itself.
                if let Some(position) = positions.remove(key) {
                    entries[position].1 = None;
                }
            }
        }
    }

    pub(crate) fn finish(self) -> Map {
        match self {
            Editor::Few(map) => map,
            Editor::Many { entries, sorted, .. } => {
                let mut entries: Vec<(Text, Value)> =
                    entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
                if sorted {
                    entries.sort_by(|left, right| left.0.cmp(&right.0));
                }
                Map::of(entries, sorted)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map() -> impl Strategy<Value = Map> {
        let entries = prop::collection::vec(("[a-d]{1,3}", 0..9i64), 0..40);
        (entries, any::<bool>()).prop_map(|(entries, sorted)| {
            let entries = entries.into_iter().map(|(key, value)| (Text::from(key), Value::Int(value))).collect();
            if sorted { Map::sorted(entries) } else { Map::in_order(entries) }
        })
    }

    proptest! {
        #[test]
        fn an_index_finds_what_the_map_finds(map in map(), keys in prop::collection::vec("[a-d]{1,3}", 0..20)) {
            let index = map.index();
            for key in keys.iter().map(String::as_str).chain(map.keys().map(|key| key.as_str())) {
                prop_assert_eq!(index.get(key), map.get(key));
            }
        }

        #[test]
        fn an_editor_changes_as_the_map_does(map in map(), steps in prop::collection::vec(("[a-d]{1,3}", 0..9i64), 0..40)) {
            let (mut plain, mut editor) = (map.clone(), map.edit(100));
            for (key, value) in &steps {
                if value % 3 == 0 {
                    plain.remove(key);
                    editor.remove(key);
                } else {
                    plain.insert(key, *value);
                    editor.insert(key, Value::Int(*value));
                }
                prop_assert_eq!(editor.get_mut(key), plain.get_mut(key));
            }
            let edited = editor.finish();
            prop_assert_eq!(edited.into_entries(), plain.into_entries());
        }
    }
}
