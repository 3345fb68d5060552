//! When keys are to be added: of each the earliest time that was asked for.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::quality::RandomState;
use tokio::time::Instant;

pub(super) struct Deadlines<K> {
    by_key: HashMap<K, Deadline, RandomState>,
    by_time: BTreeMap<(Instant, u64), K>,
    next: u64,
}

struct Deadline {
    /// The number tells keys of one time apart.
    place: (Instant, u64),
    /// A back-off ends then, or later.
    retry: bool,
}

impl<K: Clone + Eq + Hash> Deadlines<K> {
    pub fn new() -> Self {
        Deadlines { by_key: HashMap::default(), by_time: BTreeMap::new(), next: 0 }
    }

    /// Whether this is now the earliest of all.
    pub fn set(&mut self, key: K, at: Instant, mut retry: bool) -> bool {
        if let Some(known) = self.by_key.get_mut(&key) {
            retry |= known.retry;
            if known.place.0 <= at {
                known.retry = retry;
                return false;
            }
            self.by_time.remove(&known.place);
        }
        let place = (at, self.next);
        self.next += 1;
        self.by_key.insert(key.clone(), Deadline { place, retry });
        self.by_time.insert(place, key);
        self.earliest() == Some(at)
    }

    pub fn earliest(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|(place, _)| place.0)
    }

    /// Takes a key whose time has come, and whether a back-off was part of it.
    pub fn take(&mut self, now: Instant) -> Option<(K, bool)> {
        let first = self.by_time.first_entry().filter(|first| first.key().0 <= now)?;
        let key = first.remove();
        let retry = self.by_key.remove(&key).is_some_and(|known| known.retry);
        Some((key, retry))
    }
}
