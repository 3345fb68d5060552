//! The one form in which objects are worked on: an ordered JSON tree.
//!
//! Why not typed structs: one code path serves built-in kinds and custom resources, an absent field reads as its
//! zero value as in Go ([`Value::str`], [`Value::int`], …), and a Pod takes a few kilobytes instead of thirty.
//!
//! What holds:
//! - A [`Map`] keeps its entries in the order in which they are written out: struct fields in the schema's order,
//!   everything else sorted by key. `decode` brings a parsed document into that form.
//! - Strings and keys are cheap to clone (inline up to 23 bytes, shared above).

mod alike;
mod distinct;
mod large_map;

use smol_str::SmolStr;

pub use distinct::Distinct;
pub(crate) use large_map::Editor;

use crate::short_text;

/// A key or a string value.
pub type Text = SmolStr;

/// Texts of so many bytes stand where they are used and not beside it.
const INLINE_MAX: usize = 23;

/// A key of a map. Where it can be, it stands in the map itself: it is found faster.
pub const fn key(name: &'static str) -> Text {
    if name.len() <= INLINE_MAX { Text::new_inline(name) } else { Text::new_static(name) }
}

/// A [`Text`] of this, made with less copying to and fro than `Text::new` takes.
#[inline]
pub(crate) fn text_of(text: &str) -> Text {
    if text.len() <= INLINE_MAX { Text::new_inline(text) } else { Text::new(text) }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(Text),
    Array(Vec<Value>),
    Object(Map),
    /// JSON text: an object on its way to the store, or a number on its way into its type, as it was sent. Nobody looks
    /// into it, and nothing that is read has one.
    Written(Box<str>),
}

static NULL: Value = Value::Null;
static EMPTY_MAP: Map = Map::new();

/// Readers. An absent or wrongly typed field reads as the zero value: after decoding, types are right.
impl Value {
    /// The field of this object; [`Value::Null`] where there is none.
    #[inline]
    pub fn get(&self, key: &str) -> &Value {
        match self {
            Value::Object(map) => map.get(key).unwrap_or(&NULL),
            _ => &NULL,
        }
    }

    /// The field at the end of this path of field names.
    pub fn at(&self, path: &[impl AsRef<str>]) -> &Value {
        path.iter().fold(self, |value, key| value.get(key.as_ref()))
    }

    /// The string field, empty where there is none.
    #[inline]
    pub fn str(&self, key: &str) -> &str {
        self.get(key).as_str()
    }

    /// The integer field, zero where there is none.
    #[inline]
    pub fn int(&self, key: &str) -> i64 {
        self.get(key).as_int().unwrap_or(0)
    }

    /// The boolean field, false where there is none.
    #[inline]
    pub fn bool(&self, key: &str) -> bool {
        matches!(self.get(key), Value::Bool(true))
    }

    /// The list field's items, empty where there is none.
    #[inline]
    pub fn list(&self, key: &str) -> &[Value] {
        self.get(key).items()
    }

    /// The map field, empty where there is none.
    #[inline]
    pub fn map(&self, key: &str) -> &Map {
        self.get(key).as_map()
    }

    /// Whether the field is there and not null.
    #[inline]
    pub fn has(&self, key: &str) -> bool {
        !self.get(key).is_null()
    }

    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    #[inline]
    pub fn as_str(&self) -> &str {
        match self {
            Value::String(text) => text,
            _ => "",
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    #[inline]
    pub fn items(&self) -> &[Value] {
        match self {
            Value::Array(items) => items,
            _ => &[],
        }
    }

    #[inline]
    pub fn as_map(&self) -> &Map {
        match self {
            Value::Object(map) => map,
            _ => &EMPTY_MAP,
        }
    }

    /// Go's idea of empty: null, false, 0, "", an empty list or map.
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(flag) => !flag,
            Value::Int(number) => *number == 0,
            Value::Float(number) => *number == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Written(_) => false,
        }
    }
}

/// Writers.
impl Value {
    pub fn object() -> Value {
        Value::Object(Map::new())
    }

    /// The field for writing; makes this an object and the field null where they are not there yet.
    pub fn get_mut(&mut self, key: &str) -> &mut Value {
        self.make_map().entry(key)
    }

    /// The field for writing, where it is there and not null.
    pub fn find_mut(&mut self, key: &str) -> Option<&mut Value> {
        match self {
            Value::Object(map) => map.get_mut(key).filter(|value| !value.is_null()),
            _ => None,
        }
    }

    /// The field as an object for writing, made where it is not one.
    pub fn object_mut(&mut self, key: &str) -> &mut Value {
        let field = self.get_mut(key);
        field.make_map();
        field
    }

    /// The list field's items for writing; empty where there is none (nothing is made).
    pub fn list_mut(&mut self, key: &str) -> &mut [Value] {
        match self.find_mut(key) {
            Some(Value::Array(items)) => items,
            _ => &mut [],
        }
    }

    /// The list field for writing, made where it is not one.
    pub fn array_mut(&mut self, key: &str) -> &mut Vec<Value> {
        let field = self.get_mut(key);
        if !matches!(field, Value::Array(_)) {
            *field = Value::Array(Vec::new());
        }
        match field {
            Value::Array(items) => items,
            _ => unreachable!("made an array above"),
        }
    }

    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        *self.get_mut(key) = value.into();
    }

    /// Sets the field where it is absent, null or empty in Go's sense; says whether it did.
    pub fn set_default(&mut self, key: &str, value: impl Into<Value>) -> bool {
        let field = self.get_mut(key);
        let unset = field.is_empty() && !matches!(field, Value::Bool(_));
        if unset {
            *field = value.into();
        }
        unset
    }

    /// Sets the field where it is absent or null (a pointer in Go); says whether it did.
    pub fn set_if_absent(&mut self, key: &str, value: impl Into<Value>) -> bool {
        let unset = !self.has(key);
        if unset {
            self.set(key, value);
        }
        unset
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        match self {
            Value::Object(map) => map.remove(key),
            _ => None,
        }
    }

    /// This as a map, made an empty one where it is something else.
    pub fn make_map(&mut self) -> &mut Map {
        if !matches!(self, Value::Object(_)) {
            *self = Value::object();
        }
        match self {
            Value::Object(map) => map,
            _ => unreachable!("made an object above"),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text_of(text))
    }
}
impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(Text::from(text))
    }
}
impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Value::String(text)
    }
}
impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}
impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}
impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Value::Int(number.into())
    }
}
impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::Array(items)
    }
}
impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Value::Object(map)
    }
}

/// Ordered entries. Small maps are searched from front to back, large sorted ones by halving.
#[derive(Clone, Debug)]
pub struct Map {
    entries: Vec<(Text, Value)>,
    /// Entries are in ascending key order and new ones are put where they belong; otherwise new ones go last.
    sorted: bool,
    /// The marks of all keys, and perhaps of some that are gone: most of the keys that are asked for are not there.
    marks: u32,
}

/// Maps of this size and below are searched linearly.
const LINEAR_MAX: usize = 12;

/// Keys up to this length are compared without a call.
const SHORT_MAX: usize = 16;

impl Map {
    pub const fn new() -> Self {
        Map { entries: Vec::new(), sorted: true, marks: 0 }
    }

    /// A map whose entries stay in the order in which they are added.
    pub fn in_order(entries: Vec<(Text, Value)>) -> Self {
        let (mut sorted, mut marks) = (true, 0);
        let mut before: Option<(&str, u64)> = None;
        for (key, _) in &entries {
            marks |= short_text::mark(key);
            if sorted {
                let first = short_text::first(key);
                sorted = before.is_none_or(|(before, start)| start < first || start == first && before < key.as_str());
                before = Some((key, first));
            }
        }
        Map { entries, sorted, marks }
    }

    /// A map sorted by key; of entries with the same key the last one stays.
    pub fn sorted(mut entries: Vec<(Text, Value)>) -> Self {
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        entries.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(&mut later.1, &mut earlier.1);
            }
            same
        });
        Map::of(entries, true)
    }

    fn of(entries: Vec<(Text, Value)>, sorted: bool) -> Self {
        let marks = entries.iter().fold(0, |marks, entry| marks | short_text::mark(&entry.0));
        Map { entries, sorted, marks }
    }

    /// Where the entry of this key is.
    #[inline]
    fn find(&self, key: &str) -> Option<usize> {
        if self.marks & short_text::mark(key) == 0 { None } else { self.search(key) }
    }

    fn search(&self, key: &str) -> Option<usize> {
        if key.len() > SHORT_MAX || self.entries.len() > LINEAR_MAX {
            return self.search_long(key);
        }
        // Most keys are of another length, and to see that takes less than to read them.
        self.entries.iter().position(|entry| entry.0.len() == key.len() && short_text::same(&entry.0, key))
    }

    /// For keys and maps that need more room than a quick look has.
    #[inline(never)]
    fn search_long(&self, key: &str) -> Option<usize> {
        if self.sorted && self.entries.len() > LINEAR_MAX {
            return self.entries.binary_search_by(|entry| short_text::order(&entry.0, key)).ok();
        }
        self.entries.iter().position(|entry| entry.0.len() == key.len() && short_text::same(&entry.0, key))
    }

    /// Where a new entry of this key belongs.
    fn place(&self, key: &str) -> usize {
        match self.sorted {
            true => self.entries.partition_point(|entry| short_text::order(&entry.0, key).is_lt()),
            false => self.entries.len(),
        }
    }

    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.find(key).map(|index| &self.entries[index].1)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.find(key).map(|index| &mut self.entries[index].1)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// The value of `key`, made null where it is absent.
    pub fn entry(&mut self, key: &str) -> &mut Value {
        let index = self.find(key).unwrap_or_else(|| {
            let index = self.place(key);
            self.entries.insert(index, (text_of(key), Value::Null));
            self.marks |= short_text::mark(key);
            index
        });
        &mut self.entries[index].1
    }

    pub fn insert(&mut self, key: impl AsRef<str>, value: impl Into<Value>) {
        *self.entry(key.as_ref()) = value.into();
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.find(key).map(|index| self.entries.remove(index).1)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&str, &mut Value) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the entries are in the order of their keys.
    pub(crate) fn is_sorted(&self) -> bool {
        self.sorted || self.entries.is_sorted_by(|left, right| left.0 < right.0)
    }

    /// Sorts the entries by key, and remembers that: thousands of operations of a patch ask for it.
    pub(crate) fn sort(&mut self) {
        if !self.sorted {
            *self = Map::sorted(std::mem::take(&mut self.entries));
        }
    }

    /// The entry at this place.
    pub(crate) fn at(&self, place: usize) -> (&Text, &Value) {
        let (key, value) = &self.entries[place];
        (key, value)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Text, &Value)> + ExactSizeIterator {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Text, &mut Value)> {
        self.entries.iter_mut().map(|(key, value)| (&*key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.entries.iter().map(|(key, _)| key)
    }

    pub fn into_entries(self) -> Vec<(Text, Value)> {
        self.entries
    }

    /// The string at `key`, empty where there is none.
    pub fn str(&self, key: &str) -> &str {
        self.get(key).map_or("", Value::as_str)
    }
}

impl Default for Map {
    fn default() -> Self {
        Map::new()
    }
}

/// Equality does not look at the order of entries.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        let in_step = self.entries.iter().zip(&other.entries).all(|(left, right)| left.0 == right.0);
        if in_step {
            return self.entries.iter().zip(&other.entries).all(|(left, right)| left.1 == right.1);
        }
        let other = other.index();
        self.entries.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Into<Text>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Map::in_order(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

/// An object in the order written: `object! { "name": "x", "ports": [] }` for tests and small answers.
#[macro_export]
macro_rules! object {
    ($($key:literal : $value:expr),* $(,)?) => {
        $crate::value::Value::Object($crate::value::Map::in_order(vec![
            $((const { $crate::value::key($key) }, $crate::value::Value::from($value))),*
        ]))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_read_as_zero() {
        let value = object! { "name": "x", "count": 3 };
        assert_eq!(value.str("name"), "x");
        assert_eq!(value.str("missing"), "");
        assert_eq!(value.int("count"), 3);
        assert_eq!(value.at(&["a", "b"]), &Value::Null);
        assert!(value.list("count").is_empty());
    }

    #[test]
    fn sorted_maps_stay_sorted_and_large_ones_are_found() {
        let mut map = Map::new();
        for number in (0..100).rev() {
            map.insert(format!("k{number:03}"), i64::from(number));
        }
        let keys: Vec<_> = map.keys().cloned().collect();
        assert!(keys.is_sorted());
        assert_eq!(map.get("k042"), Some(&Value::Int(42)));
        assert_eq!(map.remove("k042"), Some(Value::Int(42)));
        assert!(!map.contains("k042"));
    }

    #[test]
    fn last_of_equal_keys_stays() {
        let map =
            Map::sorted(vec![("b".into(), Value::Int(1)), ("a".into(), Value::Int(2)), ("b".into(), Value::Int(3))]);
        assert_eq!(map.len(), 2);
        assert_eq!(map.get("b"), Some(&Value::Int(3)));
    }
}
