//! Which values were met before, in time that does not grow with their number.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Value;

/// The first few are compared one by one.
const FEW: usize = 8;

/// Values met so far.
#[derive(Default)]
pub struct Distinct<'a> {
    values: Vec<&'a Value>,
    /// Where in `values` those of a hash are, once there are more than a few.
    by_hash: HashMap<u64, Vec<usize>>,
}

impl<'a> Distinct<'a> {
    pub fn new() -> Self {
        Distinct::default()
    }

    /// All of these.
    pub fn of(values: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut distinct = Distinct::new();
        for value in values {
            distinct.add(value);
        }
        distinct
    }

    pub fn has(&self, value: &Value) -> bool {
        match self.values.len() {
            0..=FEW => self.values.contains(&value),
            _ => self.has_hashed(hash_of(value), value),
        }
    }

    /// Remembers the value; says whether it is new.
    pub fn add(&mut self, value: &'a Value) -> bool {
        if self.values.len() < FEW {
            let fresh = !self.values.contains(&value);
            if fresh {
                self.values.push(value);
            }
            return fresh;
        }
        if self.by_hash.is_empty() {
            for (position, value) in self.values.iter().enumerate() {
                self.by_hash.entry(hash_of(value)).or_default().push(position);
            }
        }
        let hash = hash_of(value);
        let fresh = !self.has_hashed(hash, value);
        if fresh {
            self.by_hash.entry(hash).or_default().push(self.values.len());
            self.values.push(value);
        }
        fresh
    }

    fn has_hashed(&self, hash: u64, value: &Value) -> bool {
        self.by_hash.get(&hash).is_some_and(|positions| positions.iter().any(|at| self.values[*at] == value))
    }
}

/// Equal values have equal hashes. Maps are equal whatever the order of their entries.
fn hash_of(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::mem::discriminant(value).hash(&mut hasher);
    match value {
        Value::Null => {}
        Value::Bool(flag) => flag.hash(&mut hasher),
        Value::Int(number) => number.hash(&mut hasher),
        // The two zeros are equal.
        Value::Float(number) => (number + 0.0).to_bits().hash(&mut hasher),
        Value::String(text) => text.as_str().hash(&mut hasher),
        Value::Array(items) => items.iter().for_each(|item| hash_of(item).hash(&mut hasher)),
        Value::Object(map) => {
            let entry = |(key, value): (&super::Text, &Value)| {
                let mut hasher = DefaultHasher::new();
                key.as_str().hash(&mut hasher);
                hash_of(value).hash(&mut hasher);
                hasher.finish()
            };
            map.iter().map(entry).fold(0, u64::wrapping_add).hash(&mut hasher);
        }
        Value::Written(text) => text.hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn values_are_met_once() {
        let value = |number: i64| match number % 2 {
            0 => object! { "a": number / 2, "b": "x" },
            _ => object! { "b": "x", "a": number / 2 },
        };
        let values: Vec<Value> = (0..100).map(value).collect();
        let mut distinct = Distinct::new();
        let fresh = values.iter().filter(|value| distinct.add(value)).count();
        assert_eq!(fresh, 50);
        assert!(distinct.has(&object! { "b": "x", "a": 49 }) && !distinct.has(&object! { "b": "x", "a": 50 }));
        assert!(Distinct::of(&values[..4]).has(&values[1]) && !Distinct::of(&values[..4]).has(&values[4]));
    }

    #[test]
    fn the_step_from_few_to_many_loses_none() {
        let values: Vec<Value> = (0..40).map(|number| Value::Int(number % 20)).collect();
        let mut distinct = Distinct::new();
        for (index, value) in values.iter().enumerate() {
            assert_eq!(distinct.has(value), index >= 20, "{index}");
            assert_eq!(distinct.add(value), index < 20, "{index}");
        }
    }
}
