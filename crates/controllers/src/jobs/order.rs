//! Which pods of a Job go first when there are too many. Unlike a ReplicaSet, a Job asks neither what a pod costs nor who
//! its neighbours are, and compares times to the second.

use std::cmp::Reverse;
use std::sync::Arc;

use rkube_machinery::Text;

use crate::pods::{Phase, Pod};

/// The first to go stands first.
pub fn order(pods: &mut [Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| place(pod));
}

/// Later ones first, and before them those that nobody knows.
type Since = Option<Reverse<i64>>;

type Place = (bool, Phase, bool, Since, Reverse<(i32, i32)>, Since, Text);

fn place(pod: &Pod) -> Place {
    (
        !pod.node.is_empty(),
        pod.phase,
        pod.ready,
        pod.ready_changed.filter(|_| pod.ready).map(Reverse),
        Reverse(pod.restarts),
        pod.created.map(Reverse),
        pod.uid.clone(),
    )
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
            ready_changed: Some(NOW - 100),
            created: Some(NOW - 100),
            ..Pod::default()
        }
    }

    #[test]
    fn those_who_got_least_far_go_first() {
        // Who goes, and who stays.
        let table = [
            ("unassigned", Pod { node: "".into(), ..pod("z") }, Pod { phase: Phase::Pending, ..pod("a") }),
            ("pending", Pod { phase: Phase::Pending, ..pod("z") }, Pod { phase: Phase::Unknown, ..pod("a") }),
            ("not ready", Pod { ready: false, ..pod("z") }, pod("a")),
            ("ready for a second less", Pod { ready_changed: Some(NOW - 99), ..pod("z") }, pod("a")),
            ("ready since nobody knows", Pod { ready_changed: None, ..pod("z") }, pod("a")),
            ("more restarts", Pod { restarts: (2, 0), ..pod("z") }, Pod { restarts: (1, 7), ..pod("a") }),
            ("a second younger", Pod { created: Some(NOW - 99), ..pod("z") }, pod("a")),
            ("cheaper, which does not count", pod("a"), Pod { deletion_cost: -1, ..pod("z") }),
        ];
        for (why, goes, stays) in table {
            let (goes, stays) = (Arc::new(goes), Arc::new(stays));
            for mut pods in [vec![goes.clone(), stays.clone()], vec![stays.clone(), goes.clone()]] {
                order(&mut pods);
                assert!(Arc::ptr_eq(&pods[0], &goes), "{why}");
            }
        }
    }
}
