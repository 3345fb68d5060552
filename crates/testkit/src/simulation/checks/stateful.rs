//! Pods of an ordered StatefulSet come one after the other, and go from the top.

use std::collections::{BTreeMap, HashMap};

use super::lately::is_recent;
use super::view::{Pod, StatefulSet};
use crate::Writer;

const CONTROLLER: &str = ":statefulset-controller";

#[derive(Default)]
pub(super) struct StatefulSets {
    by_uid: HashMap<String, StatefulSet>,
    uids: HashMap<String, String>,
    /// Of each set, by ordinal.
    members: HashMap<String, BTreeMap<i64, Member>>,
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
    pub fn set(&mut self, key: &str, set: Option<StatefulSet>) {
        match set {
            Some(set) => {
                self.uids.insert(key.to_owned(), set.metadata.uid.clone());
                self.by_uid.insert(set.metadata.uid.clone(), set);
            }
            None => {
                if let Some(uid) = self.uids.remove(key) {
                    self.by_uid.remove(&uid);
                    self.members.remove(&uid);
                }
            }
        }
    }

    pub fn pod(
        &mut self,
        key: &str,
        (old, new): (Option<&Pod>, Option<&Pod>),
        writer: Option<&Writer<'_>>,
        at_micros: u64,
    ) -> Option<String> {
        let uid = new.or(old)?.metadata.controller("StatefulSet")?;
        let ordinal: i64 = key.rsplit('-').next()?.parse().ok()?;
        let set = self.by_uid.get(uid)?;
        let members = self.members.entry(uid.to_owned()).or_default();
        let is_new = new.is_some_and(|new| old.is_none_or(|old| old.metadata.uid != new.metadata.uid));
        let is_marked = |pod: Option<&Pod>| pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
        let ends = old.is_some_and(|old| !old.is_over()) && !is_marked(old) && is_marked(new);
        let by_controller = writer.is_some_and(|writer| writer.user.ends_with(CONTROLLER));
        let found = if !set.spec.is_ordered() {
            None
        } else if is_new {
            (set.spec.ordinals.start..ordinal)
                .find(|before| !members.get(before).is_some_and(|member| member.was_ready(at_micros)))
                .map(|before| format!("is made while number {before} is not ready"))
        } else if ends && by_controller {
            let is_condemned = ordinal >= set.spec.ordinals.start + set.spec.replicas;
            let mut above = members.range(ordinal + 1..).filter(|(_, member)| member.is_there);
            let first = above.find(|(_, member)| is_condemned || !member.was_ready(at_micros));
            first.map(|(number, _)| format!("is deleted while number {number} is there, or not ready"))
        } else {
            None
        };
        let member = members.entry(ordinal).or_default();
        if member.is_ready {
            member.ready_micros = Some(at_micros);
        }
        member.is_there = new.is_some();
        member.is_ready = new.is_some_and(Pod::is_healthy);
        found
    }
}
