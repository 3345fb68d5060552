//! The objects of a list, found while they are asked for: in a snapshot, in key order, in steps that are short whatever
//! the selector.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use super::list::Filter;
use super::request::Request;
use rkube_catalog::{Entry, Items};

/// So much is looked at in one step: objects times what is asked of each.
const STEP_COST: usize = 16 * 1024;
/// At most so many objects are found ahead of those that are asked for.
const AHEAD_MAX: usize = 256;

/// Objects that match, from a key on.
#[derive(Clone)]
pub struct Selected {
    items: Items,
    filter: Arc<Filter>,
    prefix: Arc<str>,
    /// Where to look next; none: nowhere.
    from: Option<Bound<Arc<str>>>,
    /// The last key to look at; none: to the end of the scope.
    last: Option<Arc<str>>,
    found: VecDeque<Entry>,
}

/// The first so many of them.
pub struct Page {
    pub count: usize,
    /// The last one's key, if there are more.
    pub last: Option<Arc<str>>,
    pub rest: Selected,
}

impl Selected {
    /// `start`: the key to start at; empty: the first.
    pub fn new(request: &Request<'_>, filter: Arc<Filter>, items: Items, start: &str) -> Selected {
        Selected::within(Filter::scope_prefix(request), filter, items, start)
    }

    fn within(prefix: String, filter: Arc<Filter>, items: Items, start: &str) -> Selected {
        let only = filter.key(&prefix);
        let first = only.as_deref().unwrap_or(&prefix).max(start);
        let from = Some(Bound::Included(first.into()));
        Selected { from, items, prefix: prefix.into(), last: only.map(Arc::from), filter, found: VecDeque::new() }
    }

    /// Finds where the first `limit` of them end.
    pub async fn page(&self, limit: usize) -> Page {
        let mut rest = self.clone();
        let mut count = 0;
        while count < limit {
            count += rest.step(limit - count, |_| ());
            if rest.from.is_none() {
                return Page { count, last: None, rest };
            }
            if count < limit {
                tokio::task::yield_now().await;
            }
        }
        let last = rest.looked_at();
        let mut further = rest.clone();
        while further.step(1, |_| ()) == 0 {
            if further.from.is_none() {
                return Page { count, last: None, rest };
            }
            tokio::task::yield_now().await;
        }
        Page { count, last, rest }
    }

    /// All of them, in steps.
    pub async fn collect(mut self) -> Vec<Entry> {
        let mut all = Vec::new();
        loop {
            self.step(usize::MAX, |entry| all.push(entry.clone()));
            if self.from.is_none() {
                return all;
            }
            tokio::task::yield_now().await;
        }
    }

    /// How many objects there are, whether they match or not.
    pub fn count_all(&self) -> usize {
        let Some(from) = &self.from else { return 0 };
        let range = self.items.range((from.clone(), Bound::Unbounded));
        range.take_while(|(key, _)| key.starts_with(&*self.prefix)).count()
    }

    /// The key as tokens have it.
    pub fn below_prefix<'a>(&self, key: &'a str) -> &'a str {
        key.strip_prefix(&*self.prefix).unwrap_or(key)
    }

    pub fn end_at(&mut self, last: Arc<str>) {
        self.last = Some(last);
    }

    /// The last key that was looked at.
    fn looked_at(&self) -> Option<Arc<str>> {
        match &self.from {
            Some(Bound::Excluded(key)) => Some(key.clone()),
            _ => None,
        }
    }

    /// Looks at some objects, until so many that match were found; says how many were.
    fn step(&mut self, wanted: usize, mut take: impl FnMut(&Entry)) -> usize {
        let Some(from) = self.from.take() else { return 0 };
        let look = (STEP_COST / self.filter.cost()).max(1);
        let mut count = 0;
        for (looked, (key, entry)) in self.items.range((from, Bound::Unbounded)).enumerate() {
            if !key.starts_with(&*self.prefix) || self.last.as_ref().is_some_and(|last| key > last) {
                return count;
            }
            if self.filter.selects(entry) {
                take(entry);
                count += 1;
            }
            if count >= wanted || looked + 1 >= look {
                self.from = Some(Bound::Excluded(key.clone()));
                return count;
            }
        }
        count
    }

    fn next(&mut self) -> Next {
        if self.found.is_empty() {
            let mut found = std::mem::take(&mut self.found);
            self.step(AHEAD_MAX, |entry| found.push_back(entry.clone()));
            self.found = found;
        }
        match self.found.pop_front() {
            Some(entry) => Next::Entry(entry),
            None if self.from.is_none() => Next::End,
            None => Next::Pause,
        }
    }
}

/// Where a list's objects come from.
#[derive(Clone)]
pub enum Source {
    Selected(Selected),
    Chosen(VecDeque<Entry>),
}

pub enum Next {
    Entry(Entry),
    /// Many were looked at, and none was found yet.
    Pause,
    End,
}

impl Source {
    pub fn next(&mut self) -> Next {
        match self {
            Source::Selected(selected) => selected.next(),
            Source::Chosen(entries) => entries.pop_front().map_or(Next::End, Next::Entry),
        }
    }

    /// Gives back what was taken last.
    pub fn put_back(&mut self, entry: Entry) {
        self.at_hand_mut().push_front(entry);
    }

    /// How large the objects are that come next, as far as they are known.
    pub fn size_at_hand(&self) -> usize {
        let (Source::Selected(Selected { found: at_hand, .. }) | Source::Chosen(at_hand)) = self;
        at_hand.iter().take(AHEAD_MAX).map(|entry| entry.object.size()).sum()
    }

    fn at_hand_mut(&mut self) -> &mut VecDeque<Entry> {
        let (Source::Selected(Selected { found: at_hand, .. }) | Source::Chosen(at_hand)) = self;
        at_hand
    }
}

impl From<Selected> for Source {
    fn from(selected: Selected) -> Source {
        Source::Selected(selected)
    }
}

impl From<Vec<Entry>> for Source {
    fn from(entries: Vec<Entry>) -> Source {
        Source::Chosen(entries.into())
    }
}
