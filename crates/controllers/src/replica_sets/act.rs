//! One reconcile of a set: reads the caches, plans, and acts through the API.

use std::sync::Arc;

use rkube_machinery::host::Clock;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::owner::{all, path_of};
use crate::pods::{self, Pod};
use crate::replica_sets::Kind;
use crate::replica_sets::plan::{self, Claims, Step};
use crate::replica_sets::view::{ByController, ReplicaSet, Status};
use crate::requests::{self, is_invalid, is_namespace_terminating, is_not_found};
use rkube_operator::events::{Recorder, Reference};

/// A name may have so many letters.
const NAME_MAX: usize = 253;

pub struct Manager {
    pub kind: &'static Kind,
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub sets: Informer<ReplicaSet>,
    pub pods: Informer<Pod>,
    pub queue: Queue<Key>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a request failed")]
    Request(#[from] kube::Error),
    #[error("unable to delete pods")]
    Delete(#[source] kube::Error),
    #[error("cannot adopt pods: {0}")]
    Adopt(String),
    #[error("the set cannot be read")]
    Read(#[from] serde_json::Error),
}

impl Error {
    /// As it stands in the status of a set.
    fn told(&self) -> String {
        match self {
            Error::Request(error) => requests::message(error),
            Error::Delete(error) => format!("unable to delete pods: {}", requests::message(error)),
            Error::Adopt(_) | Error::Read(_) => self.to_string(),
        }
    }
}

impl Manager {
    pub async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(set) = self.sets.get(&key.namespace, &key.name) else { return Ok(Outcome::Unchanged) };
        let owned = self.pods.by_index::<pods::ByController, _>(&*set.item.uid);
        let orphans = self.pods.with_index::<pods::Orphans, _, _>(&*set.item.namespace, |found| {
            found.values().filter(|pod| set.selects(&pod.labels)).cloned().collect()
        });
        let mut claims = plan::claim(&set, owned, orphans, self.clock.now_micros());
        self.settle_claims(&set, &mut claims).await?;
        let step = plan::step(&set, &claims.active, || self.related(&set), self.clock.now_micros());
        let in_vain = claims.futile && matches!(step, Step::Create(_));
        let again = matches!(&step, Step::Create(count) if *count == plan::BURST)
            || matches!(&step, Step::Delete(pods) if pods.len() == plan::BURST);
        let done = match step {
            Step::Nothing => Ok(()),
            Step::Create(count) => self.create(&set, count).await,
            Step::Delete(pods) => self.delete(&set, pods).await,
        };
        let now = self.clock.now_micros();
        let terminating = self.kind.tells_terminating.then_some(claims.terminating);
        let failure = done.as_ref().err().map(Error::told);
        let status = plan::status(&set, &claims.active, terminating, failure.as_deref(), now);
        if status != set.status {
            self.write_status(&set, &status).await?;
        }
        done?;
        if again {
            self.queue.add(key.clone());
        } else if let Some(delay) = plan::next_available(&set, &claims.active, now) {
            self.queue.add_after(key.clone(), delay);
        }
        // That a set makes pods again and again is what it is for, unless they do not last.
        Ok(if in_vain { Outcome::Wrote } else { Outcome::Unchanged })
    }

    /// Adopts and releases pods; those that were adopted count from now on.
    async fn settle_claims(&self, set: &ReplicaSet, claims: &mut Claims) -> Result<(), Error> {
        for pod in claims.release.drain(..) {
            let reference = json!({ "$patch": "delete", "uid": set.item.uid.as_str() });
            let patch = json!({ "metadata": { "uid": pod.uid.as_str(), "ownerReferences": [reference] } });
            match requests::patch(&self.client, &path_of(&pod), &patch).await {
                // It is gone, or somebody else's by now.
                Err(error) if is_not_found(&error) || is_invalid(&error) => {}
                other => drop(other?),
            }
        }
        if claims.adopt.is_empty() {
            return Ok(());
        }
        self.check_that_it_stays(set).await?;
        for pod in claims.adopt.drain(..) {
            let patch = json!({ "metadata": { "uid": pod.uid.as_str(), "ownerReferences": [self.reference(set)] } });
            match requests::patch(&self.client, &path_of(&pod), &patch).await {
                Ok(_) => claims.active.push(pod),
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the set is still there and is to stay: its cache may be late, and what one that is to go adopts would
    /// go with it.
    async fn check_that_it_stays(&self, set: &ReplicaSet) -> Result<(), Error> {
        let live = requests::get(&self.client, &self.path(set)).await?.metadata;
        if live.uid != set.item.uid {
            return Err(Error::Adopt(format!("original {} {} is gone", self.kind.kind, set.item.name)));
        }
        match live.deletion_timestamp {
            Some(at) => Err(Error::Adopt(format!("{} has just been deleted at {at}", set.item.name))),
            None => Ok(()),
        }
    }

    /// All pods of the sets that have the same controller.
    fn related(&self, set: &ReplicaSet) -> Vec<Arc<Pod>> {
        let Some(owner) = &set.controller else { return Vec::new() };
        let siblings = self.sets.by_index::<ByController, _>(&*owner.uid);
        siblings.iter().flat_map(|sibling| self.pods.by_index::<pods::ByController, _>(&*sibling.item.uid)).collect()
    }

    /// Makes so many pods, in batches that double: after one that failed there is none.
    async fn create(&self, set: &ReplicaSet, count: usize) -> Result<(), Error> {
        let body = self.new_pod(set)?;
        let path = format!("/api/v1/namespaces/{}/pods", set.item.namespace);
        for batch in plan::batches(count) {
            let requests = (0..batch).map(|_| {
                let (client, path, body) = (self.client.clone(), path.clone(), body.clone());
                async move { requests::create(&client, &path, body).await }
            });
            let mut failed = None;
            for outcome in all(requests).await {
                match outcome {
                    Ok(pod) => self.tell(set, "SuccessfulCreate", format!("Created pod: {}", pod.metadata.name)),
                    Err(error) if is_namespace_terminating(&error) => {}
                    Err(error) => {
                        self.warn(set, "FailedCreate", format!("Error creating: {}", requests::message(&error)));
                        failed = failed.or(Some(error));
                    }
                }
            }
            if let Some(error) = failed {
                return Err(error.into());
            }
        }
        Ok(())
    }

    async fn delete(&self, set: &ReplicaSet, pods: Vec<Arc<Pod>>) -> Result<(), Error> {
        let requests = pods.into_iter().map(|pod| {
            let client = self.client.clone();
            async move { (requests::delete(&client, &path_of(&pod)).await, pod) }
        });
        let mut failed = None;
        for (outcome, pod) in all(requests).await {
            match outcome {
                Ok(_) => self.tell(set, "SuccessfulDelete", format!("Deleted pod: {}", pod.name)),
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    self.warn(set, "FailedDelete", format!("Error deleting: {}", requests::message(&error)));
                    failed = failed.or(Some(error));
                }
            }
        }
        failed.map_or(Ok(()), |error| Err(Error::Delete(error)))
    }

    async fn write_status(&self, set: &ReplicaSet, status: &Status) -> Result<(), Error> {
        let version = set.item.revision.to_string();
        match requests::replace_status(&self.client, &self.path(set), &set.item, &version, status).await {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(drop).map_err(Error::from),
        }
    }

    fn path(&self, set: &ReplicaSet) -> String {
        let Kind { base, plural, .. } = self.kind;
        format!("{base}/namespaces/{}/{plural}/{}", set.item.namespace, set.item.name)
    }

    fn reference(&self, set: &ReplicaSet) -> Value {
        json!({
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "name": set.item.name.as_str(),
            "uid": set.item.uid.as_str(),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    /// A pod of the set's template.
    fn new_pod(&self, set: &ReplicaSet) -> Result<Vec<u8>, Error> {
        let RawTemplate { metadata, spec } = set.item.parse::<RawSet>()?.spec.template;
        let name = &set.item.name;
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": if name.len() < NAME_MAX { format!("{name}-") } else { name.to_string() },
                "ownerReferences": [self.reference(set)],
            },
            "spec": spec,
        });
        for (field, value) in metadata {
            if ["labels", "annotations", "finalizers"].contains(&field.as_str()) {
                pod["metadata"][field] = value;
            }
        }
        Ok(serde_json::to_vec(&pod)?)
    }

    fn tell(&self, set: &ReplicaSet, reason: &'static str, message: String) {
        self.events.normal(&self.about(set), reason, message);
    }

    fn warn(&self, set: &ReplicaSet, reason: &'static str, message: String) {
        self.events.warn(&self.about(set), reason, message);
    }

    fn about(&self, set: &ReplicaSet) -> Reference {
        Reference {
            api_version: self.kind.api_version.into(),
            kind: self.kind.kind.into(),
            namespace: set.item.namespace.clone(),
            name: set.item.name.clone(),
            uid: set.item.uid.clone(),
            resource_version: set.item.revision.to_string().into(),
            ..Reference::default()
        }
    }
}

#[derive(Deserialize)]
struct RawSet {
    spec: RawSetSpec,
}

#[derive(Deserialize)]
struct RawSetSpec {
    template: RawTemplate,
}

#[derive(Deserialize)]
struct RawTemplate {
    #[serde(default)]
    metadata: serde_json::Map<String, Value>,
    #[serde(default)]
    spec: Value,
}
