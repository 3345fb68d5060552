//! What checks read of objects. What they do not have is as if it was empty.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct Metadata {
    pub namespace: String,
    pub uid: String,
    pub deletion_timestamp: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<Owner>,
}

impl Metadata {
    /// The uid of the controller, if it is of this kind.
    pub fn controller(&self, kind: &str) -> Option<&str> {
        let owner = self.owner_references.iter().find(|owner| owner.controller)?;
        (owner.kind == kind).then_some(owner.uid.as_str())
    }

    /// Of a pod of an indexed Job.
    pub fn completion_index(&self) -> Option<String> {
        self.annotations.get("batch.kubernetes.io/job-completion-index").cloned()
    }

    /// Of a pod of a DaemonSet or StatefulSet: the template that it has.
    pub fn revision(&self) -> &str {
        self.labels.get("controller-revision-hash").map_or("", String::as_str)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Owner {
    pub kind: String,
    pub uid: String,
    pub controller: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Pod {
    pub metadata: Metadata,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    pub node_name: String,
    pub affinity: serde_json::Value,
    pub containers: Vec<Container>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Container {
    pub resources: Resources,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Resources {
    pub requests: Amounts,
}

/// Of what nodes have and pods take.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Amounts {
    pub cpu: String,
    pub memory: String,
    pub pods: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct PodStatus {
    pub phase: String,
    pub conditions: Vec<Condition>,
}

impl Pod {
    pub fn is_over(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    fn has_condition(&self, is_it: impl Fn(&Condition) -> bool) -> bool {
        self.status.conditions.iter().any(|one| one.status == "True" && is_it(one))
    }

    /// It is ready, and to stay.
    pub fn is_healthy(&self) -> bool {
        self.is_active() && self.has_condition(|one| one.r#type == "Ready")
    }

    /// The API was asked to evict it.
    pub fn is_evicted(&self) -> bool {
        self.has_condition(|one| one.r#type == "DisruptionTarget" && one.reason == "EvictionByEvictionAPI")
    }

    /// The node that it is on or, of a DaemonSet's, is for.
    pub fn target(&self) -> &str {
        if !self.spec.node_name.is_empty() {
            return &self.spec.node_name;
        }
        let terms = &self.spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let fields = &terms["nodeSelectorTerms"][0]["matchFields"][0];
        fields["values"][0].as_str().unwrap_or_default()
    }

    /// It counts for its controller.
    pub fn is_active(&self) -> bool {
        !self.is_over() && self.metadata.deletion_timestamp.is_none()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Node {
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct NodeSpec {
    pub unschedulable: bool,
    pub taints: Vec<serde_json::Value>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct NodeStatus {
    pub allocatable: Amounts,
}

/// Deployments, ReplicaSets.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Set {
    pub metadata: Metadata,
    pub spec: SetSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct SetSpec {
    pub replicas: i64,
    pub strategy: Strategy,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    pub r#type: String,
    pub rolling_update: RollingUpdate,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub max_surge: serde_json::Value,
    pub max_unavailable: serde_json::Value,
}

/// A number, or a part of all in percent.
fn part(value: &serde_json::Value, all: i64, rounding: i64) -> i64 {
    match value {
        serde_json::Value::Number(number) => number.as_i64().unwrap_or(0),
        serde_json::Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (all * percent + rounding) / 100
        }
        _ => 0,
    }
}

impl SetSpec {
    /// So many more than are asked for.
    pub fn surge(&self) -> i64 {
        if self.strategy.r#type == "Recreate" {
            return 0;
        }
        part(&self.strategy.rolling_update.max_surge, self.replicas, 99)
    }

    /// So many may be missing; None: all of them.
    pub fn unavailable(&self) -> Option<i64> {
        if self.strategy.r#type == "Recreate" {
            return None;
        }
        let most = part(&self.strategy.rolling_update.max_unavailable, self.replicas, 0);
        Some(if most == 0 && self.surge() == 0 { 1 } else { most })
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: Metadata,
    pub spec: DaemonSetSpec,
    pub status: DaemonSetStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    pub update_strategy: Strategy,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    pub desired_number_scheduled: i64,
}

impl DaemonSetSpec {
    /// On so many nodes there may be a new pod beside the old one.
    pub fn surge(&self, nodes: i64) -> i64 {
        part(&self.update_strategy.rolling_update.max_surge, nodes, 99)
    }

    /// So many nodes may do without.
    pub fn unavailable(&self, nodes: i64) -> i64 {
        part(&self.update_strategy.rolling_update.max_unavailable, nodes, 99)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct StatefulSet {
    pub metadata: Metadata,
    pub spec: StatefulSetSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    pub replicas: i64,
    pub pod_management_policy: String,
    pub ordinals: Ordinals,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Ordinals {
    pub start: i64,
}

impl StatefulSetSpec {
    pub fn is_ordered(&self) -> bool {
        self.pod_management_policy != "Parallel"
    }

    /// The number after that of the last pod that is asked for.
    pub fn end(&self) -> i64 {
        self.ordinals.start + self.replicas
    }

    pub fn is_asked_for(&self, ordinal: i64) -> bool {
        (self.ordinals.start..self.end()).contains(&ordinal)
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Budget {
    pub spec: BudgetSpec,
    pub status: BudgetStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct BudgetSpec {
    pub selector: Labels,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Labels {
    pub match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    pub desired_healthy: i64,
}

impl Budget {
    pub fn covers(&self, pod: &Pod) -> bool {
        self.spec.selector.match_labels.iter().all(|(name, value)| pod.metadata.labels.get(name) == Some(value))
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Quota {
    pub status: QuotaStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct QuotaStatus {
    pub hard: BTreeMap<String, String>,
    pub used: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Claim {
    pub metadata: Metadata,
    pub spec: ClaimSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    pub volume_name: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    pub reason: String,
    pub involved_object: Involved,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Involved {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Lease {
    pub spec: LeaseSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub holder_identity: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Autoscaler {
    pub spec: AutoscalerSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerSpec {
    pub scale_target_ref: Target,
    pub min_replicas: Option<i64>,
    pub max_replicas: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Target {
    pub name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct CertificateRequest {
    pub metadata: Metadata,
    pub status: CertificateStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct CertificateStatus {
    pub conditions: Vec<Condition>,
    pub certificate: String,
}

/// Any object.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Owned {
    pub metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Job {
    pub metadata: Metadata,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub parallelism: i64,
    pub completions: Option<i64>,
    pub completion_mode: String,
    pub suspend: bool,
    pub pod_replacement_policy: String,
    pub success_policy: Option<SuccessPolicy>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct SuccessPolicy {
    pub rules: Vec<SuccessRule>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    pub succeeded_indexes: Option<String>,
    pub succeeded_count: Option<i64>,
}

impl JobSpec {
    pub fn is_indexed(&self) -> bool {
        self.completion_mode == "Indexed"
    }

    /// So many pods may run at a time.
    pub fn at_a_time(&self) -> i64 {
        if self.suspend { 0 } else { self.parallelism }
    }

    /// A pod is replaced when it has ended, and not when it is to.
    pub fn waits_for_ends(&self) -> bool {
        self.pod_replacement_policy == "Failed"
    }

    /// These are enough, though they may not be all.
    pub fn is_success(&self, completed: &BTreeSet<i64>) -> bool {
        let rules = self.success_policy.iter().flat_map(|policy| &policy.rules);
        rules.into_iter().any(|rule| {
            let wanted = rule.succeeded_indexes.as_deref().map(indexes);
            let found = completed.iter().filter(|index| wanted.as_ref().is_none_or(|wanted| wanted.contains(index)));
            let least = rule.succeeded_count.or_else(|| wanted.as_ref().map(|wanted| count(wanted.len())));
            least.is_some_and(|least| count(found.count()) >= least)
        })
    }
}

/// Of `1,3-5`.
fn indexes(text: &str) -> BTreeSet<i64> {
    let number = |text: &str| text.parse::<i64>().ok();
    let ranges = text.split(',').filter_map(|range| match range.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(range).map(|only| only..=only),
    });
    ranges.flatten().collect()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[derive(Deserialize, Default, Clone, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    pub succeeded: i64,
    pub failed: i64,
    pub completed_indexes: String,
    pub failed_indexes: String,
    pub conditions: Vec<Condition>,
}

#[derive(Deserialize, Default, Clone, PartialEq, Eq)]
#[serde(default)]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    pub reason: String,
}

impl JobStatus {
    pub fn end(&self) -> Option<&str> {
        let ended = self
            .conditions
            .iter()
            .find(|one| one.status == "True" && matches!(one.r#type.as_str(), "Complete" | "Failed"));
        ended.map(|condition| condition.r#type.as_str())
    }

    pub fn completed(&self) -> BTreeSet<i64> {
        indexes(&self.completed_indexes)
    }

    pub fn failed(&self) -> BTreeSet<i64> {
        indexes(&self.failed_indexes)
    }
}
