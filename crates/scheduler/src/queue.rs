//! The pods that wait for a node: those to be tried next by priority and age, those that have to wait after a failure,
//! and those that no node would have, until something happens that could help.
//!
//! A cycle is one step that nothing comes between, so there are no events to be remembered for pods that are being
//! tried: whatever happens, happens before or after.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::Text;
use tokio::time::Instant;

use crate::plugins::{ClusterEvent, PLUGINS, PluginSet};
use crate::view::Pod;

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// A pod that no node would have is tried again after this, whatever happens; upstream's.
const UNSCHEDULABLE_MAX: Duration = Duration::from_secs(5 * 60);

/// A pod that is tried, and how often it was.
#[derive(Clone, Debug)]
pub struct Queued {
    pub pod: Arc<Pod>,
    /// When it came, or came back; and in which order those of one moment did.
    since: Instant,
    order: u64,
    /// How often no node would have it.
    refusals: u32,
    /// How often in a row something else went wrong.
    errors: u32,
    /// Who refused it.
    plugins: PluginSet,
}

/// What became of a try.
pub enum Failure {
    /// No node would have the pod.
    Refused(PluginSet),
    /// Something else went wrong.
    Error,
}

#[derive(Default)]
pub struct Queue {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    by_uid: HashMap<Text, usize>,
    active: BTreeSet<(Rank, usize)>,
    /// By when they may be tried again. Those that were refused are tried before that if there is nothing else to do,
    /// as upstream does.
    backoff: BTreeSet<(Instant, Rank, usize)>,
    backoff_after_error: BTreeSet<(Instant, Rank, usize)>,
    /// By who refused them: an event is shown only to those that it could help.
    unschedulable: BTreeMap<PluginSet, BTreeSet<usize>>,
    /// By when they are tried whatever happens.
    unschedulable_until: BTreeSet<(Instant, usize)>,
    /// Pods that are not to be tried now.
    held: HashSet<Text>,
    last_order: u64,
}

/// First by priority, then by age; pods of one moment in the order in which they came.
type Rank = (Reverse<i32>, Instant, u64);

struct Entry {
    queued: Queued,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Active,
    Backoff(Instant),
    BackoffAfterError(Instant),
    Unschedulable(Instant),
    /// To be tried when it is released.
    Held,
}

impl Queued {
    fn rank(&self) -> Rank {
        (Reverse(self.pod.priority), self.since, self.order)
    }

    /// When it may be tried again.
    fn backoff_until(&self) -> Option<Instant> {
        let count = if self.errors > 0 { self.errors } else { self.refusals };
        let doublings = count.checked_sub(1)?.min(10);
        Some(self.since + (BACKOFF_FIRST * 2_u32.pow(doublings)).min(BACKOFF_MAX))
    }
}

impl Queue {
    /// A pod that waits is there, or is like this now.
    pub fn update(&mut self, pod: &Arc<Pod>, now: Instant) {
        let Some(id) = self.by_uid.get(&pod.uid).copied() else {
            let (pod, order, plugins) = (pod.clone(), self.next_order(), PluginSet::NONE);
            return self.enqueue(Queued { pod, since: now, order, refusals: 0, errors: 0, plugins }, now);
        };
        let Some(mut entry) = self.take(id) else { return };
        let old = std::mem::replace(&mut entry.queued.pod, pod.clone());
        let Entry { queued, place } = entry;
        let event = ClusterEvent::WaitingPodUpdated { old: &old, new: pod };
        match place {
            Place::Unschedulable(_) if queued.plugins.is_helped(pod, &event) => self.enqueue(queued, now),
            // Gates cannot be added later: one that is tried already is not held back.
            place => self.put(queued, place),
        }
    }

    /// A pod waits no more.
    pub fn remove(&mut self, uid: &str) {
        if let Some(id) = self.by_uid.get(uid).copied() {
            self.take(id);
        }
    }

    pub fn contains(&self, uid: &str) -> bool {
        self.by_uid.contains_key(uid)
    }

    /// The pod to be tried next. Who takes it gives it back with [`Queue::failed`], or it is done with.
    pub fn pop(&mut self, now: Instant) -> Option<Queued> {
        self.flush(now);
        let first = self.active.first().map(|(_, id)| *id);
        let id = first.or_else(|| self.backoff.first().map(|(_, _, id)| *id))?;
        self.take(id).map(|entry| entry.queued)
    }

    /// A pod comes back.
    pub fn failed(&mut self, mut queued: Queued, failure: &Failure, now: Instant) {
        (queued.since, queued.order) = (now, self.next_order());
        match failure {
            Failure::Refused(plugins) => {
                queued.refusals = queued.refusals.saturating_add(1);
                queued.errors = 0;
                queued.plugins = *plugins;
                self.put(queued, Place::Unschedulable(now + UNSCHEDULABLE_MAX));
            }
            Failure::Error => {
                queued.errors = queued.errors.saturating_add(1);
                queued.plugins = PluginSet::NONE;
                self.enqueue(queued, now);
            }
        }
    }

    /// Tries those again that an event could help.
    pub fn happened(&mut self, event: &ClusterEvent<'_>, now: Instant) {
        let kinds = event.kinds();
        let interested = self.unschedulable.iter().filter(|(plugins, _)| kinds.intersects(plugins.interest()));
        let mut helped = Vec::new();
        for (plugins, ids) in interested {
            let is_helped = |id: &&usize| {
                self.entries[**id].as_ref().is_some_and(|entry| plugins.is_helped(&entry.queued.pod, event))
            };
            helped.extend(ids.iter().filter(is_helped));
        }
        for id in helped {
            if let Some(entry) = self.take(id) {
                self.enqueue(entry.queued, now);
            }
        }
    }

    /// What is being written of a pod is to be there before more is written: until it is released it is not tried.
    pub fn hold(&mut self, uid: &Text) {
        self.held.insert(uid.clone());
        let waits = |entry: &Entry| !matches!(entry.place, Place::Unschedulable(_));
        let id = self.by_uid.get(uid).copied().filter(|id| self.entries[*id].as_ref().is_some_and(waits));
        if let Some(entry) = id.and_then(|id| self.take(id)) {
            self.put(entry.queued, Place::Held);
        }
    }

    pub fn release(&mut self, uid: &str, now: Instant) {
        self.held.remove(uid);
        let is_held = |entry: &Entry| entry.place == Place::Held;
        let id = self.by_uid.get(uid).copied().filter(|id| self.entries[*id].as_ref().is_some_and(is_held));
        if let Some(entry) = id.and_then(|id| self.take(id)) {
            self.enqueue(entry.queued, now);
        }
    }

    /// Whether there is a pod to be tried now.
    pub fn has_work(&self) -> bool {
        !self.active.is_empty() || !self.backoff.is_empty()
    }

    /// When there is something to do that is not to be done now.
    pub fn next_deadline(&self) -> Option<Instant> {
        let first = |set: &BTreeSet<(Instant, Rank, usize)>| set.first().map(|(at, _, _)| *at);
        let unschedulable = self.unschedulable_until.first().map(|(at, _)| *at);
        [first(&self.backoff), first(&self.backoff_after_error), unschedulable].into_iter().flatten().min()
    }

    /// How many are to be tried, wait after a failure, and are refused.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.active.len(), self.backoff.len() + self.backoff_after_error.len(), self.unschedulable_until.len())
    }

    /// To be tried as soon as it may be, unless it is held back.
    fn enqueue(&mut self, mut queued: Queued, now: Instant) {
        let pending = queued.pod.pending.as_deref();
        let holds_back = |(_, plugin): &(usize, &&dyn crate::plugins::Plugin)| {
            pending.is_some_and(|pending| plugin.holds_back(pending))
        };
        if let Some((place, _)) = PLUGINS.iter().enumerate().find(holds_back) {
            queued.plugins = PluginSet::NONE;
            queued.plugins.insert(place);
            return self.put(queued, Place::Unschedulable(now + UNSCHEDULABLE_MAX));
        }
        let place = match queued.backoff_until().filter(|until| *until > now) {
            _ if self.held.contains(&queued.pod.uid) => Place::Held,
            None => Place::Active,
            Some(until) if queued.errors > 0 => Place::BackoffAfterError(until),
            Some(until) => Place::Backoff(until),
        };
        self.put(queued, place);
    }

    /// Those whose time has come are to be tried.
    fn flush(&mut self, now: Instant) {
        loop {
            let due = |set: &BTreeSet<(Instant, Rank, usize)>| set.first().filter(|one| one.0 <= now).map(|one| one.2);
            let waited = self.unschedulable_until.first().filter(|one| one.0 <= now).map(|one| one.1);
            let Some(id) = due(&self.backoff).or_else(|| due(&self.backoff_after_error)).or(waited) else { return };
            if let Some(entry) = self.take(id) {
                self.enqueue(entry.queued, now);
            }
        }
    }

    fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    fn put(&mut self, queued: Queued, place: Place) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let rank = queued.rank();
        match place {
            Place::Active => drop(self.active.insert((rank, id))),
            Place::Backoff(until) => drop(self.backoff.insert((until, rank, id))),
            Place::BackoffAfterError(until) => drop(self.backoff_after_error.insert((until, rank, id))),
            Place::Unschedulable(until) => {
                self.unschedulable.entry(queued.plugins).or_default().insert(id);
                self.unschedulable_until.insert((until, id));
            }
            Place::Held => {}
        }
        let known = self.by_uid.insert(queued.pod.uid.clone(), id);
        debug_assert!(known.is_none(), "a pod waits once");
        self.entries[id] = Some(Entry { queued, place });
    }

    fn take(&mut self, id: usize) -> Option<Entry> {
        let entry = self.entries[id].take()?;
        let rank = entry.queued.rank();
        let was_there = match entry.place {
            Place::Active => self.active.remove(&(rank, id)),
            Place::Backoff(until) => self.backoff.remove(&(until, rank, id)),
            Place::BackoffAfterError(until) => self.backoff_after_error.remove(&(until, rank, id)),
            Place::Unschedulable(until) => {
                if let Some(ids) = self.unschedulable.get_mut(&entry.queued.plugins) {
                    ids.remove(&id);
                    if ids.is_empty() {
                        self.unschedulable.remove(&entry.queued.plugins);
                    }
                }
                self.unschedulable_until.remove(&(until, id))
            }
            Place::Held => true,
        };
        debug_assert!(was_there, "an entry is where it says");
        self.by_uid.remove(&entry.queued.pod.uid);
        self.free.push(id);
        Some(entry)
    }
}
