//! Who watches what, and the delivery to them.
//!
//! Watchers are grouped by prefix. An event finds its groups by looking up the prefixes of its key that have a
//! length somebody watches, so its cost does not depend on how many watch elsewhere. Every commit reaches every
//! watcher: with the events under its prefix, or with an empty batch that says how far the store has come.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::contract::{Batch, Error, Event, Revision, Sink, WatchHandle};

#[derive(Default)]
pub(crate) struct Watchers {
    groups: BTreeMap<Box<str>, Group>,
    /// Lengths of the prefixes in `groups`, with how many groups have it.
    lengths: BTreeMap<usize, usize>,
    nothing: Option<Arc<[Event]>>,
}

#[derive(Default)]
struct Group {
    watchers: Vec<Arc<Watcher>>,
    /// Of the batch that is being delivered: which events are under the prefix.
    matches: Vec<usize>,
}

struct Watcher {
    sink: Mutex<Option<Box<dyn Sink>>>,
    cancelled: AtomicBool,
}

/// What a [`WatchHandle`] holds.
struct Cancel(Arc<Watcher>);

impl Watchers {
    /// Adds a watcher that has been told of everything up to `revision` with `backlog`.
    pub(crate) fn add(
        &mut self,
        prefix: &str,
        sink: Box<dyn Sink>,
        backlog: Vec<Event>,
        revision: Revision,
    ) -> WatchHandle {
        let watcher = Arc::new(Watcher { sink: Mutex::new(Some(sink)), cancelled: AtomicBool::new(false) });
        let events = if backlog.is_empty() { self.nothing() } else { backlog.into() };
        watcher.deliver(&Batch { events, revision });
        if !self.groups.contains_key(prefix) {
            self.groups.insert(prefix.into(), Group::default());
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        if let Some(group) = self.groups.get_mut(prefix) {
            // A place that somebody comes to and leaves must not grow when nothing is ever written.
            if group.watchers.len() == group.watchers.capacity() {
                group.watchers.retain(|watcher| watcher.is_alive());
            }
            group.watchers.push(watcher.clone());
        }
        WatchHandle::new(Cancel(watcher))
    }

    pub(crate) fn deliver(&mut self, events: Vec<Event>, revision: Revision) {
        for (index, event) in events.iter().enumerate() {
            let key = &*event.current.key;
            for length in self.lengths.range(..=key.len()).map(|(length, _)| *length) {
                if let Some(group) = key.get(..length).and_then(|prefix| self.groups.get_mut(prefix)) {
                    group.matches.push(index);
                }
            }
        }
        let nothing = self.nothing();
        let events: Arc<[Event]> = events.into();
        let lengths = &mut self.lengths;
        self.groups.retain(|prefix, group| {
            let matches = std::mem::take(&mut group.matches);
            let events = match matches.len() {
                0 => nothing.clone(),
                all if all == events.len() => events.clone(),
                _ => matches.iter().filter_map(|index| events.get(*index).cloned()).collect(),
            };
            let batch = Batch { events, revision };
            group.watchers.retain(|watcher| watcher.deliver(&batch));
            if group.watchers.is_empty() {
                forget_length(lengths, prefix.len());
            }
            !group.watchers.is_empty()
        });
    }

    /// Ends every watch.
    pub(crate) fn end(&mut self, why: &Error) {
        self.lengths.clear();
        for watcher in std::mem::take(&mut self.groups).into_values().flat_map(|group| group.watchers) {
            if let Some(mut sink) = watcher.sink.lock().take()
                && !watcher.cancelled.load(Ordering::SeqCst)
            {
                sink.end(why.clone());
            }
        }
    }

    fn nothing(&mut self) -> Arc<[Event]> {
        self.nothing.get_or_insert_with(|| Arc::from([])).clone()
    }
}

impl Watcher {
    fn is_alive(&self) -> bool {
        !self.cancelled.load(Ordering::SeqCst)
    }

    /// Returns whether the watcher goes on. One whose sink panics does not: it must not take the store with it.
    fn deliver(&self, batch: &Batch) -> bool {
        let mut slot = self.sink.lock();
        if !self.is_alive() {
            *slot = None;
            return false;
        }
        let Some(sink) = slot.as_mut() else {
            return false;
        };
        if catch_unwind(AssertUnwindSafe(|| sink.deliver(batch))).is_err() {
            tracing::error!("a watcher panicked while it took a batch, its watch ends here");
            *slot = None;
            return false;
        }
        if !self.is_alive() {
            *slot = None;
            return false;
        }
        drop(slot);
        // The handle may have been dropped between the last look and the release of the lock.
        self.drop_sink_if_cancelled();
        true
    }

    fn drop_sink_if_cancelled(&self) {
        if !self.is_alive()
            && let Some(mut slot) = self.sink.try_lock()
        {
            *slot = None;
        }
    }
}

impl Drop for Cancel {
    /// Never waits: the handle may be dropped by the sink itself. A delivery that is under way sees the flag when it
    /// is done and drops the sink then.
    fn drop(&mut self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        self.0.drop_sink_if_cancelled();
    }
}

fn forget_length(lengths: &mut BTreeMap<usize, usize>, length: usize) {
    if let Some(count) = lengths.get_mut(&length) {
        *count -= 1;
        if *count == 0 {
            lengths.remove(&length);
        }
    }
}
