//! One reconcile of a StatefulSet: reads the caches, plans, and acts through the API.

use std::collections::HashSet;
use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_operator::events::Recorder;
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde_json::Value;

use crate::history::{self, REVISION_HASH, Revision};
use crate::owner::{self, Error, Kind, Owner, all, path_of};
use crate::pods::{self, Phase, Pod};
use crate::requests::is_namespace_terminating;
use crate::stateful_sets::members::{Member, Shared};
use crate::stateful_sets::plan::{self, Action, Revisions, Terms};
use crate::stateful_sets::retention::{self, Claims};
use crate::stateful_sets::revisions;
use crate::stateful_sets::view::{Claim, StatefulSet};

pub static STATEFUL_SET: Kind =
    Kind { api_version: "apps/v1", kind: "StatefulSet", base: "/apis/apps/v1", plural: "statefulsets" };

/// At most so many pods of a parallel set are written in one batch.
const BATCH_MAX: usize = 500;
/// A pod that ended within so many seconds after it was made would do so again.
const ENDS_AT_ONCE_SECONDS: i64 = 60;

pub struct Manager {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub sets: Informer<StatefulSet>,
    pub pods: Informer<Pod>,
    pub claims: Arc<Informer<Claim>>,
    pub revisions: Informer<Revision>,
    pub queue: Queue<Key>,
    /// Whether the gate `MaxUnavailableStatefulSet` is on.
    pub max_unavailable: bool,
}

impl Manager {
    pub async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(set) = self.sets.get(&key.namespace, &key.name) else { return Ok(Outcome::Unchanged) };
        match self.settle(key, &set).await {
            // Nothing can be made in a namespace that is to go, and nothing has to be.
            Err(Error::Request(error) | Error::For { error, .. }) if is_namespace_terminating(&error) => {
                Ok(Outcome::Unchanged)
            }
            outcome => outcome,
        }
    }

    async fn settle(&self, key: &Key, set: &Arc<StatefulSet>) -> Result<Outcome, Error> {
        let owner = Owner { kind: &STATEFUL_SET, item: &set.item, client: &self.client, events: &self.events };
        let known = history::claim(owner, &self.revisions, |labels| set.selects(labels)).await?;
        let (pods, adopted) = self.claim(owner, set).await?;
        if adopted {
            self.queue.add(key.clone());
            return Ok(Outcome::Unchanged);
        }
        let found = revisions::find(owner, set, &known).await?;
        let names = Revisions { current: &found.current, update: &found.update, collisions: found.collisions };
        let now = self.clock.now_micros();
        let find = retention::find(&self.claims, &set.item.namespace);
        let terms = Terms { now, max_unavailable: self.max_unavailable };
        let mut plan = plan::plan(set, &pods, &Claims(&find), names, terms);
        let done = self.act(set, &known, names, &plan.parts).await;
        if done.is_ok() {
            plan.status.current_replicas -= plan.updates;
        }
        plan::complete(set, &mut plan.status);
        if plan::is_news(set, &plan.status) {
            owner.write_status(&plan.status).await?;
        }
        done?;
        self.forget(owner, set, &known, names, &pods).await?;
        if let Some(delay) = plan::next_available(set, &pods, now) {
            self.queue.add_after(key.clone(), delay);
        }
        // A pod that does not last is made again and again, but not at full speed.
        let acts = plan.parts.iter().any(|part| !part.is_empty());
        let is_young = |pod: &Pod| pod.created.is_none_or(|at| now / 1_000_000 - at < ENDS_AT_ONCE_SECONDS);
        let in_vain = acts && pods.iter().any(|pod| pod.is_terminal() && is_young(pod));
        Ok(if in_vain { Outcome::Wrote } else { Outcome::Unchanged })
    }

    /// The pods of the set. Those that nobody has are adopted (and whether any was), those that are none of it released.
    async fn claim(&self, owner: Owner<'_>, set: &StatefulSet) -> Result<(Vec<Arc<Pod>>, bool), Error> {
        let is_member = |pod: &Pod| set.ordinal(&pod.name).is_some() && set.selects(&pod.labels);
        let owned = self.pods.by_index::<pods::ByController, _>(&*set.item.uid);
        let (members, lost): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = owned.into_iter().partition(|pod| is_member(pod));
        if set.deleted.is_some() {
            return Ok((members, false));
        }
        for pod in lost {
            owner.release(&path_of(&pod), &pod.uid, &[]).await?;
        }
        let orphans: Vec<Arc<Pod>> = self.pods.with_index::<pods::Orphans, _, _>(&*set.item.namespace, |found| {
            found.values().filter(|pod| pod.deleted.is_none() && is_member(pod)).cloned().collect()
        });
        let mut adopted = false;
        if !orphans.is_empty() {
            owner.check_that_it_stays().await?;
        }
        for pod in orphans {
            adopted |= owner.adopt(&path_of(&pod), &pod.uid, &[]).await?;
        }
        Ok((members, adopted))
    }

    async fn act(
        &self,
        set: &Arc<StatefulSet>,
        known: &[Arc<Revision>],
        names: Revisions<'_>,
        parts: &[Vec<Action>],
    ) -> Result<(), Error> {
        if parts.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let current = known.iter().find(|revision| revision.item.name == names.current);
        let updated = owner::Template::of(&set.item)?;
        let shared = Arc::new(Shared {
            client: self.client.clone(),
            events: self.events.clone(),
            set: set.clone(),
            claims: self.claims.clone(),
            spec: set.item.parse::<Value>()?["spec"].take(),
            current: match current.filter(|_| names.current != names.update) {
                Some(revision) => revision.whole_template()?,
                None => updated.clone(),
            },
            updated,
            current_name: names.current.to_owned(),
            updated_name: names.update.to_owned(),
        });
        for part in parts {
            let (mut left, mut size) = (part.as_slice(), 1);
            while !left.is_empty() {
                let (batch, rest) = left.split_at(if set.parallel { size.min(left.len()) } else { 1 });
                let tasks = batch.iter().cloned().map(|action| Member::new(shared.clone(), action).act());
                all(tasks).await.into_iter().collect::<Result<Vec<()>, Error>>()?;
                left = rest;
                size = (size * 2).min(BATCH_MAX);
            }
        }
        Ok(())
    }

    /// Deletes old revisions that no pod has, beyond those that are to be kept.
    async fn forget(
        &self,
        owner: Owner<'_>,
        set: &StatefulSet,
        known: &[Arc<Revision>],
        names: Revisions<'_>,
        pods: &[Arc<Pod>],
    ) -> Result<(), Error> {
        let mut live: HashSet<&str> = pods.iter().filter_map(|pod| pod.labels.get(REVISION_HASH)).collect();
        live.extend([names.current, names.update]);
        let old: Vec<&Arc<Revision>> = known.iter().filter(|one| !live.contains(one.item.name.as_str())).collect();
        let Ok(kept) = usize::try_from(set.history_limit) else { return Ok(()) };
        for revision in old.iter().take(old.len().saturating_sub(kept)) {
            history::delete(owner, revision).await?;
        }
        Ok(())
    }
}

/// Whether anything changed by which pods are counted, claimed or waited for.
pub fn matters(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let seen = |pod: &Pod| (pod.phase, pod.deleted.is_some(), pod.ready, pod.ready_changed);
    seen(old) != seen(new)
        || old.uid != new.uid
        || old.labels != new.labels
        || old.controller != new.controller
        // What is said of one that waits may be that a claim is gone, which is made again.
        || matches!(new.phase, Phase::Pending | Phase::Unknown)
}
