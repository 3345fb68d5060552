//! Deployments as their controller sees them.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::apps::v1 as apps;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::{Deserialize, Serialize};

use crate::amount::{Amount, RawAmount};
use crate::conditions::Condition;
use crate::metadata::{Labels, RawMetadata, RawSelector, read_selector};
use crate::replica_sets::is_zero;
use crate::template::Template;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// As a limit of revisions or of time it stands for none.
const NO_LIMIT: i64 = i32::MAX as i64;

#[derive(Clone, Debug)]
pub struct Deployment {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub generation: i64,
    /// All but what `kubectl apply` writes down.
    pub annotations: Arc<Labels>,
    pub deleted: Option<i64>,
    pub replicas: i64,
    pub selector: Selector,
    pub template: Template,
    pub strategy: Strategy,
    pub min_ready_seconds: i64,
    /// How many old sets are kept; None: all.
    pub history_limit: Option<i64>,
    pub paused: bool,
    /// How long a rollout may make no progress before that is told; None: for ever.
    pub progress_seconds: Option<i64>,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Recreate,
    RollingUpdate { surge: Amount, unavailable: Amount },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub unavailable_replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
}

/// All Deployments.
pub fn deployments(caches: &Caches) -> Informer<Deployment> {
    caches.view(&ApiResource::erase::<apps::Deployment>(&()), Selection::default(), Deployment::read)
}

impl Deployment {
    pub fn read(item: &Item) -> Option<Deployment> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a Deployment cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        Some(Deployment {
            item: item.clone(),
            generation: metadata.generation,
            annotations: metadata.annotations.to_labels().without(LAST_APPLIED).shared(),
            deleted: metadata.deleted(),
            replicas: spec.replicas.unwrap_or(1),
            selector: read_selector(spec.selector.as_ref()),
            template: spec.template,
            strategy: spec.strategy.read(),
            min_ready_seconds: spec.min_ready_seconds,
            history_limit: spec.revision_history_limit.filter(|limit| *limit != NO_LIMIT),
            paused: spec.paused,
            progress_seconds: spec.progress_deadline_seconds.filter(|limit| *limit != NO_LIMIT),
            status,
        })
    }

    /// By how many pods there may be more than are wanted during a rollout.
    pub fn max_surge(&self) -> i64 {
        self.fenceposts().map_or(0, |(surge, _)| surge)
    }

    /// By how many pods there may be fewer than are wanted during a rollout.
    pub fn max_unavailable(&self) -> i64 {
        self.fenceposts().map_or(0, |(_, unavailable)| unavailable.min(self.replicas))
    }

    /// How many pods there may be at most.
    pub fn max_replicas(&self) -> i64 {
        self.replicas.saturating_add(self.max_surge())
    }

    /// Both bounds of a rolling update. Where rounding leaves no room at all, one pod may be missing.
    fn fenceposts(&self) -> Option<(i64, i64)> {
        let Strategy::RollingUpdate { surge, unavailable } = self.strategy else { return None };
        match (surge.of(self.replicas, true), unavailable.of(self.replicas, false)) {
            (0, 0) => Some((0, 1)),
            bounds => Some(bounds),
        }
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        !self.selector.is_everything() && self.selector.matches_pairs(|key| labels.get(key))
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
    replicas: Option<i64>,
    #[serde(borrow, default)]
    selector: Option<RawSelector<'a>>,
    #[serde(default)]
    template: Template,
    #[serde(borrow, default)]
    strategy: RawStrategy<'a>,
    #[serde(default)]
    min_ready_seconds: i64,
    revision_history_limit: Option<i64>,
    #[serde(default)]
    paused: bool,
    progress_deadline_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStrategy<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    rolling_update: Option<RawRollingUpdate<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRollingUpdate<'a> {
    #[serde(borrow)]
    max_surge: Option<RawAmount<'a>>,
    #[serde(borrow)]
    max_unavailable: Option<RawAmount<'a>>,
}

impl RawStrategy<'_> {
    fn read(&self) -> Strategy {
        if self.kind.as_deref() == Some("Recreate") {
            return Strategy::Recreate;
        }
        let bounds = self.rolling_update.as_ref();
        Strategy::RollingUpdate {
            surge: amount(bounds.and_then(|bounds| bounds.max_surge.as_ref())),
            unavailable: amount(bounds.and_then(|bounds| bounds.max_unavailable.as_ref())),
        }
    }
}

fn amount(raw: Option<&RawAmount<'_>>) -> Amount {
    raw.map_or(Amount::Count(0), RawAmount::read)
}
