//! Before a pod is bound: its claims get the volumes that were chosen for them, or the node for which volumes are to be
//! made, and are waited for until others have bound them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use rkube_operator::kube::api::{Patch, PatchParams, Request};
use rkube_operator::kube::{self, Client, Resource};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use crate::core::Preparation;
use crate::shared::Shared;
use crate::snapshot::storage::work::{Work, Written};
use crate::view::claim::SELECTED_NODE;
use crate::view::volume::BOUND_BY_CONTROLLER;
use crate::view::{Claim, Pod, Volume};
use crate::writes::{of_pods, text};

/// How long claims may take to be bound; upstream's.
const BINDING_MAX: Duration = Duration::from_secs(600);
/// So many pods write for their volumes at a time. Those that wait are not among them.
pub const WRITES_MAX: usize = 64;

/// Ok when all volumes are bound; if not, why, in upstream's words. None: the pod is gone, or has a node.
pub async fn prepare(client: &Client, shared: &Shared, pod: &Pod, work: &Work) -> Option<Result<(), String>> {
    let waiter = Waiter::new(shared, pod);
    let written = {
        let _permit = shared.volume_writes.acquire().await;
        nominate(client, pod, &work.node).await;
        match write(client, work).await {
            Ok(written) => written,
            Err(error) => return Some(Err(error)),
        }
    };
    let deadline = Instant::now() + BINDING_MAX;
    shared.with(|core| core.volumes_written(&pod.uid, written));
    loop {
        match shared.with(|core| core.preparation(&pod.uid)) {
            Preparation::Done => return Some(Ok(())),
            Preparation::Gone => return None,
            Preparation::Failed(why) => return Some(Err(format!("binding volumes: {why}"))),
            Preparation::Waits => {}
        }
        tokio::select! {
            biased;
            () = waiter.woken.notified() => {}
            () = tokio::time::sleep_until(deadline) => {
                return Some(Err("binding volumes: context deadline exceeded".to_owned()));
            }
        }
    }
}

/// One that is woken when the core knows more of a pod's volumes.
struct Waiter<'a> {
    shared: &'a Shared,
    pod: &'a Pod,
    woken: Arc<Notify>,
}

impl Waiter<'_> {
    fn new<'a>(shared: &'a Shared, pod: &'a Pod) -> Waiter<'a> {
        let woken = Arc::new(Notify::new());
        shared.waiters.lock().insert(pod.uid.clone(), woken.clone());
        Waiter { shared, pod, woken }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.shared.waiters.lock().remove(&self.pod.uid);
    }
}

pub fn semaphore() -> Semaphore {
    Semaphore::new(WRITES_MAX)
}

/// Tells where the pod is to be while its volumes are not there yet. Nothing depends on it.
async fn nominate(client: &Client, pod: &Pod, node: &str) {
    if pod.pending.as_ref().is_some_and(|pending| pending.nominated_node == node) {
        return;
    }
    let patch = json!({ "metadata": { "uid": pod.uid.as_str() }, "status": { "nominatedNodeName": node } });
    let request =
        of_pods(pod).patch_subresource("status", &pod.name, &PatchParams::default(), &Patch::Strategic(patch));
    let answer = match request {
        Ok(request) => client.request::<IgnoredAny>(request).await,
        Err(error) => return tracing::debug!(%error, "a node cannot be nominated"),
    };
    if let Err(error) = answer {
        tracing::debug!(pod = %pod.name, error = text(&error), "a node was not nominated");
    }
}

/// Writes what is not there yet. What was written stays, also if more fails: the next try begins with it.
async fn write(client: &Client, work: &Work) -> Result<Written, String> {
    let mut written = Written::default();
    for (volume, claim) in &work.bindings {
        let revision = match binding(volume, claim) {
            Some(patch) => {
                let request = Request::new(PersistentVolume::url_path(&(), None));
                send(client, request, &volume.name, &patch).await?
            }
            None => volume.revision,
        };
        written.bindings.push(revision);
    }
    for claim in &work.provisions {
        let revision = if claim.selected_node.as_ref() == Some(&work.node) {
            claim.revision
        } else {
            let patch = json!({ "metadata": {
                "uid": claim.uid.as_str(), "resourceVersion": claim.revision.to_string(),
                "annotations": { SELECTED_NODE: work.node.as_str() },
            } });
            let request = Request::new(PersistentVolumeClaim::url_path(&(), Some(&claim.namespace)));
            send(client, request, &claim.name, &patch).await?
        };
        written.provisions.push(revision);
    }
    Ok(written)
}

/// What makes a volume the claim's; None if it is.
fn binding(volume: &Volume, claim: &Claim) -> Option<Value> {
    let is_for = |reference: &crate::view::ClaimReference| {
        (&reference.namespace, &reference.name) == (&claim.namespace, &claim.name)
    };
    let reference = volume.claim.as_ref();
    if reference.is_some_and(|reference| is_for(reference) && reference.uid == claim.uid) {
        return None;
    }
    let mut patch = json!({
        "metadata": { "uid": volume.uid.as_str(), "resourceVersion": volume.revision.to_string() },
        "spec": { "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace.as_str(),
            "name": claim.name.as_str(), "uid": claim.uid.as_str(), "resourceVersion": claim.revision.to_string(),
        } },
    });
    // Not where a person has said that the claim is to have it.
    if !reference.is_some_and(is_for) {
        patch["metadata"]["annotations"] = json!({ BOUND_BY_CONTROLLER: "yes" });
    }
    Some(patch)
}

/// At which revision it was written.
async fn send(client: &Client, request: Request, name: &str, patch: &Value) -> Result<u64, String> {
    let request =
        request.patch(name, &PatchParams::default(), &Patch::Merge(patch)).map_err(|error| error.to_string())?;
    let answer = client.request::<Answer>(request).await.map_err(|error: kube::Error| text(&error))?;
    answer.metadata.resource_version.parse().map_err(|_| "the server's answer has no resourceVersion".to_owned())
}

#[derive(Deserialize)]
struct Answer {
    metadata: AnswerMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerMetadata {
    resource_version: String,
}
