//! StatefulSets and the claims of their pods, as their controller sees them.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use rkube_machinery::Text;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Informer, Item, Selection};
use serde::{Deserialize, Serialize};

use crate::amount::{Amount, RawAmount};
use crate::metadata::{Labels, Owner, RawMetadata, RawSelector, read_selector};
use crate::replica_sets::is_zero;
use crate::template::Template;

#[derive(Clone, Debug)]
pub struct StatefulSet {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub generation: i64,
    pub deleted: Option<i64>,
    pub selector: Selector,
    pub replicas: i64,
    /// The first ordinal.
    pub start: i64,
    /// Whether pods are made and deleted without waiting for each other.
    pub parallel: bool,
    pub strategy: Strategy,
    pub min_ready_seconds: i64,
    pub history_limit: i64,
    /// The names of its claim templates.
    pub claims: Vec<Text>,
    pub retention: Retention,
    pub template: Template,
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    OnDelete,
    /// Pods from the partition on get the new template. None: whatever was not said.
    RollingUpdate {
        partition: Option<i64>,
        max_unavailable: Option<Amount>,
    },
}

/// What goes with whom: claims with the set, and claims with pods that are no longer wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pub delete_with_set: bool,
    pub delete_when_scaled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    pub replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub current_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub updated_replicas: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_revision: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub update_revision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i64>,
    pub available_replicas: i64,
}

/// A claim, by who owns it.
#[derive(Clone, Debug)]
pub struct Claim {
    pub item: Item,
    pub deleted: Option<i64>,
    /// Each with whether it is the controller.
    pub owners: Vec<(Arc<Owner>, bool)>,
}

/// All StatefulSets.
pub fn stateful_sets(caches: &Caches) -> Informer<StatefulSet> {
    caches.view(&ApiResource::erase::<apps::StatefulSet>(&()), Selection::default(), StatefulSet::read)
}

/// All claims.
pub fn claims(caches: &Caches) -> Informer<Claim> {
    caches.view(&ApiResource::erase::<core::PersistentVolumeClaim>(&()), Selection::default(), Claim::read)
}

impl Claim {
    pub fn read(item: &Item) -> Option<Claim> {
        #[derive(Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            metadata: RawMetadata<'a>,
        }
        let raw: Raw<'_> = serde_json::from_slice(&item.json).ok()?;
        Some(Claim {
            item: item.clone(),
            deleted: raw.metadata.deleted(),
            owners: raw.metadata.owners_with_roles().collect(),
        })
    }

    /// The names of pods with which it goes.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        let is_pod = |owner: &&Arc<Owner>| owner.api_version == "v1" && owner.kind == "Pod";
        self.owners.iter().map(|(owner, _)| owner).filter(is_pod).map(|owner| owner.name.as_str())
    }
}

impl StatefulSet {
    pub fn read(item: &Item) -> Option<StatefulSet> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a StatefulSet cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        let retention = spec.persistent_volume_claim_retention_policy.unwrap_or_default();
        let claims = spec.volume_claim_templates.iter().flatten();
        Some(StatefulSet {
            item: item.clone(),
            generation: metadata.generation,
            deleted: metadata.deleted(),
            selector: read_selector(spec.selector.as_ref()),
            replicas: spec.replicas.unwrap_or(1),
            start: spec.ordinals.map_or(0, |ordinals| ordinals.start),
            parallel: spec.pod_management_policy.as_deref() == Some("Parallel"),
            strategy: spec.update_strategy.read(),
            min_ready_seconds: spec.min_ready_seconds,
            history_limit: spec.revision_history_limit.unwrap_or(10),
            claims: claims.map(|claim| Text::new(&claim.metadata.name)).collect(),
            retention: Retention {
                delete_with_set: retention.when_deleted.as_deref() == Some("Delete"),
                delete_when_scaled: retention.when_scaled.as_deref() == Some("Delete"),
            },
            template: spec.template,
            status,
        })
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.matches_pairs(|key| labels.get(key))
    }

    pub fn pod_name(&self, ordinal: i64) -> String {
        format!("{}-{ordinal}", self.item.name)
    }

    pub fn claim_name(&self, template: &str, ordinal: i64) -> String {
        format!("{template}-{}-{ordinal}", self.item.name)
    }

    pub fn wants(&self, ordinal: i64) -> bool {
        (self.start..self.start.saturating_add(self.replicas)).contains(&ordinal)
    }

    /// The ordinal of a pod with such a name, if it can be one of the set's.
    pub fn ordinal(&self, pod: &str) -> Option<i64> {
        let digits = pod.strip_prefix(self.item.name.as_str())?.strip_prefix('-')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<i32>().ok()).flatten().map(i64::from)
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
    volume_claim_templates: Option<Vec<RawClaim<'a>>>,
    #[serde(borrow)]
    pod_management_policy: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    update_strategy: RawStrategy<'a>,
    revision_history_limit: Option<i64>,
    #[serde(default)]
    min_ready_seconds: i64,
    #[serde(borrow)]
    persistent_volume_claim_retention_policy: Option<RawRetention<'a>>,
    ordinals: Option<RawOrdinals>,
}

#[derive(Deserialize)]
struct RawClaim<'a> {
    #[serde(borrow)]
    metadata: RawName<'a>,
}

#[derive(Deserialize)]
struct RawName<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
struct RawOrdinals {
    #[serde(default)]
    start: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRetention<'a> {
    #[serde(borrow)]
    when_deleted: Option<Cow<'a, str>>,
    #[serde(borrow)]
    when_scaled: Option<Cow<'a, str>>,
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
    partition: Option<i64>,
    #[serde(borrow)]
    max_unavailable: Option<RawAmount<'a>>,
}

impl RawStrategy<'_> {
    fn read(&self) -> Strategy {
        if self.kind.as_deref() == Some("OnDelete") {
            return Strategy::OnDelete;
        }
        let rolling = self.rolling_update.as_ref();
        Strategy::RollingUpdate {
            partition: rolling.map(|rolling| rolling.partition.unwrap_or(0)),
            max_unavailable: rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).map(RawAmount::read),
        }
    }
}
