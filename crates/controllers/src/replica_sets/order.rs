//! Which pods go first when there are too many: those that will be missed least.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use rkube_machinery::Text;

use crate::pods::{Phase, Pod};

/// The first to go stands first. `related` are all pods of the same application: of those the pods that stand together
/// on a node go before those that stand alone.
pub fn order(pods: &mut [Arc<Pod>], related: &[Arc<Pod>], now_micros: i64) {
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(&pod.node).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| place(pod, on_node.get(pod.node.as_str()).copied().unwrap_or(0), now_micros));
}

/// Upstream compares two pods whose times lie in the same power of two by their uids only, and others by what follows,
/// too, which is no order. Here the uid comes last.
type Place = (bool, Phase, bool, i32, Reverse<usize>, Age, Reverse<(i32, i32)>, Age, Text);

fn place(pod: &Pod, neighbours: usize, now_micros: i64) -> Place {
    (
        !pod.node.is_empty(),
        pod.phase,
        pod.ready,
        pod.deletion_cost,
        Reverse(neighbours),
        if pod.ready { age(pod.ready_changed, now_micros) } else { None },
        Reverse(pod.restarts),
        age(pod.created, now_micros),
        pod.uid.clone(),
    )
}

/// The power of two of nanoseconds that have passed; None for a time that is not known.
type Age = Option<i64>;

fn age(since_seconds: Option<i64>, now_micros: i64) -> Age {
    let since = since_seconds?;
    let passed = now_micros.saturating_sub(since.saturating_mul(1_000_000)).saturating_mul(1000);
    Some(u64::try_from(passed).ok().and_then(u64::checked_ilog2).map_or(-1, i64::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    /// A pod that runs, and has been ready for long.
    fn pod(uid: &str) -> Pod {
        Pod {
            uid: uid.into(),
            node: "a".into(),
            phase: Phase::Running,
            ready: true,
            ready_changed: Some(NOW - 1000),
            created: Some(NOW - 1000),
            ..Pod::default()
        }
    }

    #[test]
    fn those_who_will_be_missed_least_go_first() {
        // Who goes, and who stays.
        let table = [
            ("unassigned", Pod { node: "".into(), ..pod("z") }, Pod { phase: Phase::Pending, ..pod("a") }),
            ("pending", Pod { phase: Phase::Pending, ..pod("z") }, Pod { phase: Phase::Unknown, ..pod("a") }),
            ("unknown", Pod { phase: Phase::Unknown, ..pod("z") }, Pod { ready: false, ..pod("a") }),
            ("not ready", Pod { ready: false, deletion_cost: 9, ..pod("z") }, pod("a")),
            ("cheaper", Pod { deletion_cost: -1, ..pod("z") }, Pod { restarts: (5, 5), ..pod("a") }),
            (
                "ready for less time",
                Pod { ready_changed: Some(NOW - 10), ..pod("z") },
                Pod { restarts: (5, 5), ..pod("a") },
            ),
            ("ready since nobody knows", Pod { ready_changed: None, ..pod("z") }, pod("a")),
            ("more restarts", Pod { restarts: (2, 0), ..pod("z") }, Pod { restarts: (1, 7), ..pod("a") }),
            ("more restarts of sidecars", Pod { restarts: (1, 2), ..pod("z") }, Pod { restarts: (1, 1), ..pod("a") }),
            ("younger", Pod { created: Some(NOW - 10), ..pod("z") }, pod("a")),
            ("about as old", pod("a"), Pod { created: Some(NOW - 999), ..pod("z") }),
        ];
        for (why, goes, stays) in table {
            let (goes, stays) = (Arc::new(goes), Arc::new(stays));
            for mut pods in [vec![goes.clone(), stays.clone()], vec![stays.clone(), goes.clone()]] {
                order(&mut pods, &[], NOW * 1_000_000);
                assert!(Arc::ptr_eq(&pods[0], &goes), "{why}");
            }
        }
    }

    #[test]
    fn pods_with_neighbours_go_before_lone_ones() {
        let on = |uid: &str, node: &str| Arc::new(Pod { node: node.into(), ..pod(uid) });
        let mut pods = vec![on("1", "lone"), on("2", "full"), on("3", "full"), on("4", "two")];
        let mut related = pods.clone();
        related.extend([on("5", "full"), on("6", "two")]);
        related.push(Arc::new(Pod { phase: Phase::Failed, ..(*on("7", "lone")).clone() }));
        order(&mut pods, &related, NOW * 1_000_000);
        let uids: Vec<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        assert_eq!(uids, ["2", "3", "4", "1"]);
    }
}
