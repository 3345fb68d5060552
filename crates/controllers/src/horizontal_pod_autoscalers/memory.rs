//! What is remembered of autoscalers from one look to the next.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rkube_machinery::selector::labels::Selector;
use rkube_operator::Key;

use crate::horizontal_pod_autoscalers::limits::History;
use crate::metadata::Labels;
use crate::pods::{Pod, by_label};

/// What is remembered of autoscalers that are there.
#[derive(Default)]
pub struct Memory(Mutex<Known>);

#[derive(Default)]
struct Known {
    autoscalers: BTreeMap<Key, Remembered>,
    /// Those whose selector is known, by a label that all of their pods have; or by none.
    by_label: BTreeMap<Option<u64>, BTreeSet<Key>>,
}

#[derive(Default)]
struct Remembered {
    history: History,
    /// Which pods it scales, once that is known.
    selector: Option<Selector>,
}

impl Memory {
    pub fn add(&self, key: &Key) {
        self.0.lock().autoscalers.entry(key.clone()).or_default();
    }

    pub fn forget(&self, key: &Key) {
        let mut known = self.0.lock();
        known.select(key, None);
        known.autoscalers.remove(key);
    }

    /// With what happened before; what is not there is not remembered.
    pub fn with<T>(&self, key: &Key, change: impl FnOnce(&mut History) -> T) -> T {
        match self.0.lock().autoscalers.get_mut(key) {
            Some(remembered) => change(&mut remembered.history),
            None => change(&mut History::default()),
        }
    }

    /// Remembers which pods an autoscaler scales.
    pub fn select(&self, key: &Key, selector: Selector) {
        self.0.lock().select(key, Some(selector));
    }

    /// The autoscalers that scale one of these pods.
    pub fn scaling(&self, namespace: &str, pods: &[Arc<Pod>]) -> Vec<String> {
        // Pods of one set have the same labels, which are shared.
        let labels: BTreeMap<_, _> = pods.iter().map(|pod| (Arc::as_ptr(&pod.labels), &pod.labels)).collect();
        let known = self.0.lock();
        let mut scaling = BTreeSet::new();
        for labels in labels.values() {
            let places = labels.iter().map(|(key, value)| Some(by_label::pair(namespace, key, value))).chain([None]);
            let found = places.filter_map(|place| known.by_label.get(&place)).flatten();
            scaling.extend(found.filter(|key| key.namespace == namespace && known.selects(key, labels)));
        }
        scaling.into_iter().map(|key| format!("{namespace}/{}", key.name)).collect()
    }
}

impl Known {
    fn select(&mut self, key: &Key, selector: Option<Selector>) {
        let Some(remembered) = self.autoscalers.get_mut(key) else { return };
        if remembered.selector == selector {
            return;
        }
        let place = |selector: &Selector| {
            by_label::exact(selector).map(|(label, value)| by_label::pair(&key.namespace, label, value))
        };
        let before = remembered.selector.as_ref().map(place);
        let after = selector.as_ref().map(place);
        remembered.selector = selector;
        if let Some(place) = before
            && let Entry::Occupied(mut there) = self.by_label.entry(place)
        {
            there.get_mut().remove(key);
            if there.get().is_empty() {
                there.remove();
            }
        }
        if let Some(place) = after {
            self.by_label.entry(place).or_default().insert(key.clone());
        }
    }

    fn selects(&self, key: &Key, labels: &Labels) -> bool {
        let selector = self.autoscalers.get(key).and_then(|remembered| remembered.selector.as_ref());
        selector.is_some_and(|selector| selector.matches_pairs(|key| labels.get(key)))
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use rkube_operator::Item;
    use serde_json::{Value, json};

    use super::*;

    fn pod(labels: &Value) -> Arc<Pod> {
        let text = json!({ "metadata": { "namespace": "n", "labels": labels }, "spec": { "containers": [] } });
        let json = text.to_string().into();
        let item = Item { namespace: "n".into(), name: "p".into(), uid: "u".into(), revision: 1, json };
        Arc::new(Pod::read(&item).unwrap())
    }

    fn key(name: &str) -> Key {
        Key { namespace: "n".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn who_scales_a_pod_is_found_by_any_selector() {
        let memory = Memory::default();
        let select = |name: &str, selector: &str| memory.select(&key(name), Selector::parse(selector).unwrap());
        for name in ["a", "b", "c"] {
            memory.add(&key(name));
        }
        select("a", "app=x");
        select("b", "tier in (one, two)");
        select("c", "app=x,tier=three");
        select("unknown", "app=x");
        let elsewhere = Key { namespace: "other".to_owned(), name: "a".to_owned() };
        memory.add(&elsewhere);
        memory.select(&elsewhere, Selector::parse("app=x").unwrap());
        let (x, other) = (pod(&json!({ "app": "x", "tier": "one" })), pod(&json!({ "app": "y", "tier": "three" })));
        let (of_x, of_other) = (slice::from_ref(&x), slice::from_ref(&other));
        assert_eq!(memory.scaling("n", &[x.clone(), other.clone()]), ["n/a", "n/b"]);
        assert!(memory.scaling("n", of_other).is_empty() && memory.scaling("n", &[]).is_empty());
        select("a", "app=y");
        assert_eq!(memory.scaling("n", of_x), ["n/b"]);
        assert_eq!(memory.scaling("n", of_other), ["n/a"]);
        for name in ["a", "b", "c"] {
            memory.forget(&key(name));
        }
        memory.forget(&elsewhere);
        assert!(memory.scaling("n", of_x).is_empty() && memory.scaling("n", of_other).is_empty());
        assert!(memory.0.lock().by_label.is_empty(), "nothing is left of what is gone");
    }
}
