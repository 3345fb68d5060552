//! Deletes pods that nobody else will: of nodes that are gone or out of service, terminating ones that never had a node,
//! and the oldest of those that came to an end, when too many have. Watches pods and nodes; writes the status of pods, and
//! deletes them.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1;
use rkube_machinery::host::Clock;
use rkube_machinery::{Text, time};
use rkube_operator::kube::api::{Api, DeleteParams, Patch, PatchParams};
use rkube_operator::kube::{self, Client};
use rkube_operator::{Index, Informer, Key};
use serde_json::{Value, json};

use crate::Context;
use crate::nodes::{self, Node};
use crate::pods::{self, ByNode, Pod};
use plan::{Missing, Why};

/// How often all pods are looked at.
const PERIOD: Duration = Duration::from_secs(20);
/// So many pods are deleted at a time.
const AT_ONCE: usize = 16;

/// Pods that came to an end.
struct Ended;

impl Index<Pod> for Ended {
    type Key = ();

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = ()> {
        pod.is_terminal().then_some(())
    }
}

/// Pods that are to go.
struct Terminating;

impl Index<Pod> for Terminating {
    type Key = ();

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = ()> {
        pod.deleted.map(drop)
    }
}

pub async fn run(context: Context) {
    let Context { client, caches, clock, settings } = context;
    let ended_max = match settings.terminated_pod_gc_threshold {
        0 => usize::MAX,
        threshold => threshold,
    };
    let pods = pods::informer(&caches).indexed::<ByNode>().indexed::<Ended>().indexed::<Terminating>();
    let nodes = nodes::informer(&caches);
    pods.synced().await;
    nodes.synced().await;
    let mut missing = Missing::default();
    loop {
        collect(&client, &*clock, &pods, &nodes, ended_max, &mut missing).await;
        tokio::time::sleep(PERIOD).await;
    }
}

async fn collect(
    client: &Client,
    clock: &dyn Clock,
    pods: &Informer<Pod>,
    nodes: &Informer<Node>,
    ended_max: usize,
    missing: &mut Missing,
) {
    let node = |name: &str| nodes.get("", name);
    let suspected = missing.long_gone(&pods.index_keys::<ByNode>(), node, clock.now_seconds());
    let gone = really_gone(client, suspected).await;
    let plan = plan::plan(&concerned(pods, &gone, ended_max), node, &gone, ended_max);
    let deleting = plan.iter().map(|(pod, why)| delete(client, clock, pod, *why));
    futures::stream::iter(deleting).for_each_concurrent(AT_ONCE, |deleting| deleting).await;
}

/// The pods that may have to go, by namespace and name: a look at all others would find nothing.
fn concerned(pods: &Informer<Pod>, gone: &[Text], ended_max: usize) -> Vec<Arc<Pod>> {
    let mut concerned = pods.by_index::<Terminating, _>(&());
    concerned.extend(gone.iter().flat_map(|node| pods.by_index::<ByNode, _>(node)));
    if pods.with_index::<Ended, _, _>(&(), |ended| ended.len() > ended_max) {
        concerned.extend(pods.by_index::<Ended, _>(&()));
    }
    concerned.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    concerned.dedup_by(|one, other| (&one.namespace, &one.name) == (&other.namespace, &other.name));
    concerned
}

/// Those of which the server says so, too.
async fn really_gone(client: &Client, suspected: Vec<Text>) -> Vec<Text> {
    let api: Api<v1::Node> = Api::all(client.clone());
    let mut gone = Vec::new();
    for name in suspected {
        match api.get_metadata_opt(&name).await {
            Ok(None) => gone.push(name),
            Ok(Some(_)) => {}
            Err(error) => tracing::debug!(node = %name, %error, "cannot tell whether a node is there"),
        }
    }
    gone
}

async fn delete(client: &Client, clock: &dyn Clock, pod: &Arc<Pod>, why: Why) {
    match try_delete(client, clock, pod, why).await {
        Ok(()) => {
            tracing::info!(namespace = %pod.namespace, name = %pod.name, ?why, "a pod was deleted that nobody else would")
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => tracing::warn!(namespace = %pod.namespace, name = %pod.name, ?why, %error, "cannot delete a pod"),
    }
}

async fn try_delete(client: &Client, clock: &dyn Clock, pod: &Pod, why: Why) -> Result<(), kube::Error> {
    let api: Api<v1::Pod> = Api::namespaced(client.clone(), &pod.namespace);
    if plan::fails(pod) {
        let patch = Patch::Strategic(failed(pod, why, clock.now_seconds()));
        api.patch_status(&pod.name, &PatchParams::default(), &patch).await?;
    }
    api.delete(&pod.name, &DeleteParams::default().grace_period(0)).await.map(|_| ())
}

/// What is said of a pod that nobody ended.
fn failed(pod: &Pod, why: Why, now_seconds: i64) -> Value {
    let mut status = json!({ "phase": "Failed", "observedGeneration": pod.generation });
    if why == Why::Orphaned {
        status["conditions"] = json!([{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "observedGeneration": pod.generation,
            "lastTransitionTime": time::format_seconds(now_seconds),
        }]);
    }
    // Another pod of the same name is none of ours.
    json!({ "metadata": { "uid": pod.uid.as_str() }, "status": status })
}
