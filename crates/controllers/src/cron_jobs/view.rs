//! CronJobs as their controller sees them.

use std::borrow::Cow;

use k8s_openapi::api::batch::v1 as batch;
use rkube_machinery::Text;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::{Deserialize, Serialize};

use crate::metadata::RawMetadata;

#[derive(Clone, Debug)]
pub struct CronJob {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub created: Option<i64>,
    pub deleted: Option<i64>,
    pub schedule: Text,
    pub time_zone: Option<Text>,
    pub deadline_seconds: Option<i64>,
    pub concurrency: Concurrency,
    pub suspended: bool,
    /// How many Jobs that ended are kept; None: all.
    pub successful_limit: Option<i64>,
    pub failed_limit: Option<i64>,
    pub status: Status,
}

/// What becomes of Jobs that are still there when the next is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    Allow,
    Forbid,
    Replace,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<String>,
}

/// A Job that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Reference {
    pub kind: Text,
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub api_version: Text,
    pub resource_version: Text,
}

/// All CronJobs.
pub fn cron_jobs(caches: &Caches) -> Informer<CronJob> {
    caches.view(&ApiResource::erase::<batch::CronJob>(&()), Selection::default(), CronJob::read)
}

impl CronJob {
    pub fn read(item: &Item) -> Option<CronJob> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a CronJob cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        Some(CronJob {
            item: item.clone(),
            created: metadata.created(),
            deleted: metadata.deleted(),
            schedule: Text::new(&spec.schedule),
            time_zone: spec.time_zone.map(|zone| Text::new(&zone)),
            deadline_seconds: spec.starting_deadline_seconds,
            concurrency: match spec.concurrency_policy.as_deref() {
                Some("Forbid") => Concurrency::Forbid,
                Some("Replace") => Concurrency::Replace,
                _ => Concurrency::Allow,
            },
            suspended: spec.suspend.unwrap_or(false),
            successful_limit: spec.successful_jobs_history_limit,
            failed_limit: spec.failed_jobs_history_limit,
            status,
        })
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
    schedule: Cow<'a, str>,
    #[serde(borrow)]
    time_zone: Option<Cow<'a, str>>,
    starting_deadline_seconds: Option<i64>,
    #[serde(borrow)]
    concurrency_policy: Option<Cow<'a, str>>,
    suspend: Option<bool>,
    successful_jobs_history_limit: Option<i64>,
    failed_jobs_history_limit: Option<i64>,
}
