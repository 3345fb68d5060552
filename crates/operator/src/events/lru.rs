//! A map that forgets what was not looked at for the longest time.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::quality::RandomState;

pub(super) struct Lru<K, V> {
    entries: HashMap<K, (V, u64), RandomState>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
    max: usize,
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    pub fn new(max: usize) -> Self {
        Lru { entries: HashMap::default(), by_use: BTreeMap::new(), uses: 0, max }
    }

    /// The value of a key, which is made where there is none.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        let uses = self.uses;
        if let Some((_, used)) = self.entries.get(&key) {
            self.by_use.remove(used);
        } else if self.entries.len() >= self.max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_use.insert(uses, key);
        let entry = self.entries.entry(key).or_insert_with(|| (make(), uses));
        entry.1 = uses;
        &mut entry.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_unused_for_longest_goes() {
        let mut lru = Lru::new(2);
        for key in ["a", "b", "a", "c"] {
            *lru.entry(key, || 0) += 1;
        }
        assert_eq!((*lru.entry("a", || 0), *lru.entry("b", || 0)), (2, 0));
        assert_eq!((lru.entries.len(), lru.by_use.len()), (2, 2));
    }
}
