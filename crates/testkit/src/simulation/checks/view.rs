//! What checks read of objects. What they do not have is as if it was empty.

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct Metadata {
    pub uid: String,
    pub deletion_timestamp: Option<String>,
    pub owner_references: Vec<Owner>,
}

impl Metadata {
    /// The uid of the controller, if it is of this kind.
    pub fn controller(&self, kind: &str) -> Option<&str> {
        let owner = self.owner_references.iter().find(|owner| owner.controller)?;
        (owner.kind == kind).then_some(owner.uid.as_str())
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
}

impl Pod {
    pub fn is_over(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// It counts for its controller.
    pub fn is_active(&self) -> bool {
        !self.is_over() && self.metadata.deletion_timestamp.is_none()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Node {
    pub status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct NodeStatus {
    pub allocatable: Amounts,
}

/// Deployments, ReplicaSets, StatefulSets.
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
}

impl SetSpec {
    /// So many more than are asked for.
    pub fn surge(&self) -> i64 {
        if self.strategy.r#type == "Recreate" {
            return 0;
        }
        match &self.strategy.rolling_update.max_surge {
            serde_json::Value::Number(number) => number.as_i64().unwrap_or(0),
            serde_json::Value::String(text) => {
                let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
                (self.replicas * percent + 99) / 100
            }
            _ => 0,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Job {
    pub metadata: Metadata,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct JobSpec {
    pub completions: Option<i64>,
}

#[derive(Deserialize, Default, Clone, PartialEq, Eq)]
#[serde(default)]
pub struct JobStatus {
    pub succeeded: i64,
    pub failed: i64,
    pub conditions: Vec<Condition>,
}

#[derive(Deserialize, Default, Clone, PartialEq, Eq)]
#[serde(default)]
pub struct Condition {
    pub r#type: String,
    pub status: String,
}

impl JobStatus {
    pub fn end(&self) -> Option<&str> {
        let ended = self
            .conditions
            .iter()
            .find(|one| one.status == "True" && matches!(one.r#type.as_str(), "Complete" | "Failed"));
        ended.map(|condition| condition.r#type.as_str())
    }
}
