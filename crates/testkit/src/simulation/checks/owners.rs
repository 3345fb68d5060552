//! No object stays whose owners are gone.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::view::Owned;

/// So long it may take until somebody sees to it: the collector's leader may be gone, and its watches late.
const ORPHAN_MAX: Duration = Duration::from_secs(20 * 60);

#[derive(Default)]
pub(super) struct Owners {
    known: HashMap<String, Known>,
    alive: HashSet<String>,
    /// By the uid of an owner.
    dependents: HashMap<String, BTreeSet<String>>,
    /// When to look, in order, and for whose dependents.
    due: VecDeque<(u64, String)>,
    /// The same by owner, the last of each.
    last_due: HashMap<String, u64>,
}

struct Known {
    uid: String,
    owners: Vec<String>,
    is_terminating: bool,
}

impl Owners {
    pub fn object(&mut self, key: &str, object: Option<Owned>, at_micros: u64) {
        if let Some(old) = self.known.remove(key) {
            old.owners.iter().for_each(|owner| self.leave(owner, key));
            if object.as_ref().is_none_or(|new| new.metadata.uid != old.uid) {
                self.alive.remove(&old.uid);
                if self.dependents.contains_key(&old.uid) {
                    self.look_later(old.uid, at_micros);
                }
            }
        }
        let Some(Owned { metadata }) = object else { return };
        let owners: Vec<String> = metadata.owner_references.into_iter().map(|owner| owner.uid).collect();
        for owner in &owners {
            self.dependents.entry(owner.clone()).or_default().insert(key.to_owned());
            if !self.alive.contains(owner) {
                self.look_later(owner.clone(), at_micros);
            }
        }
        self.alive.insert(metadata.uid.clone());
        let is_terminating = metadata.deletion_timestamp.is_some();
        self.known.insert(key.to_owned(), Known { uid: metadata.uid, owners, is_terminating });
    }

    fn leave(&mut self, owner: &str, key: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(key);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn look_later(&mut self, owner: String, at_micros: u64) {
        let bound = u64::try_from(ORPHAN_MAX.as_micros()).unwrap_or(u64::MAX);
        let when = at_micros.saturating_add(bound);
        self.last_due.insert(owner.clone(), when);
        self.due.push_back((when, owner));
    }

    /// Those whose time is over.
    pub fn orphans(&mut self, at_micros: u64) -> Vec<String> {
        let mut found = Vec::new();
        while self.due.front().is_some_and(|(when, _)| *when <= at_micros) {
            let Some((when, owner)) = self.due.pop_front() else { break };
            if self.last_due.get(&owner) == Some(&when) {
                self.last_due.remove(&owner);
            }
            let dependents = self.dependents.get(&owner).into_iter().flatten();
            let left = dependents.filter(|key| self.known.get(*key).is_some_and(|known| self.is_left(known)));
            found.extend(left.map(|key| format!("{key} is there, and its owners are long gone")));
        }
        found
    }

    /// Also the last of its owners is gone for long.
    fn is_left(&self, known: &Known) -> bool {
        let counts = |owner: &String| self.alive.contains(owner) || self.last_due.contains_key(owner);
        !known.is_terminating && !known.owners.iter().any(counts)
    }
}
