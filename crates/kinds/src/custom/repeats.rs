//! Finding items that are there more than once.

use std::collections::HashMap;

use rkube_machinery::{Value, json};

/// Lists of scalars up to this length are compared item by item: nothing is allocated for them.
const PAIRWISE_MAX: usize = 16;

/// Where each repeated item is there for the second time.
pub(super) fn repeats<'a, T: Iterator<Item = Identity<'a>> + Clone>(items: T, count: usize) -> Vec<usize> {
    if count <= PAIRWISE_MAX && items.clone().all(|item| item.is_scalar()) {
        let earlier = |(index, item): (usize, Identity<'a>)| {
            let equal = items.clone().take(index).filter(|earlier| *earlier == item).count();
            (equal == 1).then_some(index)
        };
        return items.clone().enumerate().filter_map(earlier).collect();
    }
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::with_capacity(count);
    let mut found = Vec::new();
    for (index, item) in items.enumerate() {
        let times = seen.entry(item.key()).or_insert(0);
        if *times == 1 {
            found.push(index);
        }
        *times += 1;
    }
    found
}

/// By what items are told apart. Numbers of different types differ.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Identity<'a> {
    Value(&'a Value),
    /// A key field that is not there.
    Absent,
}

impl Identity<'_> {
    fn is_scalar(self) -> bool {
        !matches!(self, Identity::Value(Value::Array(_) | Value::Object(_)))
    }

    fn key(self) -> Vec<u8> {
        let Identity::Value(value) = self else { return Vec::new() };
        let mark = match value {
            Value::Float(_) => b'f',
            Value::Int(_) => b'i',
            _ => b'v',
        };
        let mut key = vec![mark];
        json::write(value, &mut key);
        key
    }
}
