//! When what led to a change of endpoints happened: that somebody may measure how long it took until they knew.

use std::collections::HashMap;
use std::sync::Arc;

use rkube_machinery::Text;
use rkube_operator::Key;

use super::Service;
use crate::pods::Pod;

/// What was seen of services when they were last looked at.
#[derive(Default)]
pub struct Seen(HashMap<Key, State>);

#[derive(Default)]
struct State {
    created: Option<i64>,
    /// When each pod became ready, or ceased to be.
    pods: HashMap<Text, i64>,
}

impl Seen {
    /// The earliest change since the last time, in seconds since 1970: of a service that is new, its own creation. None:
    /// nothing that has a time.
    pub fn since_last(&mut self, key: &Key, service: &Service, pods: &[Arc<Pod>]) -> Option<i64> {
        let times = pods.iter().filter_map(|pod| Some((pod.name.clone(), pod.ready_changed?)));
        let now = State { created: service.created, pods: times.collect() };
        let Some(before) = self.0.get(key) else {
            self.0.insert(key.clone(), now);
            return service.created;
        };
        let changed = now.pods.iter().filter(|(name, time)| before.pods.get(*name).is_none_or(|last| *time > last));
        let changed = changed.map(|(_, time)| *time);
        let created = now.created.filter(|created| before.created.is_none_or(|last| *created > last));
        let earliest = changed.chain(created).min();
        self.0.insert(key.clone(), now);
        earliest
    }

    pub fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_change_since_the_last_time_counts() {
        let key = Key { namespace: "n".to_owned(), name: "s".to_owned() };
        let mut seen = Seen::default();
        let pod = |name: &str, changed: i64| {
            Arc::new(Pod { name: name.into(), ready_changed: (changed > 0).then_some(changed), ..Pod::default() })
        };
        // When the service was created, the pods with the time of their condition, and what comes out.
        type Times<'a> = &'a [(&'a str, i64)];
        let table: [(i64, Times<'_>, Option<i64>); 6] = [
            (5, &[("a", 3)], Some(5)),
            (5, &[("a", 3)], None),
            (5, &[("a", 9), ("b", 7), ("c", 0)], Some(7)),
            (5, &[("a", 8), ("b", 7), ("c", 12)], Some(12)),
            (6, &[("a", 9)], Some(6)),
            (6, &[], None),
        ];
        for (created, pods, expected) in table {
            let service = Service { created: Some(created), ..Service::default() };
            let pods: Vec<_> = pods.iter().map(|(name, changed)| pod(name, *changed)).collect();
            assert_eq!(seen.since_last(&key, &service, &pods), expected, "{created} {pods:?}");
        }
        seen.forget(&key);
        assert!(seen.0.is_empty());
    }
}
