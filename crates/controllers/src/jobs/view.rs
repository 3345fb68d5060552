//! Jobs as their controllers see them.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::batch::v1 as batch;
use rkube_machinery::Text;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::{Deserialize, Serialize};

use crate::conditions::{self, Condition};
use crate::metadata::{Labels, Owner, RawMetadata, RawSelector, read_selector, seconds};
use crate::replica_sets::is_zero;

pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
pub const FAILURE_TARGET: &str = "FailureTarget";
pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
pub const SUSPENDED: &str = "Suspended";

const OUR_NAME: &str = "kubernetes.io/job-controller";

#[derive(Clone, Debug)]
pub struct Job {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub controller: Option<Arc<Owner>>,
    pub generation: i64,
    pub deleted: Option<i64>,
    pub selector: Selector,
    pub parallelism: i64,
    pub completions: Option<i64>,
    pub mode: Mode,
    pub suspended: bool,
    /// Whether somebody else cares for it.
    pub managed_elsewhere: bool,
    pub backoff_limit: i64,
    pub backoff_limit_per_index: Option<i64>,
    pub max_failed_indexes: Option<i64>,
    pub deadline_seconds: Option<i64>,
    pub ttl_seconds: Option<i64>,
    /// Whether a pod is replaced only when it has ended, and not when it is on its way out.
    pub replaces_failed_only: bool,
    /// Whether containers of its pods are restarted.
    pub restarts_containers: bool,
    pub failure_rules: Option<Vec<FailureRule>>,
    pub success_rules: Vec<SuccessRule>,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    NonIndexed,
    Indexed,
    Unknown,
}

/// What a pod failure is worth that fits.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureRule {
    pub action: String,
    #[serde(default)]
    pub on_exit_codes: Option<ExitCodes>,
    #[serde(default)]
    pub on_pod_conditions: Option<Vec<ConditionPattern>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitCodes {
    #[serde(default)]
    pub container_name: Option<String>,
    pub operator: String,
    #[serde(default)]
    pub values: Vec<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ConditionPattern {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuccessRule {
    #[serde(default)]
    pub succeeded_indexes: Option<String>,
    #[serde(default)]
    pub succeeded_count: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub active: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub succeeded: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_indexes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted_terminated_pods: Option<Uncounted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
}

/// Pods that have ended and are not in the numbers yet, by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Uncounted {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<Text>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Text>,
}

/// Jobs by the uid of their controller.
pub struct ByController;

impl Index<Job> for ByController {
    type Key = Text;

    fn keys(_: &Key, job: &Job) -> impl IntoIterator<Item = Text> {
        job.controller.as_ref().map(|owner| owner.uid.clone())
    }
}

/// All Jobs.
pub fn jobs(caches: &Caches) -> Informer<Job> {
    caches.view(&ApiResource::erase::<batch::Job>(&()), Selection::default(), Job::read)
}

impl Job {
    pub fn read(item: &Item) -> Option<Job> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a Job cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        let policy = spec.pod_replacement_policy.as_deref();
        Some(Job {
            item: item.clone(),
            controller: metadata.controller(),
            generation: metadata.generation,
            deleted: metadata.deleted(),
            selector: read_selector(spec.selector.as_ref()),
            parallelism: spec.parallelism.unwrap_or(1),
            completions: spec.completions,
            mode: match spec.completion_mode.as_deref() {
                None | Some("NonIndexed") => Mode::NonIndexed,
                Some("Indexed") => Mode::Indexed,
                Some(_) => Mode::Unknown,
            },
            suspended: spec.suspend.unwrap_or(false),
            managed_elsewhere: spec.managed_by.as_deref().is_some_and(|manager| manager != OUR_NAME),
            backoff_limit: spec.backoff_limit.unwrap_or(6),
            backoff_limit_per_index: spec.backoff_limit_per_index,
            max_failed_indexes: spec.max_failed_indexes,
            deadline_seconds: spec.active_deadline_seconds,
            ttl_seconds: spec.ttl_seconds_after_finished,
            replaces_failed_only: policy == Some("Failed") || spec.pod_failure_policy.is_some(),
            restarts_containers: spec.template.spec.restart_policy.as_deref() == Some("OnFailure"),
            failure_rules: spec.pod_failure_policy.map(|policy| policy.rules),
            success_rules: spec.success_policy.map(|policy| policy.rules).unwrap_or_default(),
            status,
        })
    }

    pub fn is_indexed(&self) -> bool {
        self.mode == Mode::Indexed
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.matches_pairs(|key| labels.get(key))
    }

    /// The condition by which the Job has ended.
    pub fn end(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|one| [COMPLETE, FAILED].contains(&&*one.kind) && one.status == "True")
    }

    /// When it ended, in seconds.
    pub fn ended(&self) -> Option<i64> {
        seconds(self.end()?.last_transition_time.as_deref())
    }
}

impl Status {
    /// A condition that is true.
    pub fn holds(&self, kind: &str) -> Option<&Condition> {
        conditions::find(&self.conditions, kind).filter(|condition| condition.status == "True")
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow)]
    spec: RawSpec<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow, default)]
    selector: Option<RawSelector<'a>>,
    parallelism: Option<i64>,
    completions: Option<i64>,
    #[serde(borrow)]
    completion_mode: Option<Cow<'a, str>>,
    suspend: Option<bool>,
    #[serde(borrow)]
    managed_by: Option<Cow<'a, str>>,
    backoff_limit: Option<i64>,
    backoff_limit_per_index: Option<i64>,
    max_failed_indexes: Option<i64>,
    active_deadline_seconds: Option<i64>,
    ttl_seconds_after_finished: Option<i64>,
    #[serde(borrow)]
    pod_replacement_policy: Option<Cow<'a, str>>,
    pod_failure_policy: Option<RawRules<FailureRule>>,
    success_policy: Option<RawRules<SuccessRule>>,
    #[serde(borrow, default)]
    template: RawTemplate<'a>,
}

#[derive(Deserialize)]
struct RawRules<R> {
    #[serde(default = "Vec::new")]
    rules: Vec<R>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawTemplate<'a> {
    #[serde(borrow)]
    spec: RawPodSpec<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodSpec<'a> {
    #[serde(borrow)]
    restart_policy: Option<Cow<'a, str>>,
}
