//! What the scheduler knows of a pod. Of one that has a node, no more than what it takes there; of one that has none,
//! also where it may go and where it would rather be.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use rkube_machinery::Text;
use rkube_machinery::json::Scan;
use rkube_operator::Item;
use serde::Deserialize;

use super::json::{Word, Words};
use super::requests::{Missing, requests};
use super::resources::Resources;
use super::terms::{SelectorJson, Term, TermJson};
use super::volumes::{PodVolumes, VolumeJson};

/// A pod that has not ended.
#[derive(Clone, Debug)]
pub struct Pod {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    /// At which it was like this.
    pub revision: u64,
    /// Empty for one that has none yet.
    pub node: Text,
    pub priority: i32,
    pub is_terminating: bool,
    /// What is taken of the node.
    pub requests: Resources,
    /// What nodes are compared by: CPU and memory with defaults for what is not said.
    pub nominal_cpu_milli: i64,
    pub nominal_memory: i64,
    pub ports: Box<[HostPort]>,
    /// None for most: those that nobody schedules by are not there.
    pub volumes: Option<Box<PodVolumes>>,
    /// None for one that has a node.
    pub pending: Option<Box<Pending>>,
}

/// What decides where a pod goes.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    pub scheduler_name: Text,
    pub generation: i64,
    pub gates: u32,
    pub node_selector: Vec<(Text, Text)>,
    pub affinity: Affinity,
    pub tolerations: Vec<Toleration>,
    /// The images of all containers and image volumes, as nodes name them.
    pub images: Vec<Text>,
    pub containers: usize,
    pub may_preempt: bool,
    pub nominated_node: Text,
    pub condition: Option<Condition>,
}

/// The condition `PodScheduled` as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub is_true: bool,
    pub last_transition: Text,
    /// Of all that it says.
    pub digest: u64,
}

/// Of what a condition says, so that it is not written again.
pub fn digest(status: &str, reason: &str, message: &str, observed_generation: i64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (status, reason, message, observed_generation).hash(&mut hasher);
    hasher.finish()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// None: any node will do. An empty list: none will.
    pub required: Option<Vec<Term>>,
    pub preferred: Vec<PreferredTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferredTerm {
    pub weight: i64,
    pub term: Term,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// Empty: any.
    pub key: Text,
    pub operator: TolerationOperator,
    pub value: Text,
    /// None: any.
    pub effect: Option<Effect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationOperator {
    Exists,
    Equal,
    /// One that is behind a feature gate: nothing is tolerated by it.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Effect {
    pub fn read(text: &str) -> Option<Effect> {
        match text {
            "NoSchedule" => Some(Effect::NoSchedule),
            "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
            "NoExecute" => Some(Effect::NoExecute),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Empty: all addresses.
    pub address: Text,
    pub protocol: Protocol,
    pub port: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl HostPort {
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let shares_address = self.address.is_empty() || other.address.is_empty() || self.address == other.address;
        self.port == other.port && self.protocol == other.protocol && shares_address
    }
}

impl Pod {
    /// None for a pod that has ended: it takes nothing.
    pub fn of(item: &Item) -> Option<Pod> {
        if has_ended(&item.json) == Some(true) {
            return None;
        }
        let json = item.lean_json();
        let json: PodJson<'_> = match serde_json::from_str(&json) {
            Ok(json) => json,
            Err(error) => {
                tracing::error!(namespace = %item.namespace, name = %item.name, %error, "a pod cannot be read and is left out");
                return None;
            }
        };
        if is_end(json.status.phase.as_bytes()) {
            return None;
        }
        let spec = &json.spec;
        let nominal = requests(spec, &json.status, Missing::Default);
        Some(Pod {
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            uid: item.uid.clone(),
            revision: item.revision,
            node: spec.node_name.0.clone(),
            priority: spec.priority,
            is_terminating: json.metadata.deletion_timestamp.is_some(),
            requests: requests(spec, &json.status, Missing::Nothing),
            nominal_cpu_milli: nominal.cpu_milli.unwrap_or(0),
            nominal_memory: nominal.memory.unwrap_or(0),
            ports: host_ports(spec),
            volumes: PodVolumes::of(&item.name, &spec.volumes),
            pending: spec.node_name.0.is_empty().then(|| Box::new(pending(&json))),
        })
    }

    pub fn is_assigned(&self) -> bool {
        !self.node.is_empty()
    }

    /// Whether whatever node refuses the one refuses the other.
    pub fn is_refused_like(&self, other: &Pod) -> bool {
        let Some((one, two)) = self.pending.as_deref().zip(other.pending.as_deref()) else { return false };
        self.priority == other.priority
            // What is known of claims and volumes changes by itself.
            && self.volumes.is_none()
            && other.volumes.is_none()
            && self.requests == other.requests
            && self.ports == other.ports
            && one.may_preempt == two.may_preempt
            && one.nominated_node == two.nominated_node
            && one.node_selector == two.node_selector
            && one.tolerations == two.tolerations
            && one.affinity == two.affinity
    }
}

/// Whether the pod has ended, where that is easily told: nobody reads one that has. None: see the whole of it.
fn has_ended(pod: &[u8]) -> Option<bool> {
    let mut scan = Scan::new(pod);
    for wanted in ["status", "phase"] {
        scan.open(b'{')?;
        while scan.field()?? != wanted.as_bytes() {
            scan.skip()?;
        }
    }
    Some(is_end(scan.text()?))
}

fn is_end(phase: &[u8]) -> bool {
    matches!(phase, b"Succeeded" | b"Failed")
}

fn host_ports(spec: &Spec<'_>) -> Box<[HostPort]> {
    let sidecars = spec.init_containers.iter().filter(|container| container.is_sidecar());
    let ports = sidecars.chain(&spec.containers).flat_map(|container| &container.ports);
    let host_ports = ports.filter(|port| port.host_port > 0).map(|port| HostPort {
        address: if port.host_ip.0 == "0.0.0.0" { Text::default() } else { port.host_ip.0.clone() },
        protocol: match port.protocol.as_ref() {
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            _ => Protocol::Tcp,
        },
        port: port.host_port,
    });
    host_ports.collect()
}

fn pending(json: &PodJson<'_>) -> Pending {
    let PodJson { metadata, spec, status } = json;
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let volumes = spec.volumes.iter().filter_map(VolumeJson::image);
    let scheduled = status.conditions.iter().find(|condition| condition.kind == "PodScheduled");
    Pending {
        scheduler_name: spec.scheduler_name.0.clone(),
        generation: metadata.generation,
        gates: u32::try_from(spec.scheduling_gates.len()).unwrap_or(u32::MAX),
        node_selector: spec.node_selector.0.clone(),
        affinity: affinity(spec),
        tolerations: spec.tolerations.iter().map(toleration).collect(),
        images: containers.map(|container| container.image.as_ref()).chain(volumes).map(image_name).collect(),
        containers: spec.init_containers.len() + spec.containers.len(),
        may_preempt: spec.preemption_policy != "Never",
        nominated_node: status.nominated_node_name.0.clone(),
        condition: scheduled.map(|condition| Condition {
            is_true: condition.status == "True",
            last_transition: condition.last_transition_time.0.clone(),
            digest: digest(&condition.status, &condition.reason.0, &condition.message, condition.observed_generation),
        }),
    }
}

fn affinity(spec: &Spec<'_>) -> Affinity {
    let Some(affinity) = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref()) else {
        return Affinity::default();
    };
    let required = affinity.required.as_ref().map(SelectorJson::read);
    let preferred = affinity.preferred.iter().filter(|one| one.weight != 0 && !one.preference.is_empty());
    let preferred =
        preferred.filter_map(|one| Some(PreferredTerm { weight: one.weight, term: one.preference.read()? }));
    Affinity { required, preferred: preferred.collect() }
}

fn toleration(json: &TolerationJson<'_>) -> Toleration {
    Toleration {
        key: json.key.0.clone(),
        operator: match json.operator.as_ref() {
            "Exists" => TolerationOperator::Exists,
            "" | "Equal" => TolerationOperator::Equal,
            _ => TolerationOperator::Other,
        },
        value: json.value.0.clone(),
        effect: Effect::read(&json.effect),
    }
}

/// As nodes name it: with a tag.
fn image_name(name: &str) -> Text {
    if name.rfind(':') <= name.rfind('/') { Text::from(format!("{name}:latest")) } else { Text::new(name) }
}

#[derive(Deserialize)]
struct PodJson<'a> {
    #[serde(default)]
    metadata: Metadata,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    deletion_timestamp: Option<serde::de::IgnoredAny>,
    generation: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec<'a> {
    #[serde(borrow, default)]
    pub containers: Vec<Container<'a>>,
    #[serde(borrow, default)]
    pub init_containers: Vec<Container<'a>>,
    #[serde(default)]
    pub overhead: Resources,
    #[serde(default)]
    pub resources: Option<Requirements>,
    #[serde(default)]
    node_name: Word,
    #[serde(default)]
    scheduler_name: Word,
    #[serde(default)]
    priority: i32,
    #[serde(borrow, default)]
    preemption_policy: Cow<'a, str>,
    #[serde(default)]
    node_selector: Words,
    #[serde(borrow, default)]
    affinity: Option<AffinityJson<'a>>,
    #[serde(borrow, default)]
    tolerations: Vec<TolerationJson<'a>>,
    #[serde(default)]
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    #[serde(borrow, default)]
    volumes: Vec<VolumeJson<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(borrow, default)]
    image: Cow<'a, str>,
    #[serde(default)]
    pub resources: Requirements,
    #[serde(borrow, default)]
    ports: Vec<Port<'a>>,
    #[serde(borrow, default)]
    restart_policy: Cow<'a, str>,
}

impl Container<'_> {
    /// Whether it starts before the others and goes on beside them.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == "Always"
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirements {
    pub requests: Resources,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Port<'a> {
    #[serde(default)]
    host_port: i32,
    #[serde(rename = "hostIP", default)]
    host_ip: Word,
    #[serde(borrow, default)]
    protocol: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffinityJson<'a> {
    #[serde(borrow, default)]
    node_affinity: Option<NodeAffinityJson<'a>>,
}

#[derive(Deserialize)]
struct NodeAffinityJson<'a> {
    #[serde(borrow, default, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<SelectorJson<'a>>,
    #[serde(borrow, default, rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<PreferredJson<'a>>,
}

#[derive(Deserialize)]
struct PreferredJson<'a> {
    #[serde(default)]
    weight: i64,
    #[serde(borrow)]
    preference: TermJson<'a>,
}

#[derive(Deserialize)]
struct TolerationJson<'a> {
    #[serde(default)]
    key: Word,
    #[serde(borrow, default)]
    operator: Cow<'a, str>,
    #[serde(default)]
    value: Word,
    #[serde(borrow, default)]
    effect: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    nominated_node_name: Word,
    #[serde(borrow)]
    pub conditions: Vec<ConditionJson<'a>>,
    #[serde(borrow)]
    pub container_statuses: Vec<ContainerStatus<'a>>,
    #[serde(borrow)]
    pub init_container_statuses: Vec<ContainerStatus<'a>>,
    pub resources: Option<Requirements>,
    pub allocated_resources: Resources,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConditionJson<'a> {
    #[serde(borrow, rename = "type")]
    pub kind: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(default)]
    pub reason: Word,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(default)]
    observed_generation: i64,
    #[serde(default)]
    last_transition_time: Word,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus<'a> {
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    #[serde(default)]
    pub resources: Option<Requirements>,
    #[serde(default)]
    pub allocated_resources: Resources,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_have_ended_are_told_by_their_phase() {
        let table = [
            (
                r#"{"metadata":{"phase":"Failed"},"spec":{"a":[]},"status":{"a":{"phase":"x"},"phase":"Failed"}}"#,
                Some(true),
            ),
            (r#"{"status":{"phase":"Succeeded","conditions":[]},"spec":{}}"#, Some(true)),
            (r#"{"spec":{"phase":"Failed"},"status":{"phase":"Running"}}"#, Some(false)),
            (r#"{"spec":{},"status":{"conditions":[{"phase":"Failed"}]}}"#, None),
            (r#"{"status":{"phase":null}}"#, None),
            (r#"{"spec":{}}"#, None),
            ("", None),
        ];
        for (json, ended) in table {
            assert_eq!(has_ended(json.as_bytes()), ended, "{json}");
        }
    }
}
