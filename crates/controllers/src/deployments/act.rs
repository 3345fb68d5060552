//! One reconcile of a Deployment: reads the caches, plans, and acts through the API.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::Text;
use rkube_machinery::host::Clock;
use rkube_operator::kube::{self, Client};
use rkube_operator::{Informer, Item, Key, Outcome, Queue};
use serde_json::{Map, Value, json};

use crate::deployments::plan::{self, NewSet, Plan, Scaling, Work};
use crate::deployments::revisions::{self, REVISION, ROLLBACK_TO};
use crate::deployments::sets::{Set, Sets};
use crate::deployments::status;
use crate::deployments::view::{Deployment, Status};
use crate::metadata::Labels;
use crate::pods::{self, Pod};
use crate::replica_sets::{ByController, Orphans, ReplicaSet};
use crate::requests::{self, is_invalid, is_namespace_terminating, is_not_found};
use crate::template::HASH_LABEL;
use rkube_operator::events::{Recorder, Reference};

const API_VERSION: &str = "apps/v1";
const KIND: &str = "Deployment";

pub struct Manager {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
    pub deployments: Informer<Deployment>,
    pub sets: Informer<ReplicaSet>,
    pub pods: Informer<Pod>,
    pub queue: Queue<Key>,
    /// What was last done for whom: who has to do the same again is in a dispute.
    pub done: Mutex<HashMap<Key, u64>>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a request failed")]
    Request(#[from] kube::Error),
    #[error("cannot adopt ReplicaSets: {0}")]
    Adopt(String),
    #[error("an object cannot be read")]
    Read(#[from] serde_json::Error),
    #[error("the name {0} is taken by another ReplicaSet")]
    Taken(String),
}

impl Manager {
    pub async fn reconcile(&self, key: &Key) -> Result<Outcome, Error> {
        match self.settle(key).await {
            // Nothing can be made in a namespace that is to go, and nothing has to be.
            Err(Error::Request(error)) if is_namespace_terminating(&error) => Ok(Outcome::Unchanged),
            outcome => outcome,
        }
    }

    async fn settle(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(deployment) = self.deployments.get(&key.namespace, &key.name) else {
            self.done.lock().remove(key);
            return Ok(Outcome::Unchanged);
        };
        let mut sets = Sets::sort(&deployment, self.claim(&deployment).await?);
        let now = self.clock.now_seconds();
        let Plan { work, revision, status: mut noted, progress } =
            plan::plan(&deployment, &sets, || self.any_runs(&sets.old), now);
        let mut revision = revision;
        let outcome = self.note(key, &work);
        match work {
            Work::Nothing => {}
            Work::Create(new) => {
                let created = self.create(&deployment, &new, &mut noted).await?;
                revision = Some(new.revision.to_string());
                sets.new = created;
            }
            // What follows is for the next reconcile, which sees what came out of this.
            Work::Adjust { set, annotations } => {
                self.adjust(&deployment, &sets, &set, &annotations).await?;
                return Ok(outcome);
            }
            Work::RollBack(to) => {
                self.roll_back(&deployment, &sets, to).await?;
                return Ok(outcome);
            }
            Work::Scale(scalings) => self.scale(&deployment, &sets, &scalings).await?,
            Work::Delete(names) => self.delete(&deployment, &names).await?,
        }
        let status = status::status(&deployment, &noted, &sets, progress, now);
        let revision = revision.filter(|new| deployment.annotations.get(REVISION) != Some(new));
        if status != deployment.status || revision.is_some() {
            self.write_status(&deployment, revision.as_deref(), &status).await?;
        } else if progress == status::Progress::Estimated
            && let Some(delay) = status::check_in(&deployment, &status, now)
        {
            self.queue.add_after(key.clone(), delay);
        }
        Ok(outcome)
    }

    /// Whether this work was the last that was done, too: then somebody undoes it, and it need not be done at once.
    fn note(&self, key: &Key, work: &Work) -> Outcome {
        if *work == Work::Nothing {
            return Outcome::Unchanged;
        }
        let mut hasher = DefaultHasher::new();
        work.hash(&mut hasher);
        let before = self.done.lock().insert(key.clone(), hasher.finish());
        if before == Some(hasher.finish()) { Outcome::Wrote } else { Outcome::Unchanged }
    }

    /// The sets of a Deployment: those that it controls and selects, and those that nobody controls. The latter are
    /// adopted, those that it no longer selects released.
    async fn claim(&self, deployment: &Deployment) -> Result<Vec<Set>, Error> {
        let stays = deployment.deleted.is_none();
        let owned = self.sets.by_index::<ByController, _>(&*deployment.item.uid);
        let (mut claimed, lost): (Vec<Set>, Vec<Set>) =
            owned.into_iter().partition(|set| deployment.selects(&set.labels));
        for set in lost.iter().filter(|_| stays) {
            let reference = json!({ "$patch": "delete", "uid": deployment.item.uid.as_str() });
            let patch = json!({ "metadata": { "uid": set.item.uid.as_str(), "ownerReferences": [reference] } });
            match requests::patch(&self.client, &path_of(set), &patch).await {
                Err(error) if is_not_found(&error) || is_invalid(&error) => {}
                other => drop(other?),
            }
        }
        let orphans: Vec<Set> = self.sets.with_index::<Orphans, _, _>(&*deployment.item.namespace, |found| {
            let wanted = |set: &&Set| stays && set.deleted.is_none() && deployment.selects(&set.labels);
            found.values().filter(wanted).cloned().collect()
        });
        if orphans.is_empty() {
            return Ok(claimed);
        }
        self.check_that_it_stays(deployment).await?;
        for set in orphans {
            let reference = reference(deployment);
            let patch = json!({ "metadata": { "uid": set.item.uid.as_str(), "ownerReferences": [reference] } });
            match requests::patch(&self.client, &path_of(&set), &patch).await {
                Ok(_) => claimed.push(set),
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(claimed)
    }

    /// Whether the Deployment is still there and is to stay: its cache may be late.
    async fn check_that_it_stays(&self, deployment: &Deployment) -> Result<(), Error> {
        let live = requests::get(&self.client, &path(deployment)).await?.metadata;
        if live.uid != deployment.item.uid {
            return Err(Error::Adopt(format!("original {KIND} {} is gone", deployment.item.name)));
        }
        match live.deletion_timestamp {
            Some(at) => Err(Error::Adopt(format!("{} has just been deleted at {at}", deployment.item.name))),
            None => Ok(()),
        }
    }

    /// Whether a pod of these sets may still run.
    fn any_runs(&self, sets: &[Set]) -> bool {
        sets.iter().any(|set| {
            self.pods.with_index::<pods::ByController, _, _>(&*set.item.uid, |found| {
                found.values().any(|pod| !pod.is_terminal())
            })
        })
    }

    /// Makes the new set. None: it is there already, and the cache will have it.
    async fn create(&self, deployment: &Deployment, new: &NewSet, noted: &mut Status) -> Result<Option<Set>, Error> {
        let body = new_set(deployment, new)?;
        let path = format!("/apis/apps/v1/namespaces/{}/replicasets", deployment.item.namespace);
        let now = self.clock.now_seconds();
        match requests::create(&self.client, &path, serde_json::to_vec(&body)?).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                return self.find_taken(deployment, new, noted).await;
            }
            Err(error) if is_namespace_terminating(&error) => return Err(error.into()),
            Err(error) => {
                let why = requests::message(&error);
                let message = format!("Failed to create new replica set {:?}: {why}", new.name);
                status::note_not_created(deployment, message.clone(), noted, now);
                if *noted != deployment.status {
                    // That this is not written is less than what is to be told.
                    let _ = self.write_status(deployment, None, noted).await;
                }
                self.events.warn(&about(deployment), "ReplicaSetCreateError", message);
                return Err(error.into());
            }
        }
        if new.replicas > 0 {
            let message = format!("Scaled up replica set {} from 0 to {}", new.name, new.replicas);
            self.events.normal(&about(deployment), "ScalingReplicaSet", message);
        }
        status::note_created(deployment, &new.name, noted, now);
        Ok(made(deployment, &body))
    }

    /// The name of the new set is taken: by the set itself, which a cache did not have, or by another. Then the next one
    /// will have another name.
    async fn find_taken(&self, deployment: &Deployment, new: &NewSet, noted: &Status) -> Result<Option<Set>, Error> {
        let known = self.sets.get(&deployment.item.namespace, &new.name);
        let same = |set: &Set| {
            set.controller.as_ref().is_some_and(|owner| owner.uid == deployment.item.uid)
                && set.template.fingerprint == deployment.template.fingerprint
        };
        if let Some(set) = known.filter(same) {
            return Ok(Some(set));
        }
        let mut status = Status { conditions: deployment.status.conditions.clone(), ..noted.clone() };
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        self.write_status(deployment, None, &status).await?;
        Err(Error::Taken(new.name.clone()))
    }

    async fn adjust(
        &self,
        deployment: &Deployment,
        sets: &Sets,
        name: &str,
        annotations: &[(Text, Text)],
    ) -> Result<(), Error> {
        let Some(set) = sets.all().find(|set| set.item.name == name) else { return Ok(()) };
        let mut object = requests::whole(&set.item)?;
        annotate(&mut object, annotations);
        match deployment.min_ready_seconds {
            0 => drop(object["spec"].as_object_mut().and_then(|spec| spec.remove("minReadySeconds"))),
            seconds => object["spec"]["minReadySeconds"] = seconds.into(),
        }
        requests::replace(&self.client, &path_of(set), &object).await?;
        Ok(())
    }

    async fn scale(&self, deployment: &Deployment, sets: &Sets, scalings: &[Scaling]) -> Result<(), Error> {
        // A set may be scaled twice: the second time it is as the first one left it.
        let mut versions: HashMap<&str, String> = HashMap::new();
        for Scaling { set, from, to } in scalings {
            let Some(set) = sets.all().find(|known| known.item.name == *set) else { continue };
            let mut object = requests::whole(&set.item)?;
            if let Some(version) = versions.get(set.item.name.as_str()) {
                object["metadata"]["resourceVersion"] = version.as_str().into();
            }
            object["spec"]["replicas"] = (*to).into();
            annotate(&mut object, &revisions::sizes(deployment));
            let written = requests::replace(&self.client, &path_of(set), &object).await?;
            versions.insert(&set.item.name, written.metadata.resource_version);
            if from != to {
                let direction = if from < to { "up" } else { "down" };
                let message = format!("Scaled {direction} replica set {} from {from} to {to}", set.item.name);
                self.events.normal(&about(deployment), "ScalingReplicaSet", message);
            }
        }
        Ok(())
    }

    async fn delete(&self, deployment: &Deployment, names: &[String]) -> Result<(), Error> {
        for name in names {
            let path = format!("/apis/apps/v1/namespaces/{}/replicasets/{name}", deployment.item.namespace);
            match requests::delete(&self.client, &path).await {
                Err(error) if is_not_found(&error) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Gives the Deployment the template and the annotations of an earlier revision; it rolls out by itself then.
    async fn roll_back(&self, deployment: &Deployment, sets: &Sets, to: i64) -> Result<(), Error> {
        let about = about(deployment);
        let to = if to == 0 { revisions::last_revision(sets.all().map(|set| &**set)) } else { to };
        let mut object = requests::whole(&deployment.item)?;
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            annotations.remove(ROLLBACK_TO);
        }
        let target = sets.all().find(|set| to != 0 && revisions::revision(set) == Some(to));
        let (reason, message) = match target {
            None if to == 0 => ("DeploymentRollbackRevisionNotFound", "Unable to find last revision.".to_owned()),
            None => ("DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to.".to_owned()),
            Some(set) if set.template.fingerprint == deployment.template.fingerprint => {
                let name = deployment.item.name.as_str();
                let message =
                    format!("The rollback revision contains the same template as current deployment {name:?}");
                ("DeploymentRollbackTemplateUnchanged", message)
            }
            Some(set) => {
                take_from(&mut object, set)?;
                requests::replace(&self.client, &path(deployment), &object).await?;
                let name = deployment.item.name.as_str();
                let message = format!("Rolled back deployment {name:?} to revision {to}");
                self.events.normal(&about, "DeploymentRollback", message);
                return Ok(());
            }
        };
        self.events.warn(&about, reason, message);
        requests::replace(&self.client, &path(deployment), &object).await?;
        Ok(())
    }

    async fn write_status(
        &self,
        deployment: &Deployment,
        revision: Option<&str>,
        status: &Status,
    ) -> Result<(), Error> {
        let (path, version) = (path(deployment), deployment.item.revision.to_string());
        let written = match revision {
            None => requests::replace_status(&self.client, &path, &deployment.item, &version, status).await,
            Some(revision) => {
                let mut object = requests::whole(&deployment.item)?;
                object["status"] = serde_json::to_value(status)?;
                annotate(&mut object, &[(REVISION.into(), revision.into())]);
                requests::replace(&self.client, &format!("{path}/status"), &object).await
            }
        };
        match written {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(drop).map_err(Error::from),
        }
    }
}

fn path(deployment: &Deployment) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments/{}", deployment.item.namespace, deployment.item.name)
}

fn path_of(set: &ReplicaSet) -> String {
    format!("/apis/apps/v1/namespaces/{}/replicasets/{}", set.item.namespace, set.item.name)
}

fn about(deployment: &Deployment) -> Reference {
    Reference {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        namespace: deployment.item.namespace.clone(),
        name: deployment.item.name.clone(),
        uid: deployment.item.uid.clone(),
        resource_version: deployment.item.revision.to_string().into(),
        ..Reference::default()
    }
}

fn reference(deployment: &Deployment) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": deployment.item.name.as_str(),
        "uid": deployment.item.uid.as_str(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The set that a Deployment makes for its template.
fn new_set(deployment: &Deployment, new: &NewSet) -> Result<Value, Error> {
    let mut source: Value = deployment.item.parse()?;
    let (mut template, mut selector) = (source["spec"]["template"].take(), source["spec"]["selector"].take());
    template["metadata"]["labels"][HASH_LABEL] = new.hash.as_str().into();
    selector["matchLabels"][HASH_LABEL] = new.hash.as_str().into();
    let mut set = json!({
        "apiVersion": API_VERSION,
        "kind": "ReplicaSet",
        "metadata": {
            "name": new.name,
            "namespace": deployment.item.namespace.as_str(),
            "ownerReferences": [reference(deployment)],
            "labels": template["metadata"]["labels"],
        },
        "spec": { "replicas": new.replicas, "selector": selector, "template": template },
    });
    if deployment.min_ready_seconds != 0 {
        set["spec"]["minReadySeconds"] = deployment.min_ready_seconds.into();
    }
    let handed_on = revisions::handed_on(&deployment.annotations).map(|(key, value)| (key.clone(), value.clone()));
    let annotations = handed_on.chain(revisions::sizes(deployment));
    let annotations = annotations.chain([(REVISION.into(), new.revision.to_string().into())]);
    annotate(&mut set, &annotations.collect::<Vec<_>>());
    Ok(set)
}

/// What the cache will have of a set that was just made.
fn made(deployment: &Deployment, set: &Value) -> Option<Set> {
    let name = set["metadata"]["name"].as_str()?;
    let item = Item {
        namespace: deployment.item.namespace.clone(),
        name: name.into(),
        uid: "".into(),
        revision: 0,
        json: set.to_string().into(),
    };
    ReplicaSet::read(&item).map(Arc::new)
}

/// Gives a Deployment what a set has.
fn take_from(deployment: &mut Value, set: &ReplicaSet) -> Result<(), Error> {
    let mut source: Value = set.item.parse()?;
    let mut template = source["spec"]["template"].take();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH_LABEL);
    }
    deployment["spec"]["template"] = template;
    let mut annotations = Map::new();
    if let Some(before) = deployment["metadata"]["annotations"].as_object() {
        let own = before.iter().filter(|(key, _)| revisions::is_own(key));
        annotations.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    }
    let taken: &Labels = &set.annotations;
    annotations.extend(revisions::handed_on(taken).map(|(key, value)| (key.to_string(), value.as_str().into())));
    deployment["metadata"]["annotations"] = annotations.into();
    Ok(())
}

fn annotate(object: &mut Value, annotations: &[(Text, Text)]) {
    for (key, value) in annotations {
        object["metadata"]["annotations"][key.as_str()] = value.as_str().into();
    }
}
