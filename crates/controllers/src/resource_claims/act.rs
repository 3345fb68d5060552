//! One reconcile of a pod that claims devices, or of a claim.

use std::collections::BTreeMap;

use rkube_machinery::Text;
use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Item, Key, Outcome};
use serde_json::{Value, json};

use crate::owner::Error;
use crate::pods::Pod;
use crate::requests::{self, is_not_found};
use crate::resource_claims::plan::{self, Lacking, Release, Reservation};
use crate::resource_claims::view::{ByPod, Claim, Consumer, FINALIZER};

/// Who writes the status of pods.
const FIELD_MANAGER: &str = "ResourceClaimController";

pub struct Manager {
    pub client: Client,
    pub events: Recorder,
    pub pods: Informer<Pod>,
    pub claims: Informer<Claim>,
    pub templates: Informer<Item>,
}

impl Manager {
    /// Makes the claims that a pod lacks, and reserves those that it uses.
    pub async fn reconcile_pod(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name).filter(|pod| pod.deleted.is_none()) else {
            return Ok(Outcome::Unchanged);
        };
        let find = |name: &str| self.claims.get(&key.namespace, name);
        let own = self.claims.by_index::<ByPod, _>(&*pod.uid);
        let lacking = plan::lacking(&pod, find, &own);
        let mut made = BTreeMap::new();
        for lack in lacking {
            let object = match &lack.found {
                Some(found) => found.clone(),
                None => self.make(&pod, &lack).await.inspect_err(|error| {
                    let message = format!("PodResourceClaim {}: {}", lack.name, error.told());
                    self.events.warn(&reference(&pod), "FailedResourceClaimCreation", message);
                })?,
            };
            made.insert(lack.name, object);
        }
        if !made.is_empty() {
            self.write_statuses(&pod, &made).await?;
        }
        let mut wrote = !made.is_empty();
        for claim in plan::unreserved(&pod, find) {
            let mut object = requests::whole(&claim.item)?;
            let mine = json!({ "resource": "pods", "name": pod.name.as_str(), "uid": pod.uid.as_str() });
            match object["status"]["reservedFor"].as_array_mut() {
                Some(all) => all.push(mine),
                None => object["status"]["reservedFor"] = json!([mine]),
            }
            requests::replace(&self.client, &format!("{}/status", path_of(&claim)), &object).await?;
            wrote = true;
        }
        Ok(if wrote { Outcome::Wrote } else { Outcome::Unchanged })
    }

    async fn make(&self, pod: &Pod, lack: &Lacking) -> Result<Text, Error> {
        let template = &lack.template;
        let found = self.templates.get(&pod.namespace, template).ok_or_else(|| {
            let missing = format!("resourceclaimtemplate.resource.k8s.io {:?} not found", template.as_str());
            Error::Wait(format!("resource claim template {:?}: {missing}", template.as_str()))
        })?;
        let body = plan::object(pod, &lack.name, &found.parse()?).to_string().into_bytes();
        let path = format!("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims", pod.namespace);
        match requests::create(&self.client, &path, body).await {
            Ok(made) => Ok(made.metadata.name.into()),
            // The name that follows these words upstream is always empty.
            Err(error) => Err(Error::Wait(format!("create ResourceClaim : {}", requests::message(&error)))),
        }
    }

    async fn write_statuses(&self, pod: &Pod, made: &BTreeMap<Text, Text>) -> Result<(), Error> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": pod.name.as_str(), "namespace": pod.namespace.as_str() },
            "status": { "resourceClaimStatuses": plan::statuses(pod, made) },
        });
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
        match requests::apply(&self.client, &path, FIELD_MANAGER, &body).await {
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Ends reservations of pods that are done, and with the last of them the allocation, and what was made for a pod.
    pub async fn reconcile_claim(&self, key: &Key) -> Result<Outcome, Error> {
        let Some(claim) = self.claims.get(&key.namespace, &key.name) else { return Ok(Outcome::Unchanged) };
        let remaining = self.remaining(&claim).await?;
        let owner = claim.pod.as_ref().and_then(|(name, _)| self.pods.get(&key.namespace, name));
        let release = plan::release(&claim, remaining.len(), owner.as_deref());
        let mut object = requests::whole(&claim.item)?;
        if release.reservations || release.allocation {
            object = self.write_status(&claim, object, &remaining, release).await?;
        }
        if release.finalizer {
            remove_finalizer(&mut object);
            requests::replace(&self.client, &path_of(&claim), &object).await?;
        }
        if release.delete {
            match requests::delete(&self.client, &path_of(&claim)).await {
                Err(error) if !is_not_found(&error) => return Err(error.into()),
                _ => {}
            }
        }
        // Others wait for what is released, however many share the claim.
        Ok(Outcome::Unchanged)
    }

    async fn remaining(&self, claim: &Claim) -> Result<Vec<Consumer>, Error> {
        let mut remaining = Vec::new();
        for consumer in &claim.reserved_for {
            let pod = self.pods.get(&claim.item.namespace, &consumer.name);
            let kept = match plan::reservation(consumer, pod.as_deref()) {
                Reservation::Kept => true,
                Reservation::Over => false,
                // The scheduler may be faster than the cache.
                Reservation::Unknown => self.is_there(&claim.item.namespace, consumer).await?,
            };
            if kept {
                remaining.push(consumer.clone());
            }
        }
        Ok(remaining)
    }

    async fn is_there(&self, namespace: &str, consumer: &Consumer) -> Result<bool, Error> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}", consumer.name);
        match requests::get(&self.client, &path).await {
            Ok(pod) => Ok(pod.metadata.uid == consumer.uid.as_str()),
            Err(error) if is_not_found(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The object as it is afterwards.
    async fn write_status(
        &self,
        claim: &Claim,
        mut object: Value,
        remaining: &[Consumer],
        release: Release,
    ) -> Result<Value, Error> {
        if let Some(status) = object["status"].as_object_mut() {
            let is_kept = |reserved: &Value| remaining.iter().any(|one| reserved["uid"] == one.uid.as_str());
            if let Some(all) = status.get_mut("reservedFor").and_then(Value::as_array_mut) {
                all.retain(is_kept);
            }
            if remaining.is_empty() {
                status.remove("reservedFor");
            }
            if release.allocation {
                status.remove("allocation");
            }
        }
        Ok(requests::replace_value(&self.client, &format!("{}/status", path_of(claim)), &object).await?)
    }
}

fn remove_finalizer(object: &mut Value) {
    if let Some(all) = object["metadata"]["finalizers"].as_array_mut() {
        all.retain(|finalizer| finalizer != FINALIZER);
    }
}

fn path_of(claim: &Claim) -> String {
    let Item { namespace, name, .. } = &claim.item;
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")
}

fn reference(pod: &Pod) -> Reference {
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
