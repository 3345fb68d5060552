//! ReplicaSets and ReplicationControllers as controllers see them: one view for both.

use std::sync::Arc;

use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use rkube_machinery::Text;
use rkube_machinery::selector::labels::{Operator, Requirement, Selector};
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key, Selection};
use serde::{Deserialize, Serialize};

use crate::conditions::Condition;
use crate::metadata::{Labels, Owner, Pairs, RawMetadata, RawSelector, read_selector};
use crate::template::Template;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What wants to have a number of pods.
#[derive(Clone, Debug)]
pub struct ReplicaSet {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub generation: i64,
    pub labels: Arc<Labels>,
    /// All but what `kubectl apply` writes down.
    pub annotations: Arc<Labels>,
    pub controller: Option<Arc<Owner>>,
    pub created: Option<i64>,
    pub deleted: Option<i64>,
    pub replicas: i64,
    pub min_ready_seconds: i64,
    pub selector: Selector,
    pub template: Template,
    pub status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub fully_labeled_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub available_replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i64>,
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
pub fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Sets by the uid of their controller.
pub struct ByController;

impl Index<ReplicaSet> for ByController {
    type Key = Text;

    fn keys(_: &Key, set: &ReplicaSet) -> impl IntoIterator<Item = Text> {
        set.controller.as_ref().map(|owner| owner.uid.clone())
    }
}

/// Sets that nobody controls, by namespace.
pub struct Orphans;

impl Index<ReplicaSet> for Orphans {
    type Key = Text;

    fn keys(_: &Key, set: &ReplicaSet) -> impl IntoIterator<Item = Text> {
        set.controller.is_none().then(|| set.item.namespace.clone())
    }
}

/// All ReplicaSets.
pub fn replica_sets(caches: &Caches) -> Informer<ReplicaSet> {
    caches.view(&ApiResource::erase::<apps::ReplicaSet>(&()), Selection::default(), ReplicaSet::read)
}

/// All ReplicationControllers.
pub fn replication_controllers(caches: &Caches) -> Informer<ReplicaSet> {
    let resource = ApiResource::erase::<core::ReplicationController>(&());
    caches.view(&resource, Selection::default(), ReplicaSet::read_controller)
}

impl ReplicaSet {
    pub fn read(item: &Item) -> Option<ReplicaSet> {
        Self::read_with(item, |selector: &Option<RawSelector<'_>>| read_selector(selector.as_ref()))
    }

    fn read_controller(item: &Item) -> Option<ReplicaSet> {
        Self::read_with(item, |selector: &Pairs<'_>| exact(selector))
    }

    fn read_with<'a, S: Default + Deserialize<'a>>(
        item: &'a Item,
        selector: impl Fn(&S) -> Selector,
    ) -> Option<ReplicaSet> {
        let raw: Raw<'a, S> = match serde_json::from_slice(&item.json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a replica set cannot be read and is left out");
                return None;
            }
        };
        let annotations = raw.metadata.annotations.to_labels();
        Some(ReplicaSet {
            item: item.clone(),
            generation: raw.metadata.generation,
            labels: raw.metadata.labels.to_labels().shared(),
            annotations: annotations.without(LAST_APPLIED).shared(),
            controller: raw.metadata.controller(),
            created: raw.metadata.created(),
            deleted: raw.metadata.deleted(),
            replicas: raw.spec.replicas.unwrap_or(1),
            min_ready_seconds: raw.spec.min_ready_seconds,
            selector: selector(&raw.spec.selector),
            template: raw.spec.template,
            status: raw.status,
        })
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.matches_pairs(|key| labels.get(key))
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Default + Deserialize<'de>"))]
struct Raw<'a, S> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    spec: RawSpec<S>,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "S: Default + Deserialize<'de>"))]
struct RawSpec<S> {
    replicas: Option<i64>,
    #[serde(default)]
    min_ready_seconds: i64,
    #[serde(default)]
    selector: S,
    #[serde(default)]
    template: Template,
}

fn exact(labels: &Pairs<'_>) -> Selector {
    let requirement = |(key, value): (&str, &str)| Requirement::new(key, Operator::Equals, vec![Text::new(value)]);
    match labels.iter().map(requirement).collect::<Result<Vec<_>, _>>() {
        Ok(requirements) if !requirements.is_empty() => Selector::from_requirements(requirements),
        _ => Selector::nothing(),
    }
}
