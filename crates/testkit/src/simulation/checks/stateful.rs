//! A StatefulSet makes no pod whose number is not asked for. Pods of an ordered one come one after the other, and go from
//! the top.

use std::collections::{BTreeMap, HashMap};

use super::Change;
use super::lately::{Lately, is_recent};
use super::view::{Pod, StatefulSet};

const CONTROLLER: &str = ":statefulset-controller";

#[derive(Default)]
pub(super) struct StatefulSets {
    by_uid: HashMap<String, Known>,
    uids: HashMap<String, String>,
    /// Of each set, by ordinal.
    members: HashMap<String, BTreeMap<i64, Member>>,
}

struct Known {
    set: StatefulSet,
    /// The number after the last that is asked for, and the opposite of the first.
    end: Lately,
    start: Lately,
}

#[derive(Default)]
struct Member {
    is_there: bool,
    is_ready: bool,
    ready_micros: Option<u64>,
}

impl Member {
    fn was_ready(&self, at_micros: u64) -> bool {
        self.is_ready || self.ready_micros.is_some_and(|then| is_recent(then, at_micros))
    }
}

impl StatefulSets {
    pub fn set(&mut self, key: &str, set: Option<StatefulSet>, at_micros: u64) {
        match set {
            Some(set) => {
                let (uid, end, start) = (set.metadata.uid.clone(), set.spec.end(), -set.spec.ordinals.start);
                self.uids.insert(key.to_owned(), uid.clone());
                match self.by_uid.get_mut(&uid) {
                    Some(known) => {
                        known.end.set(end, at_micros);
                        known.start.set(start, at_micros);
                        known.set = set;
                    }
                    None => {
                        let (end, start) = (Lately::starting(end), Lately::starting(start));
                        self.by_uid.insert(uid, Known { set, end, start });
                    }
                }
            }
            None => {
                if let Some(uid) = self.uids.remove(key) {
                    self.by_uid.remove(&uid);
                    self.members.remove(&uid);
                }
            }
        }
    }

    pub fn pod(&mut self, change: &Change<'_>) -> Option<String> {
        let at_micros = change.at_micros;
        let uid = change.controller("StatefulSet")?;
        let ordinal: i64 = change.key.rsplit('-').next()?.parse().ok()?;
        let known = self.by_uid.get(uid)?;
        let (set, range) = (&known.set, -known.start.max(at_micros)..known.end.max(at_micros));
        let members = self.members.entry(uid.to_owned()).or_default();
        let is_taken = change.ends() && change.is_by(CONTROLLER);
        let found = if change.created().is_some() && !range.contains(&ordinal) {
            Some(format!("is made, and only {range:?} are asked for"))
        } else if !set.spec.is_ordered() {
            None
        } else if change.created().is_some() {
            (set.spec.ordinals.start..ordinal)
                .find(|before| !members.get(before).is_some_and(|member| member.was_ready(at_micros)))
                .map(|before| format!("is made while number {before} is not ready"))
        } else if is_taken {
            let is_condemned = !set.spec.is_asked_for(ordinal);
            let mut above = members.range(ordinal + 1..).filter(|(_, member)| member.is_there);
            let first = above.find(|(number, member)| match is_condemned {
                true => !set.spec.is_asked_for(**number),
                false => !member.was_ready(at_micros),
            });
            first.map(|(number, _)| format!("is deleted while number {number} is there, or not ready"))
        } else {
            None
        };
        let member = members.entry(ordinal).or_default();
        if is_taken {
            // The controller knows what it has done itself.
            member.ready_micros = None;
        } else if member.is_ready {
            member.ready_micros = Some(at_micros);
        }
        member.is_there = change.new.is_some();
        member.is_ready = change.new.is_some_and(Pod::is_healthy);
        found
    }
}
