//! What a budget allows, as pure functions of it, its pods and the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rkube_machinery::time;

use super::view::{Budget, Condition, Limit, SYNC_FAILED, Status};
use crate::amount::Amount;
use crate::metadata::seconds;
use crate::pods::Pod;

/// A pod that is not terminating so long after its eviction was granted will not be, in seconds.
const DELETION_SECONDS: i64 = 2 * 60;
/// What says of a pod that it is to be disrupted holds for so long without a deletion, in seconds.
const STALE_SECONDS: i64 = 2 * 60;

const ALLOWED: &str = "DisruptionAllowed";

/// What follows from a look at a budget.
#[derive(Debug, Default)]
pub struct Plan {
    /// The status that it is to have, if it has another.
    pub status: Option<Status>,
    /// When a pod that is being evicted is late.
    pub again_after: Option<Duration>,
    /// Pods whose eviction was granted, and came to nothing.
    pub not_deleted: Vec<Arc<Pod>>,
}

/// Whether it matters how many pods their controllers want.
pub fn needs_scale(limit: Limit) -> bool {
    matches!(limit, Limit::MaxUnavailable(_) | Limit::MinAvailable(Amount::Percent(_)))
}

/// How many pods are expected, and how many of them are to be healthy. `scale` is how many their controllers want.
pub fn wanted(limit: Limit, pods: usize, scale: i64) -> (i64, i64) {
    match limit {
        Limit::None => (0, 0),
        Limit::MaxUnavailable(amount) => (scale, (scale - amount.of(scale, true)).max(0)),
        Limit::MinAvailable(Amount::Count(count)) => (i64::try_from(pods).unwrap_or(i64::MAX), count),
        Limit::MinAvailable(amount) => (scale, amount.of(scale, true)),
    }
}

pub fn plan(budget: &Budget, pods: &[Arc<Pod>], (expected, desired): (i64, i64), now_micros: i64) -> Plan {
    let mut plan = Plan::default();
    let disrupted_pods = disrupted(budget, pods, now_micros, &mut plan);
    let is_healthy = |pod: &&Arc<Pod>| pod.ready && pod.deleted.is_none() && !disrupted_pods.contains_key(&*pod.name);
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    // A budget without pods allows nothing: the first that come are not seen at once.
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let known = &budget.status;
    let mut status = Status {
        observed_generation: budget.generation,
        disrupted_pods,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        conditions: known.conditions.clone(),
    };
    let (holds, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = known.conditions.iter().find(|condition| condition.kind == ALLOWED);
    if status == *known && condition.is_some_and(|one| one.status == holds && one.reason == reason) {
        return plan;
    }
    set(&mut status, holds, reason, "", now_micros);
    plan.status = Some(status);
    plan
}

/// The status of a budget of which nothing can be known: it allows nothing.
pub fn fail_safe(budget: &Budget, why: &str, now_micros: i64) -> Option<Status> {
    let mut status = Status { disruptions_allowed: 0, ..budget.status.clone() };
    set(&mut status, "False", SYNC_FAILED, why, now_micros);
    (status != budget.status).then_some(status)
}

/// In how many microseconds what is said of a pod's disruption is stale; None: never.
pub fn stale_in(pod: &Pod, now_micros: i64) -> Option<i64> {
    let since = pod.disrupted.filter(|_| pod.deleted.is_none() && !pod.is_terminal())?;
    let at = since.saturating_add(STALE_SECONDS).saturating_mul(1_000_000);
    Some(at.saturating_sub(now_micros).max(0))
}

/// The pods whose deletion is still to come.
fn disrupted(budget: &Budget, pods: &[Arc<Pod>], now_micros: i64, plan: &mut Plan) -> BTreeMap<String, String> {
    let mut left = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.deleted.is_none()) {
        let Some(at) = budget.status.disrupted_pods.get(&*pod.name) else { continue };
        let late = seconds(Some(at)).unwrap_or(0).saturating_add(DELETION_SECONDS).saturating_mul(1_000_000);
        if late < now_micros {
            plan.not_deleted.push(pod.clone());
            continue;
        }
        // Just after, so that it is late then.
        let wait = Duration::from_micros(late.saturating_sub(now_micros).unsigned_abs() + 1);
        plan.again_after = Some(plan.again_after.map_or(wait, |sooner| sooner.min(wait)));
        left.insert(pod.name.to_string(), at.clone());
    }
    left
}

fn set(status: &mut Status, holds: &str, reason: &str, message: &str, now_micros: i64) {
    let known = status.conditions.iter_mut().find(|condition| condition.kind == ALLOWED);
    let since =
        known.as_ref().filter(|known| known.status == holds).and_then(|known| known.last_transition_time.clone());
    let condition = Condition {
        kind: ALLOWED.to_owned(),
        status: holds.to_owned(),
        observed_generation: status.observed_generation,
        last_transition_time: since.or_else(|| Some(time::format_seconds(now_micros.div_euclid(1_000_000)))),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match known {
        Some(known) => *known = condition,
        None => status.conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::selector::labels::Selector;
    use rkube_operator::Item;

    use super::*;
    use crate::pods::Phase;

    const NOW: i64 = 1000 * 1_000_000;

    fn budget(status: Status) -> Budget {
        let json = "{}".into();
        let item = Item { namespace: "n".into(), name: "b".into(), uid: "u".into(), revision: 1, json };
        Budget { item, generation: 3, selector: Selector::everything(), limit: Limit::None, status }
    }

    /// Names, with `!` terminating and `-` not ready.
    fn pods(text: &str) -> Vec<Arc<Pod>> {
        let one = |text: &str| {
            let name = text.trim_end_matches(['!', '-']).into();
            let deleted = text.ends_with('!').then_some(1);
            Arc::new(Pod { name, deleted, ready: !text.ends_with('-'), ..Pod::default() })
        };
        text.split_whitespace().map(one).collect()
    }

    #[test]
    fn what_is_wanted_follows_from_limit_and_scale() {
        use Amount::{Count, Percent};
        let table = [
            (Limit::MinAvailable(Count(2)), 5, 0, (5, 2)),
            (Limit::MinAvailable(Percent(50)), 1, 7, (7, 4)),
            (Limit::MinAvailable(Percent(100)), 1, 7, (7, 7)),
            (Limit::MaxUnavailable(Count(2)), 1, 7, (7, 5)),
            (Limit::MaxUnavailable(Count(9)), 1, 7, (7, 0)),
            (Limit::MaxUnavailable(Percent(30)), 1, 10, (10, 7)),
            (Limit::MaxUnavailable(Percent(1)), 1, 10, (10, 9)),
            (Limit::MaxUnavailable(Percent(0)), 1, 0, (0, 0)),
            (Limit::None, 4, 4, (0, 0)),
        ];
        for (limit, pods, scale, expected) in table {
            assert_eq!(wanted(limit, pods, scale), expected, "{limit:?}");
        }
    }

    #[test]
    fn healthy_pods_beyond_the_wanted_ones_may_go() {
        // Pods, expected and desired ones, those that are healthy, and how many may go.
        let table = [
            ("a b c", (3, 2), 3, 1),
            ("a b- c", (3, 2), 2, 0),
            ("a b! c!", (3, 2), 1, 0),
            ("a b c", (0, 0), 3, 0),
            ("", (0, 0), 0, 0),
            ("a b c d", (4, 0), 4, 4),
        ];
        for (text, wanted, healthy, allowed) in table {
            let status = plan(&budget(Status::default()), &pods(text), wanted, NOW).status.unwrap();
            assert_eq!((status.current_healthy, status.disruptions_allowed), (healthy, allowed), "{text}");
            let [condition] = status.conditions.as_slice() else { panic!("{status:?}") };
            let expected = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            assert_eq!((condition.status.as_str(), condition.reason.as_str()), expected, "{text}");
            assert_eq!((status.observed_generation, condition.observed_generation), (3, 3));
            let again = plan(&budget(status), &pods(text), wanted, NOW + 5_000_000);
            assert!(again.status.is_none(), "{again:?}");
        }
    }

    #[test]
    fn pods_that_are_evicted_count_no_more_for_two_minutes() {
        let at = |seconds: i64| time::format_seconds(seconds);
        let disrupted_pods = [("a", at(999)), ("b", at(880)), ("c", at(879)), ("gone", at(999)), ("going", at(999))];
        let disrupted_pods = disrupted_pods.into_iter().map(|(name, at)| (name.to_owned(), at)).collect();
        let known = Status { disrupted_pods, ..Status::default() };
        let plan = plan(&budget(known), &pods("a b c d going!"), (5, 1), NOW);
        let status = plan.status.unwrap();
        assert_eq!(status.disrupted_pods.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((status.current_healthy, status.disruptions_allowed), (2, 1));
        assert_eq!(plan.not_deleted.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!(plan.again_after, Some(Duration::from_micros(1)));
    }

    #[test]
    fn a_budget_that_fails_allows_nothing_until_it_does_not() {
        let fine = plan(&budget(Status::default()), &pods("a b"), (2, 1), NOW).status.unwrap();
        let failed = fail_safe(&budget(fine.clone()), "why", NOW + 9_000_000).unwrap();
        assert_eq!((failed.disruptions_allowed, failed.current_healthy), (0, 2));
        assert_eq!(
            (failed.conditions[0].reason.as_str(), failed.conditions[0].message.as_str()),
            ("SyncFailed", "why")
        );
        assert_eq!(failed.conditions[0].last_transition_time, Some(time::format_seconds(1009)));
        assert_eq!(fail_safe(&budget(failed.clone()), "why", NOW + 10_000_000), None);
        let again = plan(&budget(failed), &pods("a b"), (2, 1), NOW + 11_000_000).status.unwrap();
        assert_eq!(again.disruptions_allowed, 1);
        let insufficient = fail_safe(&budget(Status::default()), "why", NOW).unwrap();
        let none = plan(&budget(insufficient), &pods(""), (0, 1), NOW).status.unwrap();
        assert_eq!(none.conditions[0].reason, "InsufficientPods", "the status alone does not say all");
    }

    #[test]
    fn what_is_said_of_a_disruption_gets_stale() {
        let pod = Pod { disrupted: Some(900), phase: Phase::Running, ..Pod::default() };
        assert_eq!(stale_in(&pod, NOW), Some(20_000_000));
        assert_eq!(stale_in(&pod, NOW * 2), Some(0));
        let others = [
            Pod { disrupted: None, ..pod.clone() },
            Pod { deleted: Some(1), ..pod.clone() },
            Pod { phase: Phase::Failed, ..pod },
        ];
        assert!(others.iter().all(|pod| stale_in(pod, NOW * 2).is_none()));
    }
}
