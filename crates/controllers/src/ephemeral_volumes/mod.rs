//! Makes the claims of volumes that live as long as their pods. Watches pods and claims; makes claims that pods own, and
//! makes them again when they were deleted. The garbage collector deletes them with the pod.

use std::sync::Arc;

use rkube_operator::events::{Recorder, Reference};
use rkube_operator::kube::Client;
use rkube_operator::{Informer, Key, Outcome, Queue};
use serde_json::{Value, json};

use crate::Context;
use crate::owner::path_of;
use crate::pods::{self, Pod};
use crate::requests::{self, is_not_found};
use crate::volumes::{self, Claim};

const NAME: &str = "ephemeral-volume-controller";
/// What events say who it is, as upstream.
const COMPONENT: &str = "ephemeral_volume";

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let queue: Queue<Key> = Queue::new();
    let adding = queue.clone();
    // What pods want does not change.
    let pods = pods::informer(&caches).indexed::<pods::ByClaim>().on_change(move |change| {
        if change.old.is_none() && change.new.is_some_and(|pod| is_concerned(pod)) {
            adding.add(change.key.clone());
        }
    });
    let (adding, known) = (queue.clone(), pods::informer(&caches));
    let claims = volumes::claims(&caches).on_change(move |change| {
        if change.new.is_none() {
            let path = volumes::path(&change.key.namespace, &change.key.name);
            let users = known.by_index::<pods::ByClaim, _>(&path);
            let concerned = users.iter().filter(|pod| is_concerned(pod));
            concerned.for_each(|pod| adding.add(volumes::key(&pod.namespace, &pod.name)));
        }
    });
    pods.synced().await;
    claims.synced().await;
    let events = Recorder::start(client.clone(), clock, COMPONENT);
    let maker = Arc::new(Maker { client, events, pods, claims });
    rkube_operator::run(NAME, queue, settings.concurrent_ephemeralvolume_syncs, move |key: Key| {
        let maker = maker.clone();
        async move { maker.reconcile(&key).await }
    })
    .await;
}

fn is_concerned(pod: &Pod) -> bool {
    !pod.ephemeral.is_empty() && pod.deleted.is_none()
}

struct Maker {
    client: Client,
    events: Recorder,
    pods: Informer<Pod>,
    claims: Informer<Claim>,
}

impl Maker {
    async fn reconcile(&self, key: &Key) -> Result<Outcome, String> {
        let Some(pod) = self.pods.get(&key.namespace, &key.name).filter(|pod| is_concerned(pod)) else {
            return Ok(Outcome::Unchanged);
        };
        let mut outcome = Outcome::Unchanged;
        for volume in &pod.ephemeral {
            match self.settle(&pod, volume).await {
                Ok(Outcome::Wrote) => outcome = Outcome::Wrote,
                Ok(Outcome::Unchanged) => {}
                Err(why) => {
                    let message = format!("ephemeral volume {volume}: {why}");
                    self.events.warn(&about(&pod), "FailedBinding", message.as_str());
                    return Err(message);
                }
            }
        }
        Ok(outcome)
    }

    async fn settle(&self, pod: &Pod, volume: &str) -> Result<Outcome, String> {
        let name = format!("{}-{volume}", pod.name);
        if let Some(claim) = self.claims.get(&pod.namespace, &name) {
            return check(&claim, pod).map(|()| Outcome::Unchanged);
        }
        // Templates of claims are not kept: few pods have any.
        let whole = match requests::get_value(&self.client, &path_of(pod)).await {
            Ok(whole) if whole["metadata"]["uid"] == pod.uid.as_str() => whole,
            Ok(_) => return Ok(Outcome::Unchanged),
            Err(error) if is_not_found(&error) => return Ok(Outcome::Unchanged),
            Err(error) => return Err(requests::message(&error)),
        };
        let Some(claim) = claim_for(&whole, volume, &name) else { return Ok(Outcome::Unchanged) };
        let path = format!("/api/v1/namespaces/{}/persistentvolumeclaims", pod.namespace);
        match requests::create(&self.client, &path, claim.to_string().into_bytes()).await {
            Ok(_) => Ok(Outcome::Wrote),
            Err(error) => Err(format!("create PVC {name}: {}", requests::message(&error))),
        }
    }
}

/// A claim of the name may be somebody else's.
fn check(claim: &Claim, pod: &Pod) -> Result<(), String> {
    if claim.controller_uid.as_ref() == Some(&pod.uid) {
        return Ok(());
    }
    let (namespace, name) = (&claim.item.namespace, &claim.item.name);
    Err(format!("PVC {namespace}/{name} was not created for pod {}/{} (pod is not owner)", pod.namespace, pod.name))
}

/// The claim of a volume as the pod says that it is to be.
fn claim_for(pod: &Value, volume: &str, name: &str) -> Option<Value> {
    let mut volumes = pod["spec"]["volumes"].as_array()?.iter();
    let template = volumes.find(|one| one["name"] == volume)?["ephemeral"].get("volumeClaimTemplate")?;
    let metadata = &pod["metadata"];
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    });
    for field in ["annotations", "labels"] {
        if let Some(value) = template["metadata"].get(field) {
            claim["metadata"][field] = value.clone();
        }
    }
    Some(claim)
}

fn about(pod: &Pod) -> Reference {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_as_its_template_says() {
        let template =
            json!({ "metadata": { "labels": { "a": "b" }, "name": "ignored" }, "spec": { "accessModes": ["x"] } });
        let pod = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": { "volumes": [
            { "name": "other", "emptyDir": {} },
            { "name": "v", "ephemeral": { "volumeClaimTemplate": template } },
        ] } });
        let claim = claim_for(&pod, "v", "p-v").unwrap();
        assert_eq!((&claim["metadata"]["name"], &claim["metadata"]["labels"]["a"]), (&json!("p-v"), &json!("b")));
        assert_eq!(claim["metadata"]["ownerReferences"][0]["uid"], "u");
        assert_eq!(claim["spec"]["accessModes"][0], "x");
        assert_eq!(claim_for(&pod, "other", "p-other"), None);
        assert_eq!(claim_for(&pod, "none", "p-none"), None);
    }
}
