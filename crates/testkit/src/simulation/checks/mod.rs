//! What holds at every write, whatever goes wrong. Each check costs what the write changes.
//!
//! Controllers act on what they know, which may be some time ago: what was asked for a moment ago is still as good.

mod autoscalers;
mod budgets;
mod claims;
mod daemons;
mod jobs;
mod lately;
mod leaders;
mod namespaces;
mod nodes;
mod owners;
mod quotas;
mod requests;
mod sets;
mod stateful;
#[cfg(test)]
mod tests;
mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::de::DeserializeOwned;

use super::Violations;
use crate::{Observer, Seen, Writer};
use view::{Node, Owned, Pod, Set};

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
    stateful_sets: stateful::StatefulSets,
    daemon_sets: daemons::DaemonSets,
    jobs: jobs::Jobs,
    budgets: budgets::Budgets,
    quotas: quotas::Quotas,
    claims: claims::Claims,
    requests: requests::Requests,
    autoscalers: autoscalers::Autoscalers,
    namespaces: namespaces::Namespaces,
    owners: owners::Owners,
    leaders: leaders::Leaders,
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
            stateful_sets: stateful::StatefulSets::default(),
            daemon_sets: daemons::DaemonSets::default(),
            jobs: jobs::Jobs::default(),
            budgets: budgets::Budgets::default(),
            quotas: quotas::Quotas::default(),
            claims: claims::Claims::default(),
            requests: requests::Requests::default(),
            autoscalers: autoscalers::Autoscalers::default(),
            namespaces: namespaces::Namespaces::default(),
            owners: owners::Owners::default(),
            leaders: leaders::Leaders::default(),
        }
    }

    pub fn quiet(&self) -> Quiet {
        Quiet(self.quiet.clone())
    }

    /// Object by object, whatever it is of.
    fn count(&mut self, seen: &Seen<'_>, kind: &str) -> Option<String> {
        if self.quiet.load(Ordering::Relaxed) && !self.is_always_written(seen, kind) {
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

    /// Though nothing happens.
    fn is_always_written(&self, seen: &Seen<'_>, kind: &str) -> bool {
        match kind {
            "leases" | "masterleases" | "minions" => true,
            // Those that were answered are deleted after an hour.
            "certificatesigningrequests" => seen.value.is_none(),
            // They do not stay for ever.
            "events" => seen.value.is_none_or(|value| read(value).is_some_and(|it| self.claims.is_told_again(&it))),
            _ => false,
        }
    }

    fn pod(&mut self, seen: &Seen<'_>) -> Vec<String> {
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
        let (both, at_micros) = ((old.as_ref(), new.as_ref()), seen.at_micros);
        let change = Change { key: seen.key, old: both.0, new: both.1, writer: seen.writer.as_ref(), at_micros };
        found.extend(self.nodes.bound(both.0, both.1, at_micros));
        found.extend(self.nodes.pod(both.0, both.1));
        found.extend(self.sets.pod(&change));
        found.extend(self.jobs.pod(&change));
        found.extend(self.stateful_sets.pod(&change));
        found.extend(self.daemon_sets.pod(&change));
        found.extend(self.budgets.pod(seen.key, both, &self.pods, at_micros));
        found.extend(self.quotas.pod(seen.key, both.0, both.1, at_micros));
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
        let (at_micros, writer) = (seen.at_micros, seen.writer.as_ref());
        found.extend(writer.and_then(|writer| self.leaders.write(kind, writer)));
        let object: Option<Owned> = seen.value.and_then(read);
        found.extend(self.namespaces.object(seen.key, object.as_ref()));
        if kind == "namespaces" {
            found.extend(self.namespaces.namespace(seen.key, object.as_ref()));
        }
        if !matches!(kind, "events" | "masterleases") {
            self.owners.object(seen.key, object, at_micros);
        }
        found.extend(self.owners.orphans(at_micros));
        match kind {
            "pods" => found.extend(self.pod(seen)),
            "minions" => {
                let node = seen.value.and_then(read::<Node>);
                self.daemon_sets.node(seen.key, node.as_ref(), at_micros);
                self.nodes.node(seen.key, node, at_micros);
            }
            "replicasets" | "controllers" => {
                let set = seen.value.and_then(read::<Set>);
                found.extend(self.sets.replica_set(seen.key, set, writer, at_micros));
            }
            "deployments" => {
                let set = seen.value.and_then(read::<Set>);
                let replicas = set.as_ref().map(|set| set.spec.replicas);
                found.extend(self.autoscalers.deployment(seen.key, replicas, writer, at_micros));
                self.sets.deployment(set, at_micros);
            }
            "horizontalpodautoscalers" => {
                self.autoscalers.autoscaler(seen.key, seen.value.and_then(read), at_micros);
            }
            "daemonsets" => self.daemon_sets.set(seen.key, seen.value.and_then(read), at_micros),
            "statefulsets" => self.stateful_sets.set(seen.key, seen.value.and_then(read), at_micros),
            "poddisruptionbudgets" => self.budgets.budget(seen.key, seen.value.and_then(read), at_micros),
            "resourcequotas" => {
                found.extend(self.quotas.quota(seen.key, seen.value.and_then(read), writer, at_micros));
            }
            "persistentvolumeclaims" => found.extend(self.claims.claim(seen.key, seen.value.and_then(read))),
            "certificatesigningrequests" => {
                found.extend(self.requests.request(seen.key, seen.value.and_then(read)));
            }
            "leases" => self.leaders.lease(seen.key, seen.value.and_then(read)),
            "jobs" => found.extend(self.jobs.job(seen.key, seen.value.and_then(read), at_micros)),
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

/// What became of a pod by one write.
struct Change<'a> {
    key: &'a str,
    old: Option<&'a Pod>,
    new: Option<&'a Pod>,
    writer: Option<&'a Writer<'a>>,
    at_micros: u64,
}

impl<'a> Change<'a> {
    /// The uid of the controller of this kind that has the pod, or had it.
    fn controller(&self, kind: &str) -> Option<&'a str> {
        self.new.or(self.old)?.metadata.controller(kind)
    }

    /// It is another than was there before, if one was.
    fn created(&self) -> Option<&'a Pod> {
        self.new.filter(|new| self.old.is_none_or(|old| old.metadata.uid != new.metadata.uid))
    }

    /// Who asked for it does not know that it was carried out.
    fn is_unacknowledged(&self) -> bool {
        self.writer.is_some_and(|writer| !writer.is_told)
    }

    fn is_by(&self, controller: &str) -> bool {
        self.writer.is_some_and(|writer| writer.user.ends_with(controller))
    }

    /// It was not to go before, and now it is, or is gone.
    fn ends(&self) -> bool {
        self.old.is_some_and(Pod::is_active) && self.new.is_none_or(|new| new.metadata.deletion_timestamp.is_some())
    }
}

fn read<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    serde_json::from_slice(value).ok()
}
