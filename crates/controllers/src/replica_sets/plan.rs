//! What to do about the pods of a ReplicaSet or a ReplicationController, as pure functions.

use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::time;

use crate::conditions::{self, Condition};
use crate::pods::{Phase, Pod};
use crate::replica_sets::order;
use crate::replica_sets::view::{ReplicaSet, Status};

/// At most so many pods are made or deleted in one reconcile.
pub const BURST: usize = 500;

const FAILURE: &str = "ReplicaFailure";
/// A pod that failed within so many seconds after it was made would do so again.
const FAILS_AT_ONCE_SECONDS: i64 = 60;

/// Whose pods are whose.
#[derive(Debug, Default)]
pub struct Claims {
    /// Pods that run, or will, and are the set's.
    pub active: Vec<Arc<Pod>>,
    pub adopt: Vec<Arc<Pod>>,
    pub release: Vec<Arc<Pod>>,
    /// Pods of the set that are on their way out.
    pub terminating: usize,
    /// Whether pods that are made do not last: they fail at once, or turn out to be none that the set selects. To make
    /// others at full speed would not help.
    pub futile: bool,
}

/// Sorts pods that the set controls, and pods that nobody controls. A set that is to go takes and releases none.
pub fn claim(set: &ReplicaSet, owned: Vec<Arc<Pod>>, orphans: Vec<Arc<Pod>>, now_micros: i64) -> Claims {
    let mut claims = Claims::default();
    let now_seconds = now_micros.div_euclid(1_000_000);
    for pod in owned {
        let selected = set.selects(&pod.labels);
        let is_young = pod.created.is_none_or(|created| now_seconds.saturating_sub(created) < FAILS_AT_ONCE_SECONDS);
        claims.futile |= is_young && (pod.phase == Phase::Failed || !selected) && pod.deleted.is_none();
        if pod.is_active() {
            match selected {
                true => claims.active.push(pod),
                false if set.deleted.is_none() => claims.release.push(pod),
                false => {}
            }
        } else if selected && pod.is_terminating() {
            claims.terminating += 1;
        }
    }
    if set.deleted.is_none() {
        let wanted =
            |pod: &Arc<Pod>| pod.is_active() && pod.namespace == set.item.namespace && set.selects(&pod.labels);
        claims.adopt = orphans.into_iter().filter(wanted).collect();
    }
    claims
}

/// What brings the number of pods nearer to what it should be.
#[derive(Debug)]
pub enum Step {
    Nothing,
    Create(usize),
    Delete(Vec<Arc<Pod>>),
}

/// `related` are all pods of the same application; they are asked for only if it matters.
pub fn step(set: &ReplicaSet, active: &[Arc<Pod>], related: impl FnOnce() -> Vec<Arc<Pod>>, now_micros: i64) -> Step {
    let wanted = usize::try_from(set.replicas).unwrap_or(0);
    if set.deleted.is_some() || active.len() == wanted {
        return Step::Nothing;
    }
    if active.len() < wanted {
        return Step::Create((wanted - active.len()).min(BURST));
    }
    let mut pods = active.to_vec();
    if wanted > 0 || pods.len() > BURST {
        order::order(&mut pods, &related(), now_micros);
    }
    pods.truncate((active.len() - wanted).min(BURST));
    Step::Delete(pods)
}

/// In which batches so many pods are made: small ones first, so that what fails fails for few.
pub fn batches(count: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    std::iter::successors(Some(1_usize), |size| Some(size * 2)).map_while(move |size| {
        let size = size.min(left);
        left -= size;
        (size > 0).then_some(size)
    })
}

/// The status that a set should have. `terminating`: None for a kind that does not tell.
pub fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    terminating: Option<usize>,
    failure: Option<&str>,
    now_micros: i64,
) -> Status {
    let count = |test: &dyn Fn(&Pod) -> bool| as_count(active.iter().filter(|pod| test(pod)).count());
    let mut status = Status {
        replicas: as_count(active.len()),
        fully_labeled_replicas: count(&|pod| set.template.labels.within(&pod.labels)),
        ready_replicas: count(&|pod| pod.ready),
        available_replicas: count(&|pod| pod.is_available(set.min_ready_seconds, now_micros)),
        terminating_replicas: terminating.map(as_count),
        observed_generation: set.generation,
        conditions: set.status.conditions.clone(),
    };
    match failure {
        None => conditions::remove(&mut status.conditions, FAILURE),
        Some(message) if conditions::find(&status.conditions, FAILURE).is_none() => {
            let reason = match status.replicas.cmp(&set.replicas) {
                std::cmp::Ordering::Less => "FailedCreate",
                std::cmp::Ordering::Equal => "",
                std::cmp::Ordering::Greater => "FailedDelete",
            };
            status.conditions.push(Condition {
                kind: FAILURE.to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(time::format_seconds(now_micros.div_euclid(1_000_000))),
                reason: reason.to_owned(),
                message: message.to_owned(),
                ..Condition::default()
            });
        }
        Some(_) => {}
    }
    status
}

fn as_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// When the next pod that is ready will be available.
pub fn next_available(set: &ReplicaSet, active: &[Arc<Pod>], now_micros: i64) -> Option<Duration> {
    if set.min_ready_seconds <= 0 {
        return None;
    }
    let ready: Vec<&Arc<Pod>> = active.iter().filter(|pod| pod.ready).collect();
    if ready.iter().all(|pod| pod.is_available(set.min_ready_seconds, now_micros)) {
        return None;
    }
    let waits = ready.iter().filter_map(|pod| pod.available_in(set.min_ready_seconds, now_micros));
    let next = waits.filter(|micros| *micros > 0).min();
    // Nobody knows since when they are ready.
    let next = next.unwrap_or_else(|| set.min_ready_seconds.saturating_mul(1_000_000));
    Some(Duration::from_micros(u64::try_from(next).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use rkube_operator::Item;
    use serde_json::json;

    use super::*;
    use crate::metadata::Labels;

    fn set(replicas: i64) -> ReplicaSet {
        let json = json!({
            "metadata": { "generation": 3 },
            "spec": {
                "replicas": replicas, "minReadySeconds": 10,
                "selector": { "matchLabels": { "app": "a" }, "matchExpressions": [{ "key": "x", "operator": "DoesNotExist" }] },
                "template": { "metadata": { "labels": { "app": "a", "b": "c" } } },
            },
        });
        let json = json.to_string().into();
        let item = Item { namespace: "n".into(), name: "r".into(), uid: "u".into(), revision: 1, json };
        ReplicaSet::read(&item).unwrap()
    }

    fn pod(name: &str, labels: &str) -> Pod {
        let pairs = labels.split_whitespace().filter_map(|pair| pair.split_once('='));
        let labels = Labels::new(pairs.map(|(key, value)| (key.into(), value.into()))).shared();
        Pod {
            namespace: "n".into(),
            name: name.into(),
            uid: name.into(),
            labels,
            phase: Phase::Running,
            ..Pod::default()
        }
    }

    fn names(pods: &[Arc<Pod>]) -> String {
        pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn all(pods: impl IntoIterator<Item = Pod>) -> Vec<Arc<Pod>> {
        pods.into_iter().map(Arc::new).collect()
    }

    #[test]
    fn pods_are_claimed_by_selector() {
        let owned = all([
            pod("own", "app=a"),
            pod("lost", "app=a x=y"),
            Pod { phase: Phase::Failed, ..pod("failed", "app=a") },
            Pod { deleted: Some(1), ..pod("going", "app=a") },
            Pod { deleted: Some(1), phase: Phase::Succeeded, ..pod("gone", "app=a") },
            Pod { deleted: Some(1), ..pod("lost-and-going", "app=b") },
        ]);
        let orphans = all([
            pod("orphan", "app=a z=z"),
            pod("other", "app=b"),
            Pod { deleted: Some(1), ..pod("orphan-going", "app=a") },
            Pod { phase: Phase::Succeeded, ..pod("orphan-done", "app=a") },
            Pod { namespace: "m".into(), ..pod("elsewhere", "app=a") },
        ]);
        let claims = claim(&set(1), owned.clone(), orphans.clone(), 0);
        let told = (names(&claims.active), names(&claims.adopt), names(&claims.release), claims.terminating);
        assert_eq!(told, ("own".into(), "orphan".into(), "lost".into(), 1));
        let claims = claim(&ReplicaSet { deleted: Some(1), ..set(1) }, owned, orphans, 0);
        let told = (names(&claims.active), names(&claims.adopt), names(&claims.release), claims.terminating);
        assert_eq!(told, ("own".into(), String::new(), String::new(), 1), "one that is to go changes none");
    }

    #[test]
    fn pods_that_do_not_last_are_made_in_vain() {
        let made = |pod: Pod| Pod { created: Some(100), ..pod };
        let table = [
            (made(pod("runs", "app=a")), false),
            (made(Pod { phase: Phase::Failed, ..pod("fails", "app=a") }), true),
            (made(Pod { phase: Phase::Failed, deleted: Some(1), ..pod("is deleted", "app=a") }), false),
            (made(Pod { phase: Phase::Succeeded, ..pod("ends", "app=a") }), false),
            (made(pod("is another's", "app=b")), true),
            (Pod { phase: Phase::Failed, created: Some(1), ..pod("failed late", "app=a") }, false),
        ];
        for (pod, expected) in table {
            let claims = claim(&set(1), all([pod.clone()]), Vec::new(), 110_000_000);
            assert_eq!(claims.futile, expected, "{}", pod.name);
        }
    }

    #[test]
    fn steps_are_towards_the_number_and_bounded() {
        // How many are wanted, how many there are, and how many are made or deleted.
        let table = [(3, 3, 0), (5, 3, 2), (100_000, 3, 500), (1, 3, -2), (0, 3, -3), (0, 2000, -500), (-1, 2, -2)];
        for (wanted, there, expected) in table {
            let pods = all((0..there).map(|number| pod(&format!("{number:04}"), "app=a")));
            let made = match step(&set(wanted), &pods, Vec::new, 0) {
                Step::Nothing => 0,
                Step::Create(count) => as_count(count),
                Step::Delete(pods) => -as_count(pods.len()),
            };
            assert_eq!(made, expected, "{wanted} {there}");
        }
        assert!(matches!(step(&ReplicaSet { deleted: Some(1), ..set(9) }, &[], Vec::new, 0), Step::Nothing));
    }

    #[test]
    fn batches_double() {
        assert_eq!(batches(0).count(), 0);
        assert_eq!(batches(1).collect::<Vec<_>>(), [1]);
        assert_eq!(batches(500).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32, 64, 128, 245]);
    }

    #[test]
    fn a_status_counts_pods() {
        let ready = |name: &str, since| Pod { ready: true, ready_changed: Some(since), ..pod(name, "app=a b=c") };
        let pods = all([pod("1", "app=a"), pod("2", "app=a b=c"), ready("3", 5), ready("4", 15)]);
        let now = 20_000_000;
        let status = status(&set(4), &pods, Some(2), None, now);
        let expected = Status {
            replicas: 4,
            fully_labeled_replicas: 3,
            ready_replicas: 2,
            available_replicas: 1,
            terminating_replicas: Some(2),
            observed_generation: 3,
            conditions: Vec::new(),
        };
        assert_eq!(status, expected);
        assert_eq!(next_available(&set(4), &pods, now), Some(Duration::from_secs(5)));
        assert_eq!(next_available(&set(4), &pods, 25_000_000), None);
        let unknown = all([Pod { ready: true, ..pod("1", "app=a") }]);
        assert_eq!(next_available(&set(4), &unknown, now), Some(Duration::from_secs(10)));
    }

    #[test]
    fn a_failure_is_told_until_it_is_over() {
        let failed = |set: &ReplicaSet, failure: Option<&str>| status(set, &[], None, failure, 20_000_000).conditions;
        let mut set = set(1);
        let conditions = failed(&set, Some("too many"));
        let condition = serde_json::to_value(&conditions).unwrap();
        let expected = json!([{
            "type": "ReplicaFailure", "status": "True", "lastTransitionTime": "1970-01-01T00:00:20Z",
            "reason": "FailedCreate", "message": "too many",
        }]);
        assert_eq!(condition, expected);
        set.status.conditions.clone_from(&conditions);
        assert_eq!(failed(&set, Some("still too many")), conditions);
        assert_eq!(failed(&set, None), []);
        set.replicas = -1;
        set.status.conditions.clear();
        assert_eq!(failed(&set, Some("no"))[0].reason, "FailedDelete");
    }
}
