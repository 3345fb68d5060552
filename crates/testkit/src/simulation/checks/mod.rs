//! What holds at every write, whatever goes wrong. Each check costs what the write changes.
//!
//! Controllers act on what they know, which may be some time ago: what was asked for a moment ago is still as good.

mod jobs;
mod nodes;
mod sets;
mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::Violations;
use crate::{Observer, Seen};
use view::{Node, Pod, Set};

/// So long an act may rest on what was: caches are slow, and parts stand still and go on.
const STALE_MAX: Duration = Duration::from_secs(5 * 60);
/// So often an object may be written in a minute.
const WRITES_PER_MINUTE_MAX: u32 = 240;
/// More is not told: it is mostly the same.
const VIOLATIONS_MAX: usize = 20;

pub(super) struct Checks {
    violations: Violations,
    quiet: Arc<AtomicBool>,
    /// Of each key: in which minute it was written, and how often.
    writes: HashMap<String, (u64, u32)>,
    pods: HashMap<String, Pod>,
    nodes: nodes::Nodes,
    sets: sets::Sets,
    jobs: jobs::Jobs,
}

/// Says when nothing happens in the cluster any more.
pub(super) struct Quiet(Arc<AtomicBool>);

impl Quiet {
    pub fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Checks {
    pub fn new(violations: Violations) -> Checks {
        Checks {
            violations,
            quiet: Arc::default(),
            writes: HashMap::new(),
            pods: HashMap::new(),
            nodes: nodes::Nodes::default(),
            sets: sets::Sets::default(),
            jobs: jobs::Jobs::default(),
        }
    }

    pub fn quiet(&self) -> Quiet {
        Quiet(self.quiet.clone())
    }

    /// Object by object, whatever it is of.
    fn count(&mut self, seen: &Seen<'_>, kind: &str) -> Option<String> {
        let is_expected =
            matches!(kind, "leases" | "masterleases" | "minions") || (kind == "events" && seen.value.is_none());
        if self.quiet.load(Ordering::Relaxed) && !is_expected {
            return Some("is written though nothing happens".to_owned());
        }
        let minute = seen.at_micros / 60_000_000;
        let (last, count) = match self.writes.get_mut(seen.key) {
            Some(known) => known,
            None => self.writes.entry(seen.key.to_owned()).or_default(),
        };
        if *last != minute {
            (*last, *count) = (minute, 0);
        }
        *count += 1;
        (*count == WRITES_PER_MINUTE_MAX).then(|| format!("is written {count} times a minute"))
    }

    fn pod(&mut self, seen: &Seen<'_>, lost: u64) -> Vec<String> {
        let old = self.pods.remove(seen.key);
        let new: Option<Pod> = seen.value.and_then(read);
        let mut found = Vec::new();
        if let (Some(old), Some(new)) = (&old, &new)
            && old.metadata.uid == new.metadata.uid
        {
            let (was, is) = (&old.spec.node_name, &new.spec.node_name);
            if !was.is_empty() && was != is {
                found.push(format!("was bound to {was}, and now to {is}"));
            }
            if old.is_over() && (new.status.phase != old.status.phase) {
                found.push(format!("was {}, and now is {}", old.status.phase, new.status.phase));
            }
        }
        found.extend(self.nodes.pod(old.as_ref(), new.as_ref()));
        found.extend(self.sets.pod(old.as_ref(), new.as_ref(), seen.at_micros, lost));
        self.jobs.pod(old.as_ref(), new.as_ref());
        if let Some(new) = new {
            self.pods.insert(seen.key.to_owned(), new);
        }
        found
    }
}

impl Observer for Checks {
    fn see(&mut self, seen: &Seen<'_>) {
        let mut parts = seen.key.split('/').skip(2);
        let kind = parts.next().unwrap_or_default();
        let mut found: Vec<String> = self.count(seen, kind).into_iter().collect();
        let lost = seen.lost_creations;
        match kind {
            "pods" => found.extend(self.pod(seen, lost)),
            "minions" => self.nodes.node(seen.key, seen.value.and_then(read::<Node>)),
            "replicasets" => {
                found.extend(self.sets.replica_set(seen.key, seen.value.and_then(read::<Set>), seen.at_micros))
            }
            "deployments" => self.sets.deployment(seen.key, seen.value.and_then(read::<Set>), seen.at_micros),
            "jobs" => found.extend(self.jobs.job(seen.key, seen.value.and_then(read), lost)),
            _ => {}
        }
        if found.is_empty() {
            return;
        }
        let mut violations = self.violations.lock();
        for what in found {
            if violations.len() < VIOLATIONS_MAX {
                let (seconds, micros) = (seen.at_micros / 1_000_000, seen.at_micros % 1_000_000);
                violations.push(format!("{seconds}.{micros:06} {} {}: {what}", seen.revision, seen.key));
            }
        }
    }
}

fn read<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}
