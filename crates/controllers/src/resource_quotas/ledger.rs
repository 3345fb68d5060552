//! What the objects of one kind take together, by namespace and scopes, kept with every change: to know what is used
//! costs by the scopes that there are, not by the objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rkube_machinery::Text;
use rkube_quota::{Amounts, Measure, Requirement, Scopes, amounts};

#[derive(Default)]
pub struct Ledger {
    spaces: HashMap<Text, Space>,
}

/// A namespace that has objects of the kind.
#[derive(Default)]
struct Space {
    sums: BTreeMap<Scopes, Sum>,
    /// Pods that will be no more than objects from a time on, by that time and their names.
    expiring: BTreeMap<(i64, Text), Arc<Measure>>,
}

#[derive(Default)]
struct Sum {
    objects: usize,
    amounts: Amounts,
}

impl Ledger {
    /// An object came, changed or went.
    pub fn change(&mut self, namespace: &str, name: &str, old: Option<&Arc<Measure>>, new: Option<&Arc<Measure>>) {
        if !self.spaces.contains_key(namespace) {
            self.spaces.insert(Text::new(namespace), Space::default());
        }
        let Some(space) = self.spaces.get_mut(namespace) else { return };
        if let Some(old) = old {
            let has_expired = old.expires.is_some_and(|at| space.expiring.remove(&(at, Text::new(name))).is_none());
            let leftover = has_expired.then(Measure::leftover);
            space.remove(&old.scopes, leftover.as_ref().unwrap_or(&old.usage));
        }
        if let Some(new) = new {
            space.add(&new.scopes, &new.usage);
            if let Some(at) = new.expires {
                space.expiring.insert((at, Text::new(name)), new.clone());
            }
        }
        if space.sums.is_empty() {
            self.spaces.remove(namespace);
        }
    }

    /// What is used by the objects of a namespace that are in these scopes.
    pub fn used(&mut self, namespace: &str, requirements: &[Requirement], now_micros: i64) -> Amounts {
        let mut used = Amounts::new();
        let Some(space) = self.spaces.get_mut(namespace) else { return used };
        space.expire(now_micros);
        for (_, sum) in space.sums.iter().filter(|(scopes, _)| scopes.meet_all(requirements)) {
            amounts::add(&mut used, &sum.amounts);
        }
        used
    }
}

impl Space {
    fn add(&mut self, scopes: &Scopes, usage: &Amounts) {
        let sum = match self.sums.get_mut(scopes) {
            Some(sum) => sum,
            None => self.sums.entry(scopes.clone()).or_default(),
        };
        sum.objects += 1;
        amounts::add(&mut sum.amounts, usage);
    }

    fn remove(&mut self, scopes: &Scopes, usage: &Amounts) {
        let Some(sum) = self.sums.get_mut(scopes) else { return };
        sum.objects = sum.objects.saturating_sub(1);
        amounts::subtract(&mut sum.amounts, usage);
        if sum.objects == 0 {
            self.sums.remove(scopes);
        }
    }

    fn expire(&mut self, now_micros: i64) {
        while let Some(first) = self.expiring.first_entry().filter(|first| first.get().is_expired(now_micros)) {
            let measure = first.remove();
            self.remove(&measure.scopes, &measure.usage);
            self.add(&measure.scopes, &Measure::leftover());
        }
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{Value, object};
    use rkube_quota::Evaluator;

    use super::*;

    fn pod(cpu: &str, deadline: Option<i64>, deleted: Option<&str>) -> Arc<Measure> {
        let resources = object! { "requests": object! { "cpu": cpu } };
        let mut spec = object! { "containers": vec![object! { "name": "c", "resources": resources }] };
        if let Some(seconds) = deadline {
            spec.set("activeDeadlineSeconds", seconds);
        }
        let mut metadata = object! {};
        if let Some(at) = deleted {
            metadata.set("deletionTimestamp", at);
            metadata.set("deletionGracePeriodSeconds", 0);
        }
        Arc::new(Evaluator::Pods.measure(&object! { "metadata": metadata, "spec": spec }))
    }

    fn requirements(scope: &str) -> Vec<Requirement> {
        let scopes: Vec<Value> = [scope].into_iter().filter(|scope| !scope.is_empty()).map(Value::from).collect();
        Requirement::all(&object! { "scopes": scopes })
    }

    fn used(ledger: &mut Ledger, scope: &str, now_seconds: i64) -> String {
        let mut used = ledger.used("n", &requirements(scope), now_seconds * 1_000_000);
        used.retain(|name, _| matches!(name.as_str(), "cpu" | "pods" | "count/pods"));
        amounts::to_text(&used)
    }

    #[test]
    fn sums_follow_objects() {
        let mut ledger = Ledger::default();
        let (a, b, ending) = (pod("1", None, None), pod("500m", None, None), pod("1", Some(5), None));
        ledger.change("n", "a", None, Some(&a));
        ledger.change("n", "b", None, Some(&ending));
        ledger.change("other", "a", None, Some(&a));
        assert_eq!(used(&mut ledger, "", 0), "count/pods=2,cpu=2,pods=2");
        assert_eq!(used(&mut ledger, "Terminating", 0), "count/pods=1,cpu=1,pods=1");
        ledger.change("n", "a", Some(&a), Some(&b));
        assert_eq!(used(&mut ledger, "NotTerminating", 0), "count/pods=1,cpu=500m,pods=1");
        ledger.change("n", "a", Some(&b), None);
        ledger.change("n", "b", Some(&ending), None);
        assert_eq!(used(&mut ledger, "", 0), "");
        assert!(!ledger.spaces.contains_key("n"));
    }

    #[test]
    fn pods_that_nobody_ends_expire_once() {
        let mut ledger = Ledger::default();
        let (alive, going) = (pod("1", None, None), pod("1", None, Some("1970-01-01T00:00:10Z")));
        ledger.change("n", "a", None, Some(&alive));
        ledger.change("n", "a", Some(&alive), Some(&going));
        ledger.change("n", "b", None, Some(&going));
        assert_eq!(used(&mut ledger, "", 10), "count/pods=2,cpu=2,pods=2");
        ledger.change("n", "b", Some(&going), None);
        assert_eq!(used(&mut ledger, "", 11), "count/pods=1");
        assert_eq!(used(&mut ledger, "", 12), "count/pods=1");
        ledger.change("n", "a", Some(&going), None);
        assert!(ledger.spaces.is_empty());
    }
}
