//! Pods by their labels, for those who select them: services and budgets.

use std::hash::BuildHasher as _;
use std::sync::{Arc, LazyLock};

use foldhash::quality::RandomState;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::{Index, Informer, Key};

use super::Pod;

/// Users choose labels: none is to know which others it is found with.
static PAIRS: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// Pods by each of their labels by which others may be expected to select.
pub struct ByLabel;

impl Index<Pod> for ByLabel {
    type Key = u64;

    fn keys(_: &Key, pod: &Pod) -> impl IntoIterator<Item = u64> {
        let indexed = pod.labels.iter().filter(|(key, _)| is_indexed(key));
        indexed.map(|(key, value)| pair(&pod.namespace, key, value)).collect::<Vec<_>>()
    }
}

/// Labels that pods get from others than those who select by them. Who selects by nothing else pays by the namespace.
pub fn is_indexed(key: &str) -> bool {
    !key.starts_with("topology.kubernetes.io/")
        && !["pod-template-hash", "controller-revision-hash", "pod-template-generation"].contains(&key)
}

/// Eight bytes for a label in a namespace: who finds something by it looks whether it is meant.
pub fn pair(namespace: &str, key: &str, value: &str) -> u64 {
    PAIRS.hash_one((namespace, key, value))
}

/// A label that all have whom the selector selects, if there is one by which pods are found.
pub fn exact(selector: &Selector) -> Option<(&str, &str)> {
    let keys = selector.requirements().iter().map(|requirement| requirement.key()).filter(|key| is_indexed(key));
    keys.filter_map(|key| Some((key, selector.exact(key)?))).next()
}

/// The pods that a selector selects, ordered by name. The cost is by those that share a label with it.
pub fn selected(pods: &Informer<Pod>, namespace: &str, selector: &Selector) -> Vec<Arc<Pod>> {
    if selector.is_nothing() {
        return Vec::new();
    }
    let mut found = match exact(selector) {
        Some((key, value)) => pods.by_index::<ByLabel, _>(&pair(namespace, key, value)),
        None => pods.in_namespace(namespace),
    };
    found.retain(|pod| pod.namespace == namespace && selector.matches_pairs(|key| pod.labels.get(key)));
    found
}
