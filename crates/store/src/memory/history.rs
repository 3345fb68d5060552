//! The recent past: a bounded ring of changes.
//!
//! Serves watches that begin at an earlier revision and reads as of one. An entry keeps alive the value that its
//! change replaced, nothing else: the value it wrote lies in the map, or is what the next entry for the key
//! replaced. Notes are not kept, they would hold far more memory than the bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::contract::{Event, EventKind, KeyValue, LeaseId, Revision};

/// At most so many changes are kept; older ones are compacted away.
pub const HISTORY_EVENTS_MAX: usize = 100_000;
/// At most so many bytes of replaced values and bookkeeping are kept; older changes are compacted away.
pub const HISTORY_BYTES_MAX: usize = 8 << 20;

/// One change of one key, without what can be derived.
pub(crate) struct Entry {
    pub key: Arc<str>,
    /// The value written; for a deletion the last one.
    pub value: Bytes,
    pub create_revision: Revision,
    pub revision: Revision,
    pub lease: Option<LeaseId>,
    pub deleted: bool,
    pub previous: Option<Previous>,
}

/// What a change replaced. Its key and, where it exists, its creation are those of the change.
#[derive(Clone)]
pub(crate) struct Previous {
    pub value: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    pub lease: Option<LeaseId>,
}

impl Entry {
    pub(crate) fn previous(&self) -> Option<KeyValue> {
        self.previous.as_ref().map(|previous| KeyValue {
            key: self.key.clone(),
            value: previous.value.clone(),
            create_revision: previous.create_revision,
            mod_revision: previous.mod_revision,
            lease: previous.lease,
            note: None,
        })
    }

    pub(crate) fn event(&self) -> Event {
        Event {
            kind: if self.deleted { EventKind::Delete } else { EventKind::Put },
            current: KeyValue {
                key: self.key.clone(),
                value: self.value.clone(),
                create_revision: self.create_revision,
                mod_revision: self.revision,
                lease: self.lease,
                note: None,
            },
            previous: self.previous(),
        }
    }

    fn cost(&self) -> usize {
        size_of::<Entry>() + self.previous.as_ref().map_or(0, |previous| previous.value.len())
    }
}

pub(crate) struct History {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// Every change after this revision is in `entries`.
    oldest: Revision,
    events_max: usize,
    bytes_max: usize,
}

impl History {
    pub(crate) fn new(revision: Revision, events_max: usize, bytes_max: usize) -> Self {
        History { entries: VecDeque::new(), bytes: 0, oldest: revision, events_max, bytes_max }
    }

    /// The oldest revision as of which the store can still be read and watched.
    pub(crate) fn oldest(&self) -> Revision {
        self.oldest
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.bytes += entry.cost();
        self.entries.push_back(entry);
        while self.entries.len() > self.events_max || self.bytes > self.bytes_max {
            self.drop_oldest();
        }
    }

    pub(crate) fn compact(&mut self, revision: Revision) {
        while self.entries.front().is_some_and(|entry| entry.revision <= revision) {
            self.drop_oldest();
        }
        self.oldest = self.oldest.max(revision);
        // A ring that was once full gives its memory back.
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// The changes after `revision`, oldest first. The caller has checked `revision >= oldest()`.
    pub(crate) fn after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Entry> {
        let first = self.entries.partition_point(|entry| entry.revision <= revision);
        self.entries.range(first..)
    }

    fn drop_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.cost();
            self.oldest = self.oldest.max(entry.revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(revision: Revision, replaced: usize) -> Entry {
        Entry {
            key: "k".into(),
            value: Bytes::new(),
            create_revision: 2,
            revision,
            lease: None,
            deleted: false,
            previous: Some(Previous {
                value: vec![0; replaced].into(),
                create_revision: 2,
                mod_revision: revision - 1,
                lease: None,
            }),
        }
    }

    #[test]
    fn is_bounded_by_count_and_by_bytes() {
        let mut history = History::new(1, 3, 10_000);
        for revision in 2..=6 {
            history.push(entry(revision, 10));
        }
        assert_eq!(history.oldest(), 3);
        assert_eq!(history.after(4).map(|entry| entry.revision).collect::<Vec<_>>(), [5, 6]);
        history.push(entry(7, 9_800));
        assert_eq!(history.oldest(), 6, "only the last one fits");
        history.push(entry(8, 20_000));
        assert_eq!((history.oldest(), history.after(8).count()), (8, 0), "one that never fits is not kept");
    }

    #[test]
    fn compaction_forgets() {
        let mut history = History::new(1, 100, 1 << 20);
        for revision in 2..=9 {
            history.push(entry(revision, 10));
        }
        history.compact(5);
        assert_eq!(history.oldest(), 5);
        assert_eq!(history.after(5).next().unwrap().revision, 6);
        history.compact(2);
        assert_eq!(history.oldest(), 5, "never goes back");
    }
}
