//! Says how many pods a PodDisruptionBudget allows to be evicted. Watches budgets and pods, and knows the scale of those who
//! control pods; writes the status of budgets. The eviction subresource takes from what is allowed by the same
//! compare-and-swap, so that neither overwrites what the other has counted. Also takes back what was said of pods that
//! were to be disrupted and never were.

mod plan;
mod scale;
mod view;

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::Client;
use rkube_operator::{Action, Change, Error, Informer, Key, Queue};
use serde_json::json;

use crate::Context;
use crate::metadata::Labels;
use crate::owner::{about_pod, path_of};
use crate::pods::{self, Pod, by_label};
use crate::requests::{self, is_not_found};
use crate::{deployments, replica_sets, stateful_sets};
use scale::Scales;
use view::{Budget, BySelector, Status};

const NAME: &str = "disruption-controller";
/// As events name it.
const COMPONENT: &str = "controllermanager";
const WORKERS: usize = 2;
const STALE_WORKERS: usize = 1;
/// A look at a budget costs by its pods: after a change it waits for others for so long per pod, at most for the second.
const GATHER_PER_POD: Duration = Duration::from_micros(10);
const GATHER_MAX: Duration = Duration::from_millis(100);
/// What is gathered for no longer than this is not gathered.
const GATHER_MIN: Duration = Duration::from_millis(1);

pub async fn run(context: Context) {
    let Context { client, caches, clock, .. } = context;
    let (queue, stale): (Queue<Key>, Queue<Key>) = (Queue::new(), Queue::new());
    let events = Recorder::start(client.clone(), clock.clone(), COMPONENT);
    let adding = queue.clone();
    let budgets = Arc::new(view::budgets(&caches).on_change(move |change| adding.add(change.key.clone())));
    budgets.synced().await;
    let scales = Scales {
        client: client.clone(),
        source: caches.source().clone(),
        deployments: deployments::deployments(&caches),
        replica_sets: replica_sets::replica_sets(&caches),
        replication_controllers: replica_sets::replication_controllers(&caches),
        stateful_sets: stateful_sets::stateful_sets(&caches),
    };
    scales.deployments.synced().await;
    scales.replica_sets.synced().await;
    scales.replication_controllers.synced().await;
    scales.stateful_sets.synced().await;
    let (adding, cleaning, known, telling) = (queue.clone(), stale.clone(), budgets.clone(), events.clone());
    let pods = pods::informer(&caches).indexed::<by_label::ByLabel>().on_change(move |change| {
        for budget in concerned(&known, change, &telling) {
            match gather(&budget) {
                Some(delay) => adding.add_after(budget.key(), delay),
                None => adding.add(budget.key()),
            }
        }
        if change.new.is_some_and(|pod| pod.disrupted.is_some() && pod.deleted.is_none()) {
            cleaning.add(change.key.clone());
        }
    });
    pods.synced().await;
    let manager = Arc::new(Manager { client, clock, events, budgets, pods, scales });
    let (reconciling, cleaning) = (manager.clone(), manager);
    tokio::join!(
        rkube_operator::run(NAME, queue, WORKERS, move |key: Key| {
            let manager = reconciling.clone();
            async move { manager.reconcile(&key).await }
        }),
        rkube_operator::run("disruption-controller-stale-pods", stale, STALE_WORKERS, move |key: Key| {
            let manager = cleaning.clone();
            async move { manager.clean(&key).await }
        }),
    );
}

struct Manager {
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
    budgets: Arc<Informer<Budget>>,
    pods: Informer<Pod>,
    scales: Scales,
}

impl Manager {
    async fn reconcile(&self, key: &Key) -> Result<Action, Error> {
        let Some(budget) = self.budgets.get(&key.namespace, &key.name) else { return Ok(Action::done()) };
        let about = about(&budget);
        let pods = by_label::selected(&self.pods, &key.namespace, &budget.selector);
        if pods.is_empty() {
            self.events.normal(&about, "NoPods", "No matching pods found");
        }
        let scale = match plan::needs_scale(budget.limit) {
            true => self.scales.of(&pods).await,
            false => Ok((0, false)),
        };
        let (scale, unmanaged) = match scale {
            Ok(found) => found,
            Err(why) => {
                let message = format!("Failed to calculate the number of expected pods: {why}");
                self.events.warn(&about, "CalculateExpectedPodCountFailed", message);
                let status = plan::fail_safe(&budget, &why, self.clock.now_micros());
                return self.write(&budget, status).await;
            }
        };
        if unmanaged {
            self.events.warn(&about, "UnmanagedPods", unmanaged_text(&budget));
        }
        let wanted = plan::wanted(budget.limit, pods.len(), scale);
        let plan = plan::plan(&budget, &pods, wanted, self.clock.now_micros());
        for pod in &plan.not_deleted {
            // Upstream names the namespace twice.
            let message = format!("Pod was expected by PDB {0}/{0} to be deleted but it wasn't", key.namespace);
            self.events.warn(&about_pod(pod), "NotDeleted", message);
        }
        let action = self.write(&budget, plan.status).await?;
        Ok(plan.again_after.map_or(action, |delay| action.requeue_after(delay)))
    }

    /// Of no other state than the one that was seen: an eviction may have been granted in the meantime.
    async fn write(&self, budget: &Budget, status: Option<Status>) -> Result<Action, Error> {
        let Some(status) = status else { return Ok(Action::done()) };
        let Key { namespace, name } = budget.key();
        let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}");
        let version = budget.item.revision.to_string();
        match requests::replace_status(&self.client, &path, &budget.item, &version, &status).await {
            Err(error) if is_not_found(&error) => Ok(Action::done()),
            // Its pods change as fast as they do: that is no fight.
            other => Ok(other.map(|_| Action::done())?),
        }
    }

    /// Takes back that a pod is to be disrupted, if nobody has done so for long.
    async fn clean(&self, key: &Key) -> Result<Action, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name) else { return Ok(Action::done()) };
        let left = match plan::stale_in(&pod, self.clock.now_micros()) {
            None => return Ok(Action::done()),
            Some(left) => left,
        };
        if left > 0 {
            return Ok(Action::done().requeue_after(Duration::from_micros(left.unsigned_abs())));
        }
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "False",
            "reason": null,
            "message": null,
            "lastProbeTime": null,
            "observedGeneration": pod.generation,
            "lastTransitionTime": time::format_seconds(self.clock.now_seconds()),
        });
        let patch = json!({
            "metadata": { "uid": pod.uid.as_str(), "resourceVersion": pod.revision.to_string() },
            "status": { "conditions": [condition] },
        });
        match requests::patch(&self.client, &format!("{}/status", path_of(&pod)), &patch).await {
            Err(error) if is_not_found(&error) => Ok(Action::done()),
            other => Ok(other.map(|_| Action::done())?),
        }
    }
}

fn about(budget: &Budget) -> Reference {
    Reference {
        api_version: "policy/v1".into(),
        kind: "PodDisruptionBudget".into(),
        namespace: budget.item.namespace.clone(),
        name: budget.item.name.clone(),
        uid: budget.item.uid.clone(),
        resource_version: Text::from(budget.item.revision.to_string()),
        ..Reference::default()
    }
}

fn unmanaged_text(budget: &Budget) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of the \
         PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
         \".spec.minAvailable\" field of the PDB to an integer value.",
        budget.selector_text()
    )
}

/// For how long changes of a budget's pods are gathered.
fn gather(budget: &Budget) -> Option<Duration> {
    let pods = u32::try_from(budget.status.expected_pods).unwrap_or(u32::MAX);
    Some(GATHER_PER_POD.saturating_mul(pods).min(GATHER_MAX)).filter(|delay| *delay >= GATHER_MIN)
}

/// The budgets that have to look at their pods again: those of the pod as it is. Who loses a pod because its labels change
/// does not hear of it, as upstream.
fn concerned(budgets: &Informer<Budget>, change: &Change<'_, Pod>, events: &Recorder) -> Vec<Arc<Budget>> {
    let (old, new) = (change.old.map(Arc::as_ref), change.new.map(Arc::as_ref));
    if let (Some(old), Some(new)) = (old, new) {
        let seen = |pod: &Pod| (pod.ready, pod.deleted.is_some(), pod.uid.clone(), pod.controller.clone());
        if seen(old) == seen(new) && old.labels == new.labels {
            // What could not be counted before may be now.
            let mut found = covering(budgets, &change.key.namespace, &new.labels);
            found.retain(|budget| budget.status.is_uncounted());
            return found;
        }
    }
    let namespace = &change.key.namespace;
    let now = new.or(old).map(|pod| (pod, covering(budgets, namespace, &pod.labels)));
    let Some((pod, found)) = now else { return Vec::new() };
    if found.len() > 1 {
        // Now this one, now that one, as upstream; all of them look at the pod here.
        let chosen = usize::try_from(pod.revision).unwrap_or(0) % found.len();
        let message = format!(
            "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
            pod.namespace.as_str(),
            pod.name.as_str(),
            found[chosen].item.name.as_str()
        );
        events.warn(&about_pod(pod), "MultiplePodDisruptionBudgets", message);
    }
    found
}

/// The budgets that select a pod with these labels, by name. The cost is by those that share a label with it.
fn covering(budgets: &Informer<Budget>, namespace: &str, labels: &Labels) -> Vec<Arc<Budget>> {
    let pairs = labels.iter().map(|(key, value)| by_label::pair(namespace, key, value));
    let keys = pairs.chain([by_label::pair(namespace, "", "")]);
    let mut found: Vec<Arc<Budget>> = keys.flat_map(|key| budgets.by_index::<BySelector, _>(&key)).collect();
    found.retain(|budget| budget.item.namespace == namespace && budget.selects(labels));
    found.sort_by(|one, other| one.item.name.cmp(&other.item.name));
    found
}
