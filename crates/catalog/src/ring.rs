//! A resource's recent events, oldest first.
//!
//! A revision alone does not say how far a watcher has come: keys that end with one lease on etcd all go at one
//! revision, and a watcher may take some of them now and the rest later. So every event has a place of its own, counted
//! from the first event that ever was, and a [`Cursor`] stands between two places. What a client names is a revision,
//! and means "after all of it".

use std::collections::VecDeque;
use std::sync::Arc;

use rkube_store::Revision;

use crate::event::CachedEvent;

/// At most so many events are kept for watches that resume and for lists at a past revision.
pub const RING_EVENTS_MAX: usize = 16_384;
/// At most so many bytes of objects are kept alive by the ring beyond those that are current.
const RING_BYTES_MAX: usize = 64 << 20;
/// So many are kept however old they are: a watch on what seldom changes goes on from where it was.
pub const RING_EVENTS_MIN: usize = 1_024;

/// Which event it is, counted from the first that ever was. Never given twice, not even after a reset.
pub type Place = u64;

#[derive(Default)]
pub struct Ring {
    events: VecDeque<Arc<CachedEvent>>,
    bytes: usize,
    /// The place of the oldest event that is kept, or of the next one to come.
    first: Place,
    /// Events after this revision are all here.
    since: Revision,
}

/// How far a watcher has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The next event to take.
    pub place: Place,
    /// All events up to this revision have been taken. It may stand inside the next revision.
    pub revision: Revision,
}

/// How much to take at once.
#[derive(Clone, Copy)]
pub struct Limit {
    pub events: usize,
    /// Of objects, about: the event that reaches it is the last.
    pub bytes: usize,
}

/// Events that were taken, and the places that they had.
pub struct Taken {
    pub events: Vec<Arc<CachedEvent>>,
    pub from: Place,
    pub to: Place,
}

impl Ring {
    pub fn since(&self) -> Revision {
        self.since
    }

    /// The place of the next event to come.
    pub fn end(&self) -> Place {
        self.first + self.events.len() as Place
    }

    /// The cursor behind all events of a revision; none if some after it are forgotten.
    pub fn cursor_after(&self, revision: Revision) -> Option<Cursor> {
        let place = self.first + self.index_after(revision) as Place;
        (revision >= self.since).then_some(Cursor { place, revision })
    }

    /// A cursor before the last events, at most so many, and behind all of a revision.
    pub fn cursor_before(&self, events: usize) -> Cursor {
        let index = self.events.len().saturating_sub(events);
        let revision = index.checked_sub(1).map_or(self.since, |last| self.events[last].revision);
        Cursor { place: self.first + self.index_after(revision) as Place, revision }
    }

    /// The events after a revision; none if some of them are forgotten.
    pub fn after(&self, revision: Revision) -> Option<Vec<Arc<CachedEvent>>> {
        let start = self.index_after(revision);
        (revision >= self.since).then(|| self.events.range(start..).cloned().collect())
    }

    fn index_after(&self, revision: Revision) -> usize {
        self.events.partition_point(|event| event.revision <= revision)
    }

    /// The next events; moves the cursor behind them. None if the first of them is forgotten.
    pub fn take(&self, cursor: &mut Cursor, limit: Limit) -> Option<Taken> {
        let start = usize::try_from(cursor.place.checked_sub(self.first)?).ok()?.min(self.events.len());
        let mut bytes = 0;
        let fitting = self.events.range(start..).take(limit.events).take_while(|event| {
            let fits = bytes < limit.bytes;
            bytes += event.object.size();
            fits
        });
        let events: Vec<_> = fitting.cloned().collect();
        let from = cursor.place;
        cursor.place += events.len() as Place;
        if let Some(last) = events.last() {
            let next = self.events.get(start + events.len());
            let inside = next.is_some_and(|next| next.revision == last.revision);
            cursor.revision = cursor.revision.max(if inside { last.revision - 1 } else { last.revision });
        }
        Some(Taken { events, from, to: cursor.place })
    }

    /// Adds an event; forgets the oldest where there are too many.
    pub fn push(&mut self, event: Arc<CachedEvent>) {
        self.bytes += event.weight();
        self.events.push_back(event);
        while self.events.len() > RING_EVENTS_MAX || self.bytes > RING_BYTES_MAX {
            self.forget_oldest();
        }
    }

    /// Whether there are more events than are kept in any case.
    pub fn is_long(&self) -> bool {
        self.events.len() > RING_EVENTS_MIN
    }

    /// Forgets what is too old, up to this revision: what many changes at once took is not held for ever.
    pub fn forget(&mut self, up_to: Revision) {
        while self.is_long() && self.events.front().is_some_and(|event| event.revision <= up_to) {
            self.forget_oldest();
        }
        if self.events.len() < self.events.capacity() / 4 {
            self.events.shrink_to(self.events.len() * 2);
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.events.pop_front() else { return };
        self.bytes -= oldest.weight();
        self.first += 1;
        self.since = oldest.revision;
    }

    /// Forgets everything: what is known begins behind this revision.
    pub fn restart(&mut self, revision: Revision) {
        self.first += self.events.len() as Place;
        self.events = VecDeque::new();
        self.bytes = 0;
        self.since = revision;
    }
}
