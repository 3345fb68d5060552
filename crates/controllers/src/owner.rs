//! What controllers do as owners of other objects: references, adoption and release, events, and many writes at a time.

use std::sync::Arc;

use rkube_operator::Item;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::{self, Client};
use rkube_operator::process::held;
use rkube_operator::written::carried;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::pods::Pod;
use crate::requests::{self, is_invalid, is_namespace_terminating, is_not_found};

/// So many objects of one owner are written at the same time; the others of a batch wait.
const WRITES_AT_ONCE: usize = 256;
/// A name may have so many letters.
const NAME_MAX: usize = 253;

/// What an owner's kind is called.
pub struct Kind {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub base: &'static str,
    pub plural: &'static str,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a request failed")]
    Request(#[from] kube::Error),
    #[error("cannot adopt: {0}")]
    Adopt(String),
    /// A request failed, and what it was for.
    #[error("{what}")]
    For {
        what: String,
        #[source]
        error: kube::Error,
    },
    #[error("an object cannot be read")]
    Read(#[from] serde_json::Error),
    #[error("{0}")]
    Wait(String),
}

impl Error {
    /// As it stands in events.
    pub fn told(&self) -> String {
        match self {
            Error::Request(error) => requests::message(error),
            Error::For { what, error } => format!("{what}: {}", requests::message(error)),
            other => other.to_string(),
        }
    }
}

/// Somebody who owns, and by whom it is written.
#[derive(Clone, Copy)]
pub struct Owner<'a> {
    pub kind: &'static Kind,
    pub item: &'a Item,
    pub client: &'a Client,
    pub events: &'a Recorder,
}

impl Owner<'_> {
    pub fn path(&self) -> String {
        let Kind { base, plural, .. } = self.kind;
        format!("{base}/namespaces/{}/{plural}/{}", self.item.namespace, self.item.name)
    }

    /// Where objects of a kind are in the owner's namespace.
    pub fn beside(&self, base: &str, plural: &str) -> String {
        format!("{base}/namespaces/{}/{plural}", self.item.namespace)
    }

    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "name": self.item.name.as_str(),
            "uid": self.item.uid.as_str(),
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    pub fn tell(&self, reason: &str, message: impl Into<String>) {
        self.events.normal(&self.about(), reason, message);
    }

    pub fn warn(&self, reason: &str, message: impl Into<String>) {
        self.events.warn(&self.about(), reason, message);
    }

    fn about(&self) -> Reference {
        Reference {
            api_version: self.kind.api_version.into(),
            kind: self.kind.kind.into(),
            namespace: self.item.namespace.clone(),
            name: self.item.name.clone(),
            uid: self.item.uid.clone(),
            resource_version: self.item.revision.to_string().into(),
            ..Reference::default()
        }
    }

    /// Whether the owner is still there and is to stay: its cache may be late, and what one that is to go adopts would
    /// go with it.
    pub async fn check_that_it_stays(&self) -> Result<(), Error> {
        let live = requests::get(self.client, &self.path()).await?.metadata;
        let (kind, name) = (self.kind.kind, &self.item.name);
        if live.uid != self.item.uid {
            return Err(Error::Adopt(format!("original {kind} {}/{name} is gone", self.item.namespace)));
        }
        match live.deletion_timestamp {
            Some(at) => Err(Error::Adopt(format!("{}/{name} has just been deleted at {at}", self.item.namespace))),
            None => Ok(()),
        }
    }

    /// Becomes the controller of an object. Whether it is one: the object may be gone.
    pub async fn adopt(&self, path: &str, uid: &str, finalizers: &[&str]) -> Result<bool, Error> {
        let mut patch = json!({ "metadata": { "uid": uid, "ownerReferences": [self.reference()] } });
        if !finalizers.is_empty() {
            patch["metadata"]["finalizers"] = finalizers.into();
        }
        match requests::patch(self.client, path, &patch).await {
            Err(error) if is_not_found(&error) => Ok(false),
            other => Ok(other.map(|_| true)?),
        }
    }

    /// Is no longer the controller of an object.
    pub async fn release(&self, path: &str, uid: &str, finalizers: &[&str]) -> Result<(), Error> {
        let reference = json!({ "$patch": "delete", "uid": self.item.uid.as_str() });
        let mut patch = json!({ "metadata": { "uid": uid, "ownerReferences": [reference] } });
        if !finalizers.is_empty() {
            patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = finalizers.into();
        }
        match requests::patch(self.client, path, &patch).await {
            // It is gone, or somebody else's by now.
            Err(error) if is_not_found(&error) || is_invalid(&error) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// A pod of the owner's template, without a name.
    pub fn pod(&self, template: &Template) -> Value {
        let name = &self.item.name;
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": if name.len() < NAME_MAX { format!("{name}-") } else { name.to_string() },
                "ownerReferences": [self.reference()],
            },
            "spec": template.spec,
        });
        for (field, value) in &template.metadata {
            if ["labels", "annotations", "finalizers"].contains(&field.as_str()) {
                pod["metadata"][field] = value.clone();
            }
        }
        pod
    }

    /// Makes pods in batches that double: after one that failed there is none. How many there are more, and the first
    /// failure.
    pub async fn create_pods(&self, bodies: Vec<Value>) -> (usize, Option<kube::Error>) {
        let path = self.beside("/api/v1", "pods");
        let (mut made, mut bodies) = (0, bodies.into_iter());
        let mut size = 1;
        while bodies.len() > 0 {
            let batch: Vec<Vec<u8>> = bodies.by_ref().take(size).map(|body| body.to_string().into_bytes()).collect();
            let outcomes = all(batch.into_iter().map(|body| {
                let (client, path) = (self.client.clone(), path.clone());
                async move { requests::create(&client, &path, body).await }
            }));
            let mut failed = None;
            for outcome in outcomes.await {
                match outcome {
                    Ok(pod) => {
                        made += 1;
                        self.tell("SuccessfulCreate", format!("Created pod: {}", pod.metadata.name));
                    }
                    // It will go with all that is in it.
                    Err(error) if is_namespace_terminating(&error) => made += 1,
                    Err(error) => {
                        self.warn("FailedCreate", format!("Error creating: {}", requests::message(&error)));
                        failed = failed.or(Some(error));
                    }
                }
            }
            if failed.is_some() {
                return (made, failed);
            }
            size *= 2;
        }
        (made, None)
    }

    /// Deletes pods. Those that are gone or on their way, and the first failure.
    pub async fn delete_pods(&self, pods: &[Arc<Pod>]) -> (Vec<Arc<Pod>>, Option<kube::Error>) {
        let outcomes = all(pods.iter().cloned().map(|pod| {
            let client = self.client.clone();
            async move { (requests::delete(&client, &path_of(&pod)).await, pod) }
        }));
        let (mut gone, mut failed) = (Vec::new(), None);
        for (outcome, pod) in outcomes.await {
            match outcome {
                Ok(_) => self.tell("SuccessfulDelete", format!("Deleted pod: {}", pod.name)),
                Err(error) if is_not_found(&error) => {}
                Err(error) => {
                    self.warn("FailedDelete", format!("Error deleting: {}", requests::message(&error)));
                    failed = failed.or(Some(error));
                    continue;
                }
            }
            gone.push(pod);
        }
        (gone, failed)
    }

    /// Writes the status, of the state that is known. The object's resource version from now on; None: it is gone.
    pub async fn write_status(&self, status: &impl Serialize) -> Result<Option<String>, Error> {
        self.write_status_of(&self.item.revision.to_string(), status).await
    }

    /// The same of the state of a version: one that this owner has written since.
    pub async fn write_status_of(&self, version: &str, status: &impl Serialize) -> Result<Option<String>, Error> {
        match requests::replace_status(self.client, &self.path(), self.item, version, status).await {
            Err(error) if is_not_found(&error) => Ok(None),
            other => Ok(Some(other?.metadata.resource_version)),
        }
    }
}

/// The template of a pod as it stands in its owner.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Template {
    pub metadata: Map<String, Value>,
    pub spec: Value,
}

impl Template {
    /// That of an object that has one in its spec.
    pub fn of(item: &Item) -> serde_json::Result<Template> {
        #[derive(Deserialize)]
        struct Raw {
            spec: RawSpec,
        }
        #[derive(Deserialize)]
        struct RawSpec {
            #[serde(default)]
            template: Template,
        }
        Ok(item.parse::<Raw>()?.spec.template)
    }
}

pub fn path_of(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// A pod as events name it.
pub fn about_pod(pod: &Pod) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        resource_version: pod.revision.to_string().into(),
        ..Reference::default()
    }
}

/// Runs these, so many at a time. They end with whoever waits for them.
pub async fn all<T: Send + 'static>(tasks: impl Iterator<Item = impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let (mut running, mut outcomes) = (JoinSet::new(), Vec::new());
    for task in tasks {
        if running.len() >= WRITES_AT_ONCE {
            outcomes.extend(running.join_next().await.and_then(Result::ok));
        }
        running.spawn(held(carried(task)));
    }
    while let Some(outcome) = running.join_next().await {
        outcomes.extend(outcome.ok());
    }
    outcomes
}
