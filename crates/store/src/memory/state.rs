//! The state: latest values in key order, the revision, the recent past, the leases.
//!
//! A [`State`] changes only by [`State::apply`], which cannot fail: whatever can go wrong was found before, by the
//! [`super::stage::Stage`] that made the [`Op`]s.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::history::{Entry, History, Previous};
use super::leases::Leases;
use crate::contract::{Error, Event, EventKind, KeyValue, LeaseId, Note, Range, RangeQuery, Result, Revision};

/// A change that was checked and has its revision.
pub(crate) enum Op {
    Put {
        key: Arc<str>,
        value: Bytes,
        create_revision: Revision,
        revision: Revision,
        lease: Option<LeaseId>,
        note: Option<Note>,
    },
    Delete {
        key: Arc<str>,
        revision: Revision,
    },
    Grant {
        id: LeaseId,
        ttl_seconds: u64,
    },
    /// The deletions of its keys come before it, in the same batch.
    Revoke {
        id: LeaseId,
    },
}

/// The latest value of a key.
#[derive(Clone)]
pub(crate) struct Item {
    pub value: Bytes,
    pub create_revision: Revision,
    pub mod_revision: Revision,
    pub lease: Option<LeaseId>,
}

impl Item {
    pub(crate) fn key_value(&self, key: &Arc<str>) -> KeyValue {
        KeyValue {
            key: key.clone(),
            value: self.value.clone(),
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            lease: self.lease,
            note: None,
        }
    }
}

pub(crate) type Items = BTreeMap<Arc<str>, Item>;

pub(crate) struct State {
    pub items: Items,
    /// Bytes of all keys and values.
    pub bytes: u64,
    pub revision: Revision,
    pub history: History,
    pub leases: Leases,
}

impl State {
    pub(crate) fn apply(&mut self, ops: Vec<Op>, now: Instant) -> Vec<Event> {
        let mut events = Vec::with_capacity(ops.len());
        for op in ops {
            match op {
                Op::Put { key, value, create_revision, revision, lease, note } => {
                    let item = Item { value, create_revision, mod_revision: revision, lease };
                    events.push(self.put(key, item, note));
                }
                Op::Delete { key, revision } => events.extend(self.delete(&key, revision)),
                Op::Grant { id, ttl_seconds } => self.leases.grant(id, ttl_seconds, now),
                Op::Revoke { id } => self.leases.remove(id),
            }
        }
        events
    }

    pub(crate) fn get(&self, key: &str) -> Option<KeyValue> {
        self.items.get_key_value(key).map(|(key, item)| item.key_value(key))
    }

    /// Whether the store can still be read and watched as of `revision`.
    pub(crate) fn check_revision(&self, revision: Revision) -> Result<()> {
        if revision > self.revision {
            return Err(Error::Future { requested: revision, newest: self.revision });
        }
        if revision < self.history.oldest() {
            return Err(Error::Compacted { requested: revision, oldest: self.history.oldest() });
        }
        Ok(())
    }

    pub(crate) fn range(&self, query: &RangeQuery) -> Result<Range> {
        if let Some(revision) = query.revision {
            self.check_revision(revision)?;
        }
        let revision = query.revision.unwrap_or(self.revision);
        let mut collected = Collected { items: Vec::new(), count: 0, limit: query.limit };
        if revision == self.revision {
            for (key, item) in self.slice(query) {
                collected.add(|| item.key_value(key));
            }
        } else {
            self.collect_past(query, revision, &mut collected);
        }
        let Collected { items, count, .. } = collected;
        Ok(Range { more: count > items.len(), items, revision, count })
    }

    fn slice(&self, query: &RangeQuery) -> btree_map::Range<'_, Arc<str>, Item> {
        let start = query.start.as_str();
        if query.end.is_empty() {
            return self.items.range::<str, _>((Bound::Included(start), Bound::Unbounded));
        }
        // An end before the start is an empty range, not a reason to panic.
        let end = query.end.as_str().max(start);
        self.items.range::<str, _>((Bound::Included(start), Bound::Excluded(end)))
    }

    /// The present with every later change undone.
    fn collect_past(&self, query: &RangeQuery, revision: Revision, collected: &mut Collected) {
        let mut undone: BTreeMap<&Arc<str>, &Entry> = BTreeMap::new();
        // Newest first: the oldest change after the revision is the one that knows the value as of it.
        for entry in self.history.after(revision).rev() {
            let after_start = *entry.key >= *query.start;
            if after_start && (query.end.is_empty() || *entry.key < *query.end) {
                undone.insert(&entry.key, entry);
            }
        }
        let mut undone = undone.into_iter().peekable();
        for (key, item) in self.slice(query) {
            while let Some((_, entry)) = undone.next_if(|(undone_key, _)| *undone_key < key) {
                collected.add_if(entry.previous());
            }
            match undone.next_if(|(undone_key, _)| *undone_key == key) {
                Some((_, entry)) => collected.add_if(entry.previous()),
                None => collected.add(|| item.key_value(key)),
            }
        }
        for (_, entry) in undone {
            collected.add_if(entry.previous());
        }
    }

    fn put(&mut self, key: Arc<str>, item: Item, note: Option<Note>) -> Event {
        let current = item.key_value(&key);
        self.bytes += weight(&key, &item);
        // The map's own key stays, so that one key is one allocation for as long as it lives.
        let (key, replaced) = match self.items.entry(key) {
            btree_map::Entry::Vacant(vacant) => {
                let key = vacant.key().clone();
                vacant.insert(item);
                (key, None)
            }
            btree_map::Entry::Occupied(mut occupied) => {
                let replaced = occupied.insert(item);
                self.bytes -= weight(occupied.key(), &replaced);
                (occupied.key().clone(), Some(replaced))
            }
        };
        if let Some(lease) =
            replaced.as_ref().and_then(|replaced| replaced.lease).filter(|old| Some(*old) != current.lease)
        {
            self.leases.detach(lease, &key);
        }
        if let Some(lease) = current.lease {
            self.leases.attach(lease, &key);
        }
        let event = self.record(key, current, false, replaced);
        Event { current: KeyValue { note, ..event.current }, ..event }
    }

    fn delete(&mut self, key: &Arc<str>, revision: Revision) -> Option<Event> {
        let (key, item) = self.items.remove_entry(key)?;
        self.bytes -= weight(&key, &item);
        if let Some(lease) = item.lease {
            self.leases.detach(lease, &key);
        }
        let current = KeyValue { mod_revision: revision, ..item.key_value(&key) };
        Some(self.record(key, current, true, Some(item)))
    }

    /// Keeps the change in the history and raises the revision to it.
    fn record(&mut self, key: Arc<str>, current: KeyValue, deleted: bool, replaced: Option<Item>) -> Event {
        self.revision = current.mod_revision;
        let entry = Entry {
            key,
            value: current.value,
            create_revision: current.create_revision,
            revision: current.mod_revision,
            lease: current.lease,
            deleted,
            previous: replaced.map(|item| Previous {
                value: item.value,
                create_revision: item.create_revision,
                mod_revision: item.mod_revision,
                lease: item.lease,
            }),
        };
        let event = entry.event();
        debug_assert_eq!(deleted, matches!(event.kind, EventKind::Delete));
        self.history.push(entry);
        event
    }
}

/// The bytes of a key and its value.
pub(crate) fn weight(key: &str, item: &Item) -> u64 {
    (key.len() + item.value.len()) as u64
}

struct Collected {
    items: Vec<KeyValue>,
    count: usize,
    limit: usize,
}

impl Collected {
    fn add(&mut self, item: impl FnOnce() -> KeyValue) {
        self.count += 1;
        if self.limit == 0 || self.items.len() < self.limit {
            self.items.push(item());
        }
    }

    fn add_if(&mut self, item: Option<KeyValue>) {
        if let Some(item) = item {
            self.add(|| item);
        }
    }
}
