//! Pods of nodes that are silent are not ready, whatever they said last: services are to leave them out.

use std::sync::Arc;

use futures::StreamExt as _;
use rkube_machinery::host::Clock;
use rkube_machinery::time;
use rkube_operator::events::Recorder;
use rkube_operator::kube::{self, Client};
use serde_json::json;

use crate::owner::{about_pod, path_of};
use crate::pods::Pod;
use crate::requests::{self, is_not_found};

/// So many pods of a node are written at a time.
const AT_ONCE: usize = 16;

pub struct Marker {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub events: Recorder,
}

impl Marker {
    /// Says of these pods that they are not ready. Whether all of them have it.
    pub async fn mark_all(&self, pods: Vec<Arc<Pod>>) -> bool {
        let ready = pods.into_iter().filter(|pod| pod.ready);
        let marking = futures::stream::iter(ready.map(|pod| async move { self.mark(&pod).await.is_ok() }));
        marking.buffer_unordered(AT_ONCE).all(std::future::ready).await
    }

    pub async fn mark(&self, pod: &Pod) -> Result<(), kube::Error> {
        if !pod.ready {
            return Ok(());
        }
        let now = time::format_seconds(self.clock.now_seconds());
        let condition = json!({ "type": "Ready", "status": "False", "lastTransitionTime": now });
        // Another pod of the same name is none of ours.
        let patch = json!({ "metadata": { "uid": pod.uid.as_str() }, "status": { "conditions": [condition] } });
        match requests::patch(&self.client, &format!("{}/status", path_of(pod)), &patch).await {
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) => {
                tracing::debug!(pod = %pod.name, %error, "a pod cannot be marked as not ready; trying again");
                return Err(error);
            }
            Ok(_) => {}
        }
        self.events.warn(&about_pod(pod), "NodeNotReady", "Node is not ready");
        Ok(())
    }
}
