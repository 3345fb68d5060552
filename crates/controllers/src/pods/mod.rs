//! The one view of pods that all controllers share: what they count, order, select and publish of a pod, in a few
//! hundred bytes. A controller that needs more of pods adds it here, so that there stays one cache of them.

pub mod by_label;
mod devices;
mod raw;
mod requests;
pub mod tolerations;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use raw::{Raw, RawCondition, RawContainerStatus, RawSpec, RawStatus};
use rkube_machinery::Text;
use rkube_machinery::names::address;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};

use crate::metadata::{Labels, Owner, RawMetadata, seconds};
use tolerations::Tolerations;

pub use by_label::{ByLabel, selected};
pub use devices::{ByClaimTemplate, ByDeviceClaim, DeviceClaim, Devices, Meant};
pub use requests::{Missing, Requests};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// By it a pod is kept until its Job has counted it.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Both an annotation and a label.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

#[derive(Clone, Debug, Default)]
#[allow(dead_code, reason = "some fields are for controllers to come")]
pub struct Pod {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub revision: u64,
    pub generation: i64,
    pub labels: Arc<Labels>,
    /// Who controls the pod.
    pub controller: Option<Arc<Owner>>,
    /// Empty until it is scheduled.
    pub node: Text,
    pub phase: Phase,
    /// Times are seconds since 1970.
    pub created: Option<i64>,
    pub deleted: Option<i64>,
    pub started: Option<i64>,
    /// Whether the condition `Ready` is true.
    pub ready: bool,
    /// When the condition `Ready` became what it is.
    pub ready_changed: Option<i64>,
    /// The most restarts of a container, and of a sidecar.
    pub restarts: (i32, i32),
    pub deletion_cost: i32,
    /// Whether the node put it out to save itself.
    pub evicted: bool,
    pub network: Network,
    pub requests: Arc<Requests>,
    /// None of most.
    pub devices: Option<Box<Devices>>,
    /// Its volumes that are claims: the names of both.
    pub claims: Box<[(Text, Text)]>,
    /// Its volumes that get claims of their own.
    pub ephemeral: Box<[Text]>,
    /// Of a DaemonSet's pod: the node that it is on or for; else empty.
    pub target: Text,
    /// Whether a Job has still to count it, and keeps it until then.
    pub tracked: bool,
    /// Which taints that evict it stands, and for how long.
    pub tolerations: Arc<Tolerations>,
    /// Since when somebody but its node says that it is to be disrupted.
    pub disrupted: Option<i64>,
    /// What only its Job wants to know.
    pub job: Option<Box<OfJob>>,
}

/// What a Job wants to know of its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfJob {
    /// Its completion index.
    pub index: Option<i64>,
    /// How often the index failed before, and how often that did not count.
    pub failures: i64,
    pub ignored_failures: i64,
    /// When it ended, as far as is known, in seconds.
    pub finished: i64,
    /// The restarts of all of its containers.
    pub restarts: i64,
    /// Of a pod that failed: the containers that ended with a code other than 0, in the order in which they are looked at.
    pub exits: Box<[(Text, i32)]>,
    /// Of a pod that failed: types and states of its conditions.
    pub conditions: Box<[(Text, Text)]>,
}

/// How a pod is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    pub addresses: Box<[IpAddr]>,
    pub hostname: Text,
    pub subdomain: Text,
    /// The ports that have names, of containers first, then of sidecars.
    pub ports: Box<[NamedPort]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPort {
    pub name: Text,
    pub protocol: Text,
    pub port: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    #[default]
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// Pods by the uid of their controller.
pub struct ByController;

impl Index<Pod> for ByController {
    type Key = Text;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = Text> {
        pod.controller.as_ref().map(|owner| owner.uid.clone())
    }
}

/// Pods that nobody controls, by namespace.
pub struct Orphans;

impl Index<Pod> for Orphans {
    type Key = Text;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = Text> {
        pod.controller.is_none().then(|| pod.namespace.clone())
    }
}

/// Pods by `namespace/name` of the claims that they use, and of those that are made for them.
pub struct ByClaim;

impl Index<Pod> for ByClaim {
    type Key = Text;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = Text> {
        let named = pod.claims.iter().map(|(_, claim)| Text::from(format!("{}/{claim}", pod.namespace)));
        let own = pod.ephemeral.iter().map(|volume| Text::from(format!("{}/{}-{volume}", pod.namespace, pod.name)));
        named.chain(own).collect::<Vec<Text>>()
    }
}

/// Pods that a Job has to look at, by its uid: those that have not ended, and those that it has not counted.
pub struct OpenOfJob;

impl Index<Pod> for OpenOfJob {
    type Key = Text;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = Text> {
        let open = pod.job.is_some() && (pod.tracked || !pod.is_terminal());
        pod.controller.as_ref().filter(|_| open).map(|owner| owner.uid.clone())
    }
}

/// Pods by the node that they are on.
pub struct ByNode;

impl Index<Pod> for ByNode {
    type Key = Text;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = Text> {
        (!pod.node.is_empty()).then(|| pod.node.clone())
    }
}

/// All pods.
pub fn informer(caches: &Caches) -> Informer<Pod> {
    caches.view(&ApiResource::erase::<v1::Pod>(&()), Selection::default(), Pod::read)
}

impl Pod {
    pub fn read(item: &Item) -> Option<Pod> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a pod cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        let controller = metadata.controller();
        let is_of = |kind: &str| controller.as_ref().is_some_and(|owner| owner.kind == kind);
        let ready = status.conditions.iter().flatten().find(|condition| condition.kind == "Ready");
        Some(Pod {
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            uid: item.uid.clone(),
            revision: item.revision,
            generation: metadata.generation,
            labels: metadata.labels.to_labels().shared(),
            node: Text::new(spec.node_name.as_deref().unwrap_or_default()),
            phase: Phase::read(status.phase.as_deref().unwrap_or_default()),
            created: metadata.created(),
            deleted: metadata.deleted(),
            started: seconds(status.start_time.as_deref()),
            ready: ready.is_some_and(|condition| condition.status == "True"),
            ready_changed: seconds(ready.and_then(|condition| condition.last_transition_time.as_deref())),
            restarts: (most_restarts(&status.container_statuses, |_| true), {
                most_restarts(&status.init_container_statuses, |name| spec.is_sidecar(name))
            }),
            deletion_cost: metadata.annotations.get(DELETION_COST).and_then(deletion_cost).unwrap_or(0),
            evicted: status.reason.as_deref() == Some("Evicted"),
            network: network(&spec, &status),
            requests: Requests::of(&spec),
            devices: Devices::of(&spec, &status),
            claims: spec.claims().collect(),
            ephemeral: spec.ephemeral().collect(),
            target: if is_of("DaemonSet") { spec.target() } else { Text::default() },
            tracked: metadata.has_finalizer(TRACKING),
            tolerations: tolerations::read(spec.tolerations.as_deref().unwrap_or_default()),
            disrupted: disrupted(&status),
            job: is_of("Job").then(|| of_job(&metadata, &spec, &status)),
            controller,
        })
    }

    /// Whether the pod has come to its end by itself.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether the pod counts as a replica.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && self.deleted.is_none()
    }

    /// Whether the pod is on its way out, and its containers may still run.
    pub fn is_terminating(&self) -> bool {
        !self.is_terminal() && self.deleted.is_some()
    }

    /// Whether the pod has been ready for so long.
    pub fn is_available(&self, min_ready_seconds: i64, now_micros: i64) -> bool {
        self.ready && self.available_in(min_ready_seconds, now_micros) == Some(0)
    }

    /// In how many microseconds a pod that stays ready will be available; 0 if it is. None: nobody knows.
    pub fn available_in(&self, min_ready_seconds: i64, now_micros: i64) -> Option<i64> {
        if !self.ready {
            return None;
        }
        if min_ready_seconds == 0 {
            return Some(0);
        }
        let available = self.ready_changed?.saturating_add(min_ready_seconds).saturating_mul(1_000_000);
        Some(available.saturating_sub(now_micros).max(0))
    }
}

impl Phase {
    fn read(text: &str) -> Phase {
        match text {
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            "Unknown" => Phase::Unknown,
            _ => Phase::Pending,
        }
    }
}

fn of_job(metadata: &RawMetadata<'_>, spec: &RawSpec<'_>, status: &RawStatus<'_>) -> Box<OfJob> {
    let number = |annotation: &str| {
        let number = metadata.annotations.get(annotation).and_then(|text| text.parse::<i64>().ok());
        number.filter(|number| (0..=i64::from(i32::MAX)).contains(number))
    };
    let (main, init) = (status.container_statuses.iter().flatten(), status.init_container_statuses.iter().flatten());
    let failed = status.phase.as_deref() == Some("Failed") || metadata.deleted().is_some();
    let exit = |container: &RawContainerStatus<'_>| {
        let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
        (failed && code != 0).then(|| (Text::new(&container.name), code))
    };
    let conditions = status.conditions.iter().flatten().filter(|_| failed);
    Box::new(OfJob {
        index: number(COMPLETION_INDEX),
        failures: number(INDEX_FAILURES).unwrap_or(0),
        ignored_failures: number(INDEX_IGNORED_FAILURES).unwrap_or(0),
        finished: finished(metadata, spec, status).or(metadata.created()).unwrap_or(0),
        restarts: main.clone().chain(init.clone()).map(|container| i64::from(container.restart_count)).sum(),
        exits: main.chain(init).filter_map(exit).collect(),
        conditions: conditions.map(|one| (Text::new(&one.kind), Text::new(&one.status))).collect(),
    })
}

/// When a pod ended: with its last container, when it was not ready any more, or when it was deleted.
fn finished(metadata: &RawMetadata<'_>, spec: &RawSpec<'_>, status: &RawStatus<'_>) -> Option<i64> {
    let init = status.init_container_statuses.iter().flatten().filter(|container| spec.is_sidecar(&container.name));
    let ends = status.container_statuses.iter().flatten().chain(init).map(|container| {
        let ended = container.state.as_ref()?.terminated.as_ref()?;
        seconds(ended.finished_at.as_deref())
    });
    let last = ends.collect::<Option<Vec<i64>>>().and_then(|ends| ends.into_iter().max());
    let unready = || {
        let ready = status.conditions.iter().flatten().find(|condition| condition.kind == "Ready")?;
        seconds(ready.last_transition_time.as_deref()).filter(|_| ready.status == "False")
    };
    let deleted = || Some(metadata.deleted()? - metadata.deletion_grace_period_seconds.unwrap_or(0));
    last.or_else(unready).or_else(deleted)
}

fn network(spec: &RawSpec<'_>, status: &RawStatus<'_>) -> Network {
    let text = |text: &Option<Cow<'_, str>>| Text::new(text.as_deref().unwrap_or_default());
    let containers = spec.containers.iter().flatten().chain(spec.sidecars());
    let named = containers.flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
        let name = Text::new(port.name.as_deref()?);
        Some(NamedPort {
            name,
            protocol: Text::new(port.protocol.as_deref().unwrap_or("TCP")),
            port: port.container_port,
        })
    });
    let addresses = status.pod_ips.iter().flatten();
    Network {
        addresses: addresses.filter_map(|address| address::parse_sloppy(address.ip.as_deref()?)).collect(),
        hostname: text(&spec.hostname),
        subdomain: text(&spec.subdomain),
        ports: named.collect(),
    }
}

fn disrupted(status: &RawStatus<'_>) -> Option<i64> {
    let is_target = |one: &&RawCondition<'_>| {
        one.kind == "DisruptionTarget" && one.status == "True" && one.reason.as_deref() != Some("TerminationByKubelet")
    };
    let condition = status.conditions.iter().flatten().find(is_target)?;
    seconds(condition.last_transition_time.as_deref())
}

/// As upstream reads it: without a plus, and without zeros before it unless there is a minus.
fn deletion_cost(text: &str) -> Option<i32> {
    let plain = text == "0" || text.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    plain.then(|| text.parse().ok()).flatten()
}

fn most_restarts(statuses: &Option<Vec<RawContainerStatus<'_>>>, counts: impl Fn(&str) -> bool) -> i32 {
    let counted = statuses.iter().flatten().filter(|status| counts(&status.name));
    counted.map(|status| status.restart_count).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(pod: &serde_json::Value) -> Pod {
        let json = pod.to_string().into();
        let item = Item { namespace: "n".into(), name: "p".into(), uid: "u".into(), revision: 7, json };
        Pod::read(&item).unwrap()
    }

    #[test]
    fn a_pod_is_read() {
        let owner = |name: &str, controller: bool| json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "1", "controller": controller });
        let pod = read(&json!({
            "metadata": {
                "labels": { "b": "2", "a": "\"" }, "annotations": { DELETION_COST: "-5" }, "generation": 3,
                "creationTimestamp": "1970-01-01T00:00:05Z", "deletionTimestamp": null,
                "ownerReferences": [owner("x", false), owner("y", true)],
            },
            "spec": { "nodeName": "node", "initContainers": [{ "name": "i" }, { "name": "s", "restartPolicy": "Always" }] },
            "status": {
                "phase": "Running", "startTime": "1970-01-01T00:00:06Z",
                "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z" }],
                "containerStatuses": [{ "name": "c", "restartCount": 1 }, { "name": "d", "restartCount": 4 }],
                "initContainerStatuses": [{ "name": "i", "restartCount": 9 }, { "name": "s", "restartCount": 2 }],
            },
        }));
        assert_eq!((pod.labels.get("a"), pod.labels.get("b")), (Some("\""), Some("2")));
        assert_eq!(pod.controller.as_ref().map(|owner| owner.name.as_str()), Some("y"));
        assert_eq!((pod.revision, pod.generation, pod.node.as_str()), (7, 3, "node"));
        assert_eq!((pod.created, pod.deleted, pod.started), (Some(5), None, Some(6)));
        assert_eq!((pod.phase, pod.ready, pod.ready_changed), (Phase::Running, true, Some(10)));
        assert_eq!((pod.restarts, pod.deletion_cost), ((4, 2), -5));
        assert_eq!(pod.network, Network::default());
        let bare = read(&json!({ "metadata": {} }));
        assert_eq!((bare.phase, bare.ready, bare.controller), (Phase::Pending, false, None));
    }

    #[test]
    fn how_a_pod_is_reached_is_read() {
        let port = |name: &str, port: i32| json!({ "name": name, "containerPort": port, "protocol": "TCP" });
        let pod = read(&json!({
            "metadata": {},
            "spec": {
                "hostname": "h", "subdomain": "s",
                "containers": [{ "name": "c", "ports": [{ "containerPort": 1 }, port("http", 2)] }],
                "initContainers": [
                    { "name": "i", "ports": [port("init", 3)] },
                    { "name": "s", "restartPolicy": "Always", "ports": [port("side", 4)] },
                ],
            },
            "status": { "reason": "Evicted", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }] },
        }));
        let ports = pod.network.ports.iter().map(|port| (port.name.as_str(), port.protocol.as_str(), port.port));
        assert_eq!(ports.collect::<Vec<_>>(), [("http", "TCP", 2), ("side", "TCP", 4)]);
        assert_eq!((pod.network.hostname.as_str(), pod.network.subdomain.as_str()), ("h", "s"));
        assert_eq!(pod.network.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
        assert!(pod.evicted);
    }

    #[test]
    fn pods_are_available_after_they_were_ready_for_long_enough() {
        let ready = Pod { ready: true, ready_changed: Some(10), ..Pod::default() };
        let unknown = Pod { ready: true, ..Pod::default() };
        let unready = Pod { ready_changed: Some(10), ..Pod::default() };
        // The pod, how long it must be ready, the time, and in which time it is available.
        let table = [
            (&ready, 0, 0, Some(0)),
            (&ready, 5, 11_500_000, Some(3_500_000)),
            (&ready, 5, 15_000_000, Some(0)),
            (&ready, 5, 20_000_000, Some(0)),
            (&unknown, 0, 20_000_000, Some(0)),
            (&unknown, 5, 20_000_000, None),
            (&unready, 0, 20_000_000, None),
        ];
        for (pod, min_ready_seconds, now, expected) in table {
            assert_eq!(pod.available_in(min_ready_seconds, now), expected, "{pod:?} {min_ready_seconds} {now}");
            assert_eq!(pod.is_available(min_ready_seconds, now), expected == Some(0));
        }
    }

    #[test]
    fn deletion_costs_are_read_as_upstream_reads_them() {
        let table = [
            ("5", Some(5)),
            ("-5", Some(-5)),
            ("0", Some(0)),
            ("+5", None),
            ("05", None),
            ("-05", Some(-5)),
            ("x", None),
            ("3000000000", None),
        ];
        for (text, expected) in table {
            assert_eq!(deletion_cost(text), expected, "{text}");
        }
    }
}
