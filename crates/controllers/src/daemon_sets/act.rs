//! One reconcile of a DaemonSet: reads the caches, plans, and acts through the API.

use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_machinery::host::Clock;
use rkube_operator::events::Recorder;
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde_json::{Map, Value};

use crate::daemon_sets::backoff::Backoffs;
use crate::daemon_sets::placement;
use crate::daemon_sets::plan::{self, GENERATION_LABEL, Look, Plan};
use crate::daemon_sets::revisions;
use crate::daemon_sets::view::DaemonSet;
use crate::history::{self, REVISION_HASH, Revision};
use crate::nodes::Node;
use crate::owner::{Error, Kind, Owner, Template, path_of};
use crate::pods::{self, Pod};
use crate::requests::is_namespace_terminating;

pub static DAEMON_SET: Kind =
    Kind { api_version: "apps/v1", kind: "DaemonSet", base: "/apis/apps/v1", plural: "daemonsets" };

/// At most so many pods are made, and deleted, in one reconcile.
const BURST: usize = 250;

pub struct Manager {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub sets: Informer<DaemonSet>,
    pub pods: Informer<Pod>,
    pub nodes: Informer<Node>,
    pub revisions: Informer<Revision>,
    pub queue: Queue<Key>,
    pub backoffs: Arc<Mutex<Backoffs>>,
}

impl Manager {
    pub async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(set) = self.sets.get(&key.namespace, &key.name) else { return Ok(Outcome::Unchanged) };
        match self.settle(key, &set).await {
            // Nothing can be made in a namespace that is to go, and nothing has to be.
            Err(Error::Request(error)) if is_namespace_terminating(&error) => Ok(Outcome::Unchanged),
            outcome => outcome,
        }
    }

    async fn settle(&self, key: &Key, set: &DaemonSet) -> Result<Outcome, Error> {
        let owner = Owner { kind: &DAEMON_SET, item: &set.item, client: &self.client, events: &self.events };
        if set.selector.is_everything() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            owner.warn("SelectingAll", message);
            return Ok(Outcome::Unchanged);
        }
        if set.deleted.is_some() {
            return Ok(Outcome::Unchanged);
        }
        let known = history::claim(owner, &self.revisions, |labels| set.selects(labels)).await?;
        let Claimed { pods, adopted, released } = self.claim(owner, set).await?;
        if adopted {
            self.queue.add(key.clone());
            return Ok(Outcome::Unchanged);
        }
        let (hash, old) = revisions::find(owner, set, known, &pods).await?;
        let look = Look::new(set, &hash, &self.nodes.all(), &pods, self.clock.now_micros());
        let managed = plan::manage(&look, &mut self.backoffs.lock());
        // What is rolled out is what is there, once all is where it should be.
        let retry = managed.retry;
        let planned = if managed.is_empty() { plan::roll(&look) } else { managed };
        let (made, done) = self.act(owner, key, set, &hash, planned).await;
        let status = plan::status(&look);
        if status != set.status {
            owner.write_status(&status).await?;
        }
        done?;
        revisions::forget(owner, set, &old, &pods).await?;
        for delay in [retry, plan::next_available(&look)].into_iter().flatten() {
            self.queue.add_after(key.clone(), delay);
        }
        // Pods that turn out to be none of the set's would be made at full speed.
        Ok(if released && made { Outcome::Wrote } else { Outcome::Unchanged })
    }

    /// The pods of the set. Those that nobody has are adopted (and whether any was), those that are none of it released.
    async fn claim(&self, owner: Owner<'_>, set: &DaemonSet) -> Result<Claimed, Error> {
        let owned = self.pods.by_index::<pods::ByController, _>(&*set.item.uid);
        let (pods, lost): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = owned.into_iter().partition(|pod| set.selects(&pod.labels));
        let mut claimed = Claimed { pods, adopted: false, released: !lost.is_empty() };
        for pod in lost {
            owner.release(&path_of(&pod), &pod.uid, &[]).await?;
        }
        let orphans: Vec<Arc<Pod>> = self.pods.with_index::<pods::Orphans, _, _>(&*set.item.namespace, |found| {
            found.values().filter(|pod| pod.deleted.is_none() && set.selects(&pod.labels)).cloned().collect()
        });
        if !orphans.is_empty() {
            owner.check_that_it_stays().await?;
        }
        for pod in orphans {
            claimed.adopted |= owner.adopt(&path_of(&pod), &pod.uid, &[]).await?;
        }
        Ok(claimed)
    }

    /// Makes and deletes pods. Whether any was made.
    async fn act(
        &self,
        owner: Owner<'_>,
        key: &Key,
        set: &DaemonSet,
        hash: &str,
        plan: Plan,
    ) -> (bool, Result<(), Error>) {
        let Plan { mut create, mut delete, told, .. } = plan;
        for (is_warning, reason, message) in told {
            if is_warning { owner.warn(reason, message) } else { owner.tell(reason, message) }
        }
        if create.len() > BURST || delete.len() > BURST {
            self.queue.add(key.clone());
        }
        create.truncate(BURST);
        delete.truncate(BURST);
        let mut failed = None;
        let mut made = 0;
        if !create.is_empty() {
            let bodies = match bodies(owner, set, hash, &create) {
                Ok(bodies) => bodies,
                Err(error) => return (false, Err(error.into())),
            };
            (made, failed) = owner.create_pods(bodies).await;
        }
        let (_, error) = owner.delete_pods(&delete).await;
        (made > 0, failed.or(error).map_or(Ok(()), |error| Err(error.into())))
    }
}

struct Claimed {
    pods: Vec<Arc<Pod>>,
    adopted: bool,
    released: bool,
}

/// A pod for each of these nodes.
fn bodies(owner: Owner<'_>, set: &DaemonSet, hash: &str, nodes: &[Text]) -> serde_json::Result<Vec<Value>> {
    let mut template = Template::of(owner.item)?;
    placement::tolerate(&mut template.spec);
    let labels = template.metadata.entry("labels").or_insert_with(|| Map::new().into());
    if let Some(generation) = set.template_generation {
        labels[GENERATION_LABEL] = generation.to_string().into();
    }
    labels[REVISION_HASH] = hash.into();
    let plain = owner.pod(&template);
    let body = |node: &Text| {
        let mut pod = plain.clone();
        placement::aim(&mut pod["spec"], node);
        pod
    };
    Ok(nodes.iter().map(body).collect())
}
