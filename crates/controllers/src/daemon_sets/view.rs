//! DaemonSets as their controller sees them.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1 as apps;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::amount::{Amount, RawAmount};
use crate::conditions::Condition;
use crate::daemon_sets::placement::Placement;
use crate::metadata::{Labels, RawMetadata, RawSelector, read_selector};
use crate::replica_sets::is_zero;
use crate::template::Template;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

#[derive(Clone, Debug)]
pub struct DaemonSet {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub generation: i64,
    /// As pods of former times have it for a label.
    pub template_generation: Option<i64>,
    pub deleted: Option<i64>,
    pub selector: Selector,
    pub strategy: Strategy,
    pub min_ready_seconds: i64,
    pub history_limit: i64,
    pub template: Template,
    pub placement: Placement,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    OnDelete,
    RollingUpdate { surge: Amount, unavailable: Amount },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub current_number_scheduled: i64,
    pub number_misscheduled: i64,
    pub desired_number_scheduled: i64,
    pub number_ready: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_number_scheduled: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub number_available: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub number_unavailable: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// All DaemonSets.
pub fn daemon_sets(caches: &Caches) -> Informer<DaemonSet> {
    caches.view(&ApiResource::erase::<apps::DaemonSet>(&()), Selection::default(), DaemonSet::read)
}

impl DaemonSet {
    pub fn read(item: &Item) -> Option<DaemonSet> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a DaemonSet cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        // Read twice, once for what it is and once for where it is to run.
        let template = spec.template.map(RawValue::get).unwrap_or("null");
        let placed: Option<RawTemplate> = serde_json::from_str(template).unwrap_or_default();
        Some(DaemonSet {
            item: item.clone(),
            generation: metadata.generation,
            template_generation: metadata.annotations.get(TEMPLATE_GENERATION).and_then(|text| text.parse().ok()),
            deleted: metadata.deleted(),
            selector: read_selector(spec.selector.as_ref()),
            strategy: spec.update_strategy.read(),
            min_ready_seconds: spec.min_ready_seconds,
            history_limit: spec.revision_history_limit.unwrap_or(10),
            template: serde_json::from_str(template).unwrap_or_default(),
            placement: placed.unwrap_or_default().spec,
            status,
        })
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.matches_pairs(|key| labels.get(key))
    }

    /// How many pods there may be more than nodes, and how many may be missing, during a rollout on so many nodes.
    pub fn bounds(&self, nodes: i64) -> (i64, i64) {
        let Strategy::RollingUpdate { surge, unavailable } = self.strategy else { return (0, 0) };
        match (surge.of(nodes, true), unavailable.of(nodes, true)) {
            (0, 0) if nodes > 0 => (0, 1),
            bounds => bounds,
        }
    }

    pub fn allows_surge(&self) -> bool {
        matches!(self.strategy, Strategy::RollingUpdate { surge, .. } if surge.of(1, true) > 0)
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
    #[serde(borrow, default)]
    template: Option<&'a RawValue>,
    #[serde(borrow, default)]
    update_strategy: RawStrategy<'a>,
    #[serde(default)]
    min_ready_seconds: i64,
    revision_history_limit: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawTemplate {
    spec: Placement,
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
        if self.kind.as_deref() == Some("OnDelete") {
            return Strategy::OnDelete;
        }
        let amount = |raw: Option<&RawAmount<'_>>| raw.map_or(Amount::Count(0), RawAmount::read);
        let bounds = self.rolling_update.as_ref();
        Strategy::RollingUpdate {
            surge: amount(bounds.and_then(|bounds| bounds.max_surge.as_ref())),
            unavailable: amount(bounds.and_then(|bounds| bounds.max_unavailable.as_ref())),
        }
    }
}
