//! What is written for one pod of a StatefulSet: the pod and its claims.

use std::sync::Arc;

use rkube_operator::Informer;
use rkube_operator::events::Recorder;
use rkube_operator::kube::{self, Client};
use serde_json::{Value, json};

use crate::history::REVISION_HASH;
use crate::owner::{Error, Owner, Template, path_of};
use crate::pods::{Phase, Pod};
use crate::requests::{self, is_not_found};
use crate::stateful_sets::act::STATEFUL_SET;
use crate::stateful_sets::plan::{Action, POD_INDEX, POD_NAME};
use crate::stateful_sets::retention;
use crate::stateful_sets::view::{Claim, StatefulSet};

/// What is the same for all pods of a set.
pub struct Shared {
    pub client: Client,
    pub events: Recorder,
    pub set: Arc<StatefulSet>,
    pub claims: Arc<Informer<Claim>>,
    /// The spec of the set.
    pub spec: Value,
    pub current: Template,
    pub updated: Template,
    pub current_name: String,
    pub updated_name: String,
}

pub struct Member {
    shared: Arc<Shared>,
    action: Action,
}

impl Member {
    pub fn new(shared: Arc<Shared>, action: Action) -> Member {
        Member { shared, action }
    }

    pub async fn act(self) -> Result<(), Error> {
        match &self.action {
            Action::Create { ordinal, updated } => self.create(*ordinal, *updated).await,
            Action::Delete(pod) => self.delete(pod).await,
            Action::Claims(pod) => self.claims(pod).await,
            Action::Update(pod) => self.update(pod).await,
            Action::Retain(pod) => self.retain(pod).await,
        }
    }

    fn owner(&self) -> Owner<'_> {
        let Shared { client, events, set, .. } = &*self.shared;
        Owner { kind: &STATEFUL_SET, item: &set.item, client, events }
    }

    fn ordinal(&self, pod: &Pod) -> i64 {
        self.shared.set.ordinal(&pod.name).unwrap_or(-1)
    }

    async fn create(&self, ordinal: i64, updated: bool) -> Result<(), Error> {
        let name = self.shared.set.pod_name(ordinal);
        if let Err(error) = self.make_claims(&name, ordinal).await {
            let outcome = Err(error);
            self.tell("Create", &name, &outcome);
            return outcome;
        }
        let body = self.body(ordinal, updated).to_string().into_bytes();
        let made = requests::create(&self.shared.client, &self.owner().beside("/api/v1", "pods"), body).await;
        match made {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Err(kube::Error::Api(status).into()),
            other => {
                let outcome = other.map_err(Error::from);
                self.tell("Create", &name, &outcome);
                outcome.map(drop)
            }
        }
    }

    async fn delete(&self, pod: &Pod) -> Result<(), Error> {
        let outcome = match requests::delete(&self.shared.client, &path_of(pod)).await {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(drop).map_err(Error::from),
        };
        self.tell("Delete", &pod.name, &outcome);
        outcome
    }

    async fn claims(&self, pod: &Pod) -> Result<(), Error> {
        self.make_claims(&pod.name, self.ordinal(pod)).await?;
        let outcome = self.retain(pod).await;
        if outcome.is_err() {
            self.tell("Update", &pod.name, &outcome);
        }
        outcome
    }

    async fn update(&self, pod: &Pod) -> Result<(), Error> {
        let ordinal = self.ordinal(pod);
        let is_pending = pod.phase == Phase::Pending;
        if is_pending {
            self.make_claims(&pod.name, ordinal).await?;
        }
        let outcome = async {
            let mut patch = json!({ "metadata": { "labels": { POD_NAME: pod.name.as_str() } } });
            patch["metadata"]["labels"][POD_INDEX] = ordinal.to_string().into();
            let set = &self.shared.set;
            let has = |template: &str| {
                let wanted = set.claim_name(template, ordinal);
                pod.claims.iter().any(|(volume, claim)| volume == template && *claim == wanted)
            };
            if !set.claims.iter().all(|template| has(template)) {
                if !is_pending {
                    self.make_claims(&pod.name, ordinal).await?;
                }
                patch["spec"]["volumes"] = self.volumes(ordinal).into();
            }
            self.retain(pod).await?;
            requests::patch(&self.shared.client, &path_of(pod), &patch).await?;
            Ok(())
        }
        .await;
        self.tell("Update", &pod.name, &outcome);
        outcome
    }

    /// Sees to it that the claims of a pod are owned as they should be.
    async fn retain(&self, pod: &Pod) -> Result<(), Error> {
        let (set, ordinal) = (&self.shared.set, self.ordinal(pod));
        for template in &set.claims {
            let name = set.claim_name(template, ordinal);
            let Some(claim) = self.shared.claims.get(&set.item.namespace, &name) else { continue };
            if retention::has_other_controller(set, pod, &claim) {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, \
                     the retention policy is ignored for this claim"
                );
                self.owner().warn("ConflictingController", message);
            }
            if retention::is_owned_well(set, ordinal, pod, &claim) {
                continue;
            }
            let mut object = requests::whole(&claim.item)?;
            let owners = retention::owners(set, ordinal, pod, &claim, &object["metadata"]["ownerReferences"]);
            object["metadata"]["ownerReferences"] = owners;
            let path = format!("{}/{name}", self.owner().beside("/api/v1", "persistentvolumeclaims"));
            let written = requests::replace(&self.shared.client, &path, &object).await;
            let what = || format!("could not update claim {name} for delete policy ownerRefs");
            written.map_err(|error| Error::For { what: what(), error })?;
        }
        Ok(())
    }

    /// Makes the claims of a pod that are not there.
    async fn make_claims(&self, pod: &str, ordinal: i64) -> Result<(), Error> {
        let mut failed = Vec::new();
        for template in self.shared.spec["volumeClaimTemplates"].as_array().into_iter().flatten() {
            failed.extend(self.make_claim(pod, ordinal, template).await.err());
        }
        match failed.pop() {
            None => Ok(()),
            Some(only) if failed.is_empty() => Err(only),
            Some(last) => {
                failed.push(last);
                let told: Vec<String> = failed.iter().map(Error::told).collect();
                Err(Error::Wait(format!("[{}]", told.join(", "))))
            }
        }
    }

    async fn make_claim(&self, pod: &str, ordinal: i64, template: &Value) -> Result<(), Error> {
        let set = &self.shared.set;
        let name = set.claim_name(template["metadata"]["name"].as_str().unwrap_or_default(), ordinal);
        match self.shared.claims.get(&set.item.namespace, &name) {
            Some(claim) if claim.deleted.is_some() => {
                return Err(Error::Wait(format!("pvc {name} is being deleted")));
            }
            Some(_) => return Ok(()),
            None => {}
        }
        let mut body = claim_body(template, &name, &self.shared.spec["selector"]["matchLabels"]);
        if let Some(owners) = retention::first_owners(set, ordinal) {
            body["metadata"]["ownerReferences"] = owners;
        }
        let path = self.owner().beside("/api/v1", "persistentvolumeclaims");
        let Err(error) = requests::create(&self.shared.client, &path, body.to_string().into_bytes()).await else {
            let message = format!("Create Claim {name} Pod {pod} in StatefulSet {} success", set.item.name);
            self.owner().tell("SuccessfulCreate", message);
            return Ok(());
        };
        if !matches!(&error, kube::Error::Api(status) if status.is_already_exists()) {
            let why = requests::message(&error);
            let message =
                format!("Create Claim {name} for Pod {pod} in StatefulSet {} failed error: {why}", set.item.name);
            self.owner().warn("FailedCreate", message);
        }
        Err(Error::For { what: format!("failed to create PVC {name}"), error })
    }

    fn body(&self, ordinal: i64, updated: bool) -> Value {
        let Shared { set, spec, current, current_name, updated: new, updated_name, .. } = &*self.shared;
        let (template, revision) = if updated { (new, updated_name) } else { (current, current_name) };
        let mut pod = self.owner().pod(template);
        let name = set.pod_name(ordinal);
        pod["metadata"]["name"] = name.as_str().into();
        pod["metadata"]["labels"][POD_NAME] = name.as_str().into();
        pod["metadata"]["labels"][POD_INDEX] = ordinal.to_string().into();
        pod["metadata"]["labels"][REVISION_HASH] = revision.as_str().into();
        pod["spec"]["hostname"] = name.into();
        if let Some(service) = spec["serviceName"].as_str().filter(|service| !service.is_empty()) {
            pod["spec"]["subdomain"] = service.into();
        }
        if !set.claims.is_empty() {
            let mut volumes = self.volumes(ordinal);
            let others = pod["spec"]["volumes"].as_array().into_iter().flatten();
            let is_claim = |volume: &Value| set.claims.iter().any(|claim| volume["name"] == claim.as_str());
            volumes.extend(others.filter(|volume| !is_claim(volume)).cloned());
            pod["spec"]["volumes"] = volumes.into();
        }
        pod
    }

    fn volumes(&self, ordinal: i64) -> Vec<Value> {
        let set = &self.shared.set;
        let volume = |template: &str| json!({ "name": template, "persistentVolumeClaim": { "claimName": set.claim_name(template, ordinal) } });
        set.claims.iter().map(|template| volume(template)).collect()
    }

    fn tell<T>(&self, verb: &str, pod: &str, outcome: &Result<T, Error>) {
        let set = &self.shared.set.item.name;
        match outcome {
            Ok(_) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} successful");
                self.owner().tell(&format!("Successful{verb}"), message);
            }
            Err(error) => {
                let message = format!("{verb} Pod {pod} in StatefulSet {set} failed error: {}", error.told());
                self.owner().warn(&format!("Failed{verb}"), message);
            }
        }
    }
}

fn claim_body(template: &Value, name: &str, labels: &Value) -> Value {
    let mut claim = template.clone();
    claim["apiVersion"] = "v1".into();
    claim["kind"] = "PersistentVolumeClaim".into();
    claim["metadata"]["name"] = name.into();
    for (key, value) in labels.as_object().into_iter().flatten() {
        claim["metadata"]["labels"][key] = value.clone();
    }
    claim
}
