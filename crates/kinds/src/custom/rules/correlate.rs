//! Which old value belongs to a new one: items of lists by their keys, entries of maps by their names.

use std::cell::OnceCell;
use std::collections::HashMap;

use rkube_machinery::Value;
use rkube_machinery::schema::ListType;
use rkube_machinery::schema::structural::{JsonType, Structural};
use rkube_machinery::value::Text;

/// The items of a list of objects by the values of their keys. Other lists have none.
pub struct Keyed<'a> {
    keys: &'a [Text],
    items: HashMap<Vec<Scalar<'a>>, &'a Value>,
}

#[derive(PartialEq, Eq, Hash)]
enum Scalar<'a> {
    Bool(bool),
    Int(i64),
    Float(u64),
    String(&'a str),
}

impl<'a> Keyed<'a> {
    pub fn new(schema: &'a Structural, items: &'a [Value]) -> Self {
        let is_map = schema.json_type == JsonType::Array && schema.extensions.list_type == Some(ListType::Map);
        let keys: &[Text] = if is_map { &schema.extensions.list_map_keys } else { &[] };
        let mut known = HashMap::new();
        if !keys.is_empty() {
            for item in items {
                if let Some(key) = composite(item, keys) {
                    known.entry(key).or_insert(item);
                }
            }
        }
        Keyed { keys, items: known }
    }

    /// The item with the same keys.
    pub fn get(&self, item: &'a Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&composite(item, self.keys)?).copied()
    }
}

/// The values of the keys; none where one is absent or no scalar.
fn composite<'a>(item: &'a Value, keys: &[Text]) -> Option<Vec<Scalar<'a>>> {
    let Value::Object(map) = item else { return None };
    let scalars = keys.iter().map(|key| match map.get(key)? {
        Value::Bool(value) => Some(Scalar::Bool(*value)),
        Value::Int(value) => Some(Scalar::Int(*value)),
        Value::Float(value) => Some(Scalar::Float(value.to_bits())),
        Value::String(text) => Some(Scalar::String(text)),
        _ => None,
    });
    scalars.collect()
}

/// A value with the one that stood in its place before. Whether they are equal is found out once.
pub struct Correlated<'a> {
    new: &'a Value,
    old: &'a Value,
    schema: &'a Structural,
    equal: OnceCell<bool>,
}

impl<'a> Correlated<'a> {
    pub fn new(new: &'a Value, old: &'a Value, schema: &'a Structural) -> Self {
        Correlated { new, old, schema, equal: OnceCell::new() }
    }

    /// The entry of a map, or the field of an object, where both have it and the schema knows it.
    pub fn key(&self, name: &str) -> Option<Correlated<'a>> {
        let (Value::Object(new), Value::Object(old)) = (self.new, self.old) else { return None };
        let schema = self.schema.property(name).or_else(|| self.schema.map_values())?;
        Some(Correlated::new(new.get(name)?, old.get(name)?, schema))
    }

    /// The item of a list, with the old item that has the same keys.
    pub fn item(&self, index: usize, known: &Keyed<'a>) -> Option<Correlated<'a>> {
        let new = self.new.items().get(index)?;
        Some(Correlated::new(new, known.get(new)?, self.schema.items.as_deref()?))
    }

    pub fn is_equal(&self) -> bool {
        *self.equal.get_or_init(|| is_equal(self.new, self.old, self.schema))
    }
}

/// Whether nothing changed, as far as the schema can tell: what it does not know counts as changed.
fn is_equal(new: &Value, old: &Value, schema: &Structural) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => {
            if schema.extensions.list_type != Some(ListType::Map) {
                return new == old;
            }
            let (known, Some(items)) = (Keyed::new(schema, old), &schema.items) else { return new.is_empty() };
            new.iter().all(|new| known.get(new).is_some_and(|old| is_equal(new, old, items)))
        }
        (Value::Object(new), Value::Object(old)) if new.len() == old.len() => new.iter().all(|(name, new)| {
            let schema = schema.property(name).or_else(|| schema.map_values());
            schema.zip(old.get(name)).is_some_and(|(schema, old)| is_equal(new, old, schema))
        }),
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => false,
        (new, old) => new == old,
    }
}

/// What tells whether an error of an update is forgiven because nothing changed there.
#[derive(Clone, Copy, Default)]
pub struct Ratchet<'r, 'a> {
    current: Option<&'r Correlated<'a>>,
    /// The nearest value around that has an old one.
    around: Option<&'r Correlated<'a>>,
}

impl<'r, 'a> Ratchet<'r, 'a> {
    pub fn root(correlated: &'r Correlated<'a>) -> Self {
        Ratchet { current: Some(correlated), around: None }
    }

    pub fn forgives(self) -> bool {
        self.current.or(self.around).is_some_and(Correlated::is_equal)
    }

    /// What holds for the parts of `allOf`.
    pub fn of_all_of(self) -> Self {
        Ratchet { current: None, around: self.around }
    }

    /// Whether there is an old value here, and so perhaps one of a part.
    pub fn current(self) -> Option<&'r Correlated<'a>> {
        self.current
    }

    /// That of a field or an entry, with the two values that [`Correlated::key`] found.
    pub fn key<'s>(self, name: &str, found: Option<&'s Correlated<'a>>) -> Ratchet<'s, 'a>
    where
        'r: 's,
    {
        match self.current {
            None => self,
            // Both are converted to the same version and kind, so nobody can tell whether these changed.
            Some(_) if self.around.is_none() && matches!(name, "apiVersion" | "kind") => Ratchet::default(),
            Some(current) => Ratchet { current: found, around: Some(current) },
        }
    }

    /// That of an item, with the two values that [`Correlated::item`] found.
    pub fn item<'s>(self, found: Option<&'s Correlated<'a>>) -> Ratchet<'s, 'a>
    where
        'r: 's,
    {
        match self.current {
            None => self,
            Some(current) => Ratchet { current: found, around: Some(current) },
        }
    }
}
