//! What the scheduler writes: bindings, and the condition that says why there is none.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as ApiPod};
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::kube::api::{Patch, PatchParams, PostParams, Request};
use rkube_operator::kube::{self, Client, Resource};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::core::Bound;
use crate::view::Pod;
use crate::view::pod::digest;

/// How long until it is tried again to find out what became of a binding; doubled each time.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_MAX: Duration = Duration::from_secs(5);
/// A server that is too busy is asked so often; then the pod waits like after any other error.
const BUSY_TRIES: u32 = 5;

/// What became of a binding, and the error if it failed.
pub struct Binding {
    pub outcome: Bound,
    pub error: String,
}

impl Binding {
    fn new(outcome: Bound, error: impl Into<String>) -> Binding {
        Binding { outcome, error: error.into() }
    }
}

/// Binds a pod. Does not return before it is known what became of it: an answer that was lost says nothing.
pub async fn bind(client: &Client, pod: &Pod, node: &str) -> Binding {
    let body = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": { "name": pod.name.as_str(), "namespace": pod.namespace.as_str(), "uid": pod.uid.as_str() },
        "target": { "kind": "Node", "name": node },
    });
    let body = body.to_string().into_bytes();
    let mut pause = AGAIN_FIRST;
    let mut tries = 0;
    loop {
        tries += 1;
        let request = of_pods(pod).create_subresource("binding", &pod.name, &PostParams::default(), body.clone());
        let answer = match request {
            Ok(request) => client.request::<IgnoredAny>(request).await,
            Err(error) => return Binding::new(Bound::Failed, error.to_string()),
        };
        match answer {
            Ok(_) => return Binding::new(Bound::Done, ""),
            Err(kube::Error::Api(status)) if status.code == 404 => return Binding::new(Bound::Gone, ""),
            Err(kube::Error::Api(status)) if status.code == 429 && tries < BUSY_TRIES => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 409 => {
                return Binding::new(Bound::Failed, status.message.clone());
            }
            Err(error) => return Binding::new(found_out(client, pod, node).await, text(&error)),
        }
    }
}

/// Whether the API has a claim that no cache has shown yet. Where it cannot be asked it has none.
pub async fn is_claim_there(client: &Client, namespace: &str, name: &str) -> bool {
    let claims = Request::new(PersistentVolumeClaim::url_path(&(), Some(namespace)));
    match claims.get(name, &kube::api::GetParams::default()) {
        Ok(request) => client.request::<IgnoredAny>(request).await.is_ok(),
        Err(_) => false,
    }
}

/// Asks until there is an answer.
async fn found_out(client: &Client, pod: &Pod, node: &str) -> Bound {
    let mut pause = AGAIN_FIRST;
    loop {
        let answer = match of_pods(pod).get(&pod.name, &kube::api::GetParams::default()) {
            Ok(request) => client.request::<Seen>(request).await,
            Err(_) => return Bound::Failed,
        };
        match answer {
            Ok(seen) if seen.metadata.uid != pod.uid => return Bound::Gone,
            Ok(seen) if seen.spec.node_name == node => return Bound::Done,
            Ok(_) => return Bound::Failed,
            Err(kube::Error::Api(status)) if status.code == 404 => return Bound::Gone,
            Err(error) => {
                tracing::debug!(pod = %pod.name, error = text(&error), "what became of a binding is not known yet");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(AGAIN_MAX);
            }
        }
    }
}

#[derive(Deserialize)]
struct Seen {
    metadata: SeenMetadata,
    spec: SeenSpec,
}

#[derive(Deserialize)]
struct SeenMetadata {
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenSpec {
    #[serde(default)]
    node_name: String,
}

/// Says in the pod's status why it has no node.
pub async fn set_condition(client: &Client, pod: &Pod, patch: serde_json::Value) {
    let request =
        of_pods(pod).patch_subresource("status", &pod.name, &PatchParams::default(), &Patch::Strategic(patch));
    let answer = match request {
        Ok(request) => client.request::<IgnoredAny>(request).await,
        Err(error) => return tracing::debug!(%error, "a condition cannot be written"),
    };
    if let Err(error) = answer {
        // It is written again with the next try; upstream does no more either.
        tracing::debug!(pod = %pod.name, error = text(&error), "a condition was not written");
    }
}

/// The node that a pod was to have is not its node any more: takes the name out of the status, with a patch for more.
pub fn without_nomination(patch: Option<serde_json::Value>, pod: &Pod) -> serde_json::Value {
    let mut patch = patch.unwrap_or_else(|| json!({ "metadata": { "uid": pod.uid.as_str() } }));
    patch["status"]["nominatedNodeName"] = serde_json::Value::Null;
    patch
}

/// What says in a pod's status why it has no node; None if it says so already.
pub fn condition_patch(clock: &dyn Clock, pod: &Pod, reason: &str, message: &str) -> Option<serde_json::Value> {
    let pending = pod.pending.as_ref()?;
    let known = pending.condition.as_ref();
    if known.is_some_and(|known| known.digest == digest("False", reason, message, pending.generation)) {
        return None;
    }
    let stays = known.filter(|known| !known.is_true).map(|known| known.last_transition.to_string());
    let since = stays.unwrap_or_else(|| time::format_seconds(clock.now_seconds()));
    Some(json!({
        "metadata": { "uid": pod.uid.as_str() },
        "status": { "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "observedGeneration": pending.generation, "lastProbeTime": null, "lastTransitionTime": since,
        }] },
    }))
}

pub fn of_pods(pod: &Pod) -> Request {
    Request::new(ApiPod::url_path(&(), Some(&pod.namespace)))
}

/// What went wrong, in the server's words.
pub fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}
