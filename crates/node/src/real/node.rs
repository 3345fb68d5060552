//! The Node itself: it registers, says how it is, and renews its lease.

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::{Value, json, object};

use super::kubelet::Kubelet;
use crate::api::{self, Answer};
use crate::pod::backoff::micros;
use crate::registration::{self, DECLARED_FEATURES, KUBELET_VERSION};

/// How often the node looks at itself, and renews its lease: four times in the lease's duration.
const PERIOD: Duration = Duration::from_secs(10);
const LEASE_DURATION: Duration = Duration::from_secs(40);
/// How often it says how it is though nothing has changed.
const STATUS_PERIOD: Duration = Duration::from_secs(300);
/// When it tries again to register.
const REGISTER_FIRST: Duration = Duration::from_millis(100);
const REGISTER_MAX: Duration = Duration::from_secs(7);
/// A node tells of so many images, the largest first, and of each so many names.
const IMAGES_MAX: usize = 50;
const NAMES_MAX: usize = 5;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Until this is dropped.
pub(super) async fn run(kubelet: Arc<Kubelet>) {
    register(&kubelet).await;
    tell_of_start(&kubelet);
    let mut posted = Posted::default();
    let mut ticks = tokio::time::interval(PERIOD);
    loop {
        ticks.tick().await;
        if let Err(error) = renew(&kubelet).await {
            tracing::warn!(%error, "the lease of the node cannot be renewed");
        }
        if let Err(error) = posted.post(&kubelet).await {
            tracing::warn!(%error, "the status of the node cannot be written");
        }
    }
}

/// Makes the Node, or takes the one that is there.
async fn register(kubelet: &Kubelet) {
    let mut delay = REGISTER_FIRST;
    loop {
        let status = status(kubelet).await;
        match api::create(&kubelet.config.client, "/api/v1/nodes", &node(kubelet, status)).await {
            Ok(Answer::Done) => return,
            Ok(_) => match relabel(kubelet).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(%error, "the labels of the node cannot be written"),
            },
            Err(error) => tracing::warn!(%error, "the node cannot be registered"),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(REGISTER_MAX);
    }
}

fn labels(kubelet: &Kubelet) -> Value {
    let mut labels = registration::labels(&kubelet.config.name);
    for (key, value) in &kubelet.config.labels {
        labels.set(key, value.clone());
    }
    labels
}

fn node(kubelet: &Kubelet, status: Value) -> Value {
    let config = &kubelet.config;
    let annotations = object! { "volumes.kubernetes.io/controller-managed-attach-detach": "true" };
    let mut spec = Value::object();
    if let Some(first) = config.pod_ranges.first() {
        spec.set("podCIDR", first.clone());
        spec.set("podCIDRs", config.pod_ranges.iter().cloned().map(Value::from).collect::<Vec<_>>());
    }
    if !config.taints.is_empty() {
        spec.set("taints", config.taints.clone());
    }
    let metadata = object! { "name": config.name.clone(), "labels": labels(kubelet), "annotations": annotations };
    object! { "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status }
}

async fn relabel(kubelet: &Kubelet) -> Result<(), api::Error> {
    let patch = object! { "metadata": object! { "labels": labels(kubelet) } };
    api::patch_merge(&kubelet.config.client, &format!("/api/v1/nodes/{}", kubelet.config.name), &patch).await?;
    Ok(())
}

/// All that the node says of itself.
async fn status(kubelet: &Kubelet) -> Value {
    let config = &kubelet.config;
    let runtime = kubelet.runtime();
    let storage = runtime.image_filesystem().await.map(|filesystem| filesystem.capacity_bytes).unwrap_or(0);
    let problem = match runtime.status().await {
        Ok(status) => status.runtime_problem.map(|problem| format!("container runtime is down: {problem}")),
        Err(error) => Some(format!("container runtime is down: {error}")),
    };
    let version = runtime.version();
    let version = format!("{}://{}", version.name, version.version);
    let mut addresses: Vec<Value> = config
        .addresses
        .iter()
        .map(|address| object! { "type": "InternalIP", "address": address.to_string() })
        .collect();
    addresses.push(object! { "type": "Hostname", "address": config.name.clone() });
    let handler = object! { "recursiveReadOnlyMounts": true, "userNamespaces": false };
    object! {
        "addresses": addresses,
        "allocatable": config.machine.allocatable(storage, config.pods_max),
        "capacity": config.machine.capacity(storage, config.pods_max),
        "conditions": registration::conditions(problem.as_deref(), kubelet.now_micros().div_euclid(1_000_000)),
        "daemonEndpoints": object! { "kubeletEndpoint": object! { "Port": i64::from(config.port) } },
        "declaredFeatures": declared_features(),
        "features": object! { "supplementalGroupsPolicy": true },
        "images": images(kubelet).await,
        "nodeInfo": config.machine.info(&version, KUBELET_VERSION),
        "runtimeHandlers": vec![object! { "name": "", "features": handler }],
    }
}

/// Pods are not resized in place here yet.
fn declared_features() -> Vec<Value> {
    let all = DECLARED_FEATURES.into_iter().filter(|feature| !feature.starts_with("InPlacePod"));
    all.map(Value::from).collect()
}

async fn images(kubelet: &Kubelet) -> Vec<Value> {
    let mut images = kubelet.runtime().images().await.unwrap_or_default();
    images.sort_by(|one, other| other.size_bytes.cmp(&one.size_bytes).then_with(|| one.id.cmp(&other.id)));
    let shown = images.into_iter().take(IMAGES_MAX).map(|image| {
        let names = image.digests.into_iter().chain(image.tags).take(NAMES_MAX);
        let names: Vec<Value> = names.map(Value::from).collect();
        object! { "names": names, "sizeBytes": i64::try_from(image.size_bytes).unwrap_or(i64::MAX) }
    });
    shown.collect()
}

/// What was said last, and when.
#[derive(Default)]
struct Posted {
    text: String,
    at_micros: i64,
    ready: String,
}

impl Posted {
    async fn post(&mut self, kubelet: &Kubelet) -> Result<(), api::Error> {
        let now = kubelet.now_micros();
        // One that was deleted is not made again, as elsewhere.
        let Some(view) = kubelet.node.get("", &kubelet.config.name) else { return Ok(()) };
        let mut status = status(kubelet).await;
        let text = without_times(&status);
        if text == self.text && now - self.at_micros < micros(STATUS_PERIOD) {
            return Ok(());
        }
        let known = view.object.get("status").list("conditions");
        registration::keep_times(status.list_mut("conditions"), known);
        self.tell_of_readiness(kubelet, &status);
        // The list of addresses is merged by type: what is not there any more would stay.
        let mut addresses = vec![object! { "$patch": "replace" }];
        addresses.extend(status.list("addresses").iter().cloned());
        status.set("addresses", addresses);
        let path = format!("/api/v1/nodes/{}/status", kubelet.config.name);
        api::patch_strategic(&kubelet.config.client, &path, &object! { "status": status }).await?;
        (self.text, self.at_micros) = (text, now);
        Ok(())
    }

    fn tell_of_readiness(&mut self, kubelet: &Kubelet, status: &Value) {
        let ready = status.list("conditions").iter().find(|condition| condition.str("type") == "Ready");
        let now = ready.map(|condition| condition.str("status").to_owned()).unwrap_or_default();
        if now != self.ready {
            let reason = if now == "True" { "NodeReady" } else { "NodeNotReady" };
            tell_status(kubelet, reason);
            self.ready = now;
        }
    }
}

fn without_times(status: &Value) -> String {
    let mut status = status.clone();
    for condition in status.list_mut("conditions") {
        condition.set("lastHeartbeatTime", Value::Null);
        condition.set("lastTransitionTime", Value::Null);
    }
    json::to_string(&status)
}

fn tell_of_start(kubelet: &Kubelet) {
    kubelet.tell_of_node(false, "Starting", "Starting kubelet.");
    for reason in ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"] {
        tell_status(kubelet, reason);
    }
}

fn tell_status(kubelet: &Kubelet, reason: &str) {
    let name = &kubelet.config.name;
    kubelet.tell_of_node(false, reason, format!("Node {name} status is now: {reason}"));
}

async fn renew(kubelet: &Kubelet) -> Result<(), api::Error> {
    let (name, now) = (&kubelet.config.name, kubelet.now_micros());
    let renewal = object! { "spec": registration::renewal(name, LEASE_DURATION, now) };
    if api::patch_merge(&kubelet.config.client, &format!("{LEASES}/{name}"), &renewal).await? == Answer::NotFound {
        let uid = kubelet.node.get("", name).map(|node| node.uid.clone());
        let lease = registration::lease(name, uid.as_deref(), LEASE_DURATION, now);
        api::create(&kubelet.config.client, LEASES, &lease).await?;
    }
    Ok(())
}
