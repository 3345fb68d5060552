//! Budgets as their controller sees them.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::kube::core::ApiResource;
use rkube_operator::{Caches, Index, Informer, Item, Key};
use serde::{Deserialize, Serialize};

use crate::amount::{Amount, RawAmount};
use crate::metadata::{Labels, RawMetadata, RawSelector, read_selector};
use crate::pods::by_label;
use crate::replica_sets::is_zero;

#[derive(Clone, Debug)]
pub struct Budget {
    /// The whole object is at hand, and shared with who has it anyway.
    pub item: Item,
    pub generation: i64,
    pub selector: Selector,
    pub limit: Limit,
    pub status: Status,
}

/// How many pods there are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    #[default]
    None,
    MaxUnavailable(Amount),
    MinAvailable(Amount),
}

/// Why a budget allows nothing whose pods could not be counted.
pub const SYNC_FAILED: &str = "SyncFailed";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Pods that are being evicted, and since when, until they are seen to be terminating.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, String>,
    pub disruptions_allowed: i64,
    pub current_healthy: i64,
    pub desired_healthy: i64,
    pub expected_pods: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Status {
    /// Whether the pods could not be counted when that was last tried.
    pub fn is_uncounted(&self) -> bool {
        self.conditions.iter().any(|condition| condition.reason == SYNC_FAILED)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    pub last_transition_time: Option<String>,
    pub reason: String,
    pub message: String,
}

/// All budgets.
pub fn budgets(caches: &Caches) -> Informer<Budget> {
    let resource = ApiResource::erase::<v1::PodDisruptionBudget>(&());
    caches.view(&resource, rkube_operator::Selection::default(), Budget::read).indexed::<BySelector>()
}

/// Budgets by a label that all have whom they select; those without one by their namespace.
pub struct BySelector;

impl Index<Budget> for BySelector {
    type Key = u64;

    fn keys(_: &Key, budget: &Budget) -> impl IntoIterator<Item = u64> {
        let (key, value) = by_label::exact(&budget.selector).unwrap_or_default();
        (!budget.selector.is_nothing()).then(|| by_label::pair(&budget.item.namespace, key, value))
    }
}

impl Budget {
    pub fn read(item: &Item) -> Option<Budget> {
        let json = item.lean_json();
        let raw: Raw<'_> = match serde_json::from_str(&json) {
            Ok(raw) => raw,
            Err(error) => {
                tracing::error!(name = %item.name, %error, "a PodDisruptionBudget cannot be read and is left out");
                return None;
            }
        };
        let Raw { metadata, spec, status } = raw;
        let limit = match (&spec.max_unavailable, &spec.min_available) {
            (Some(amount), _) => Limit::MaxUnavailable(amount.read()),
            (None, Some(amount)) => Limit::MinAvailable(amount.read()),
            (None, None) => Limit::None,
        };
        let selector = read_selector(spec.selector.as_ref());
        Some(Budget { item: item.clone(), generation: metadata.generation, selector, limit, status })
    }

    pub fn selects(&self, labels: &Labels) -> bool {
        self.selector.matches_pairs(|key| labels.get(key))
    }

    pub fn key(&self) -> Key {
        Key { namespace: self.item.namespace.to_string(), name: self.item.name.to_string() }
    }

    /// The selector as Go prints it.
    pub fn selector_text(&self) -> String {
        let Ok(whole) = self.item.parse::<v1::PodDisruptionBudget>() else { return "nil".to_owned() };
        let Some(selector) = whole.spec.and_then(|spec| spec.selector) else { return "nil".to_owned() };
        let labels: String =
            selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
        let expressions = selector.match_expressions.iter().flatten().map(|one| {
            let values = one.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
            format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key, one.operator)
        });
        let expressions: String = expressions.collect();
        format!(
            "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
        )
    }
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    #[serde(borrow, default)]
    spec: RawSpec<'a>,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow)]
    selector: Option<RawSelector<'a>>,
    #[serde(borrow)]
    min_available: Option<RawAmount<'a>>,
    #[serde(borrow)]
    max_unavailable: Option<RawAmount<'a>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_is_read() {
        let read = |spec: serde_json::Value| {
            let json = json!({ "metadata": { "generation": 2 }, "spec": spec }).to_string().into();
            let item = Item { namespace: "n".into(), name: "b".into(), uid: "u".into(), revision: 1, json };
            Budget::read(&item).unwrap()
        };
        let all = read(json!({ "selector": {}, "minAvailable": 2 }));
        assert_eq!((all.limit, all.generation), (Limit::MinAvailable(Amount::Count(2)), 2));
        assert!(all.selects(&Labels::default()));
        assert_eq!(
            all.selector_text(),
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
        );
        let none = read(json!({ "maxUnavailable": "30%" }));
        assert_eq!(none.limit, Limit::MaxUnavailable(Amount::Percent(30)));
        assert!(!none.selects(&Labels::default()));
        let some = read(json!({ "selector": {
            "matchLabels": { "b": "2", "a": "1" },
            "matchExpressions": [{ "key": "c", "operator": "In", "values": ["x", "y"] }],
        } }));
        assert_eq!(
            some.selector_text(),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[x y],},},}"
        );
    }
}
