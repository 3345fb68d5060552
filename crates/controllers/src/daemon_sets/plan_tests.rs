//! Tables of what is planned for DaemonSets and their pods.

use std::sync::Arc;

use rkube_operator::Item;
use serde_json::{Value, json};

use crate::daemon_sets::backoff::Backoffs;
use crate::daemon_sets::plan::{self, Look, Plan};
use crate::daemon_sets::view::DaemonSet;
use crate::history::REVISION_HASH;
use crate::metadata::Labels;
use crate::nodes::{Node, Taint};
use crate::pods::{Phase, Pod};

const NOW: i64 = 1_000_000_000;

fn set(spec: &Value) -> DaemonSet {
    let json = json!({ "metadata": {}, "spec": spec }).to_string().into();
    DaemonSet::read(&Item { namespace: "n".into(), name: "d".into(), uid: "u".into(), revision: 1, json }).unwrap()
}

/// Nodes by a letter each; one with a mark has a taint: `!` nobody may come, `x` nobody may stay.
fn nodes(text: &str) -> Vec<Arc<Node>> {
    let node = |word: &str| {
        let effect = match &word[1..] {
            "!" => Some("NoSchedule"),
            "x" => Some("NoExecute"),
            _ => None,
        };
        let taint = |effect: &str| Taint { key: "k".into(), value: "".into(), effect: effect.into() };
        Arc::new(Node { name: word[..1].into(), taints: effect.map(taint).into_iter().collect(), ..Node::default() })
    };
    text.split_whitespace().map(node).collect()
}

/// Pods as `ar`: the node and the state: ready, pending, terminating, failed, unscheduled; in capitals those of the new
/// revision.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |(place, word): (usize, &str)| {
        let (node, state) = word.split_at(1);
        let hash = if state.chars().all(char::is_uppercase) { "new" } else { "old" };
        let state = state.to_lowercase();
        Arc::new(Pod {
            name: word.into(),
            node: if state == "u" { "".into() } else { node.into() },
            target: node.into(),
            created: i64::try_from(place).ok(),
            labels: Labels::new([(REVISION_HASH.into(), hash.into())]).shared(),
            phase: match state.as_str() {
                "p" | "u" => Phase::Pending,
                "f" => Phase::Failed,
                _ => Phase::Running,
            },
            ready: state == "r",
            ready_changed: Some(0),
            deleted: (state == "t").then_some(5),
            ..Pod::default()
        })
    };
    text.split_whitespace().enumerate().map(pod).collect()
}

fn told(plan: &Plan) -> String {
    let created = plan.create.iter().map(|node| format!("+{node}"));
    let deleted = plan.delete.iter().map(|pod| format!("-{}", pod.name));
    created.chain(deleted).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_node_has_its_daemon() {
    let plain = set(&json!({}));
    let surging = set(&json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } } }));
    let table = [
        (&plain, "a b", "", "+a +b"),
        (&plain, "a b! cx", "", "+a"),
        (&plain, "a b! cx", "aR bR cR", "-cR"),
        (&plain, "a", "aR aP", "-aP"),
        (&plain, "a", "aU aR", "-aU"),
        (&plain, "a", "aF", "-aF"),
        (&plain, "a", "aT", ""),
        (&surging, "a", "aT", "+a"),
        (&surging, "a", "aR ar", "-ar"),
        (&surging, "a", "aP ar", ""),
        (&surging, "a", "aP ap", "-ap"),
        (&surging, "a", "aP aP ar ar", "-aP -ar"),
        (&plain, "a", "aR bU cR", "-bU"),
    ];
    for (set, there, running, expected) in table {
        let look = Look::new(set, "new", &nodes(there), &pods(running), NOW);
        assert_eq!(told(&plan::manage(&look, &mut Backoffs::default())), expected, "{there} / {running}");
    }
}

#[test]
fn a_daemon_that_failed_again_waits() {
    let (plain, mut backoffs) = (set(&json!({})), Backoffs::default());
    let (nodes, pods) = (nodes("a"), pods("aF"));
    let look = Look::new(&plain, "new", &nodes, &pods, NOW);
    let first = plan::manage(&look, &mut backoffs);
    assert_eq!(first.told.len(), 1);
    assert_eq!(first.told[0].2, "Found failed daemon pod /aF on node a, will try to kill it");
    let again = plan::manage(&look, &mut backoffs);
    assert!(again.is_empty() && again.retry.is_some());
}

#[test]
fn rollouts_keep_to_their_bounds() {
    let rolling = |surge: Value, unavailable: Value| {
        set(&json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } } }))
    };
    let (one, half) = (rolling(0.into(), 1.into()), rolling(0.into(), "50%".into()));
    let surging = rolling(1.into(), 0.into());
    let by_hand = set(&json!({ "updateStrategy": { "type": "OnDelete" } }));
    let table = [
        (&one, "a b c d", "ar br cr dr", "-ar"),
        (&one, "a b c d", "aR br cr dr", "-br"),
        (&one, "a b c d", "aP br cr dr", ""),
        (&one, "a b c d", "ap bP cr dr", "-ap"),
        (&one, "a b c d", "aT br cr dr", ""),
        (&one, "a b c d", "br cr dr", ""),
        (&half, "a b c d", "ar br cr dr", "-ar -br"),
        (&one, "a b", "aR bR", ""),
        (&by_hand, "a b", "ar br", ""),
        (&surging, "a b c", "ar br cr", "+a"),
        (&surging, "a b c", "aP ar br cr", ""),
        (&surging, "a b c", "aR ar br cr", "+b -ar"),
        (&surging, "a b", "ap br", "+a +b"),
        (&surging, "a! b", "ar br", "+b -ar"),
    ];
    for (set, there, running, expected) in table {
        let look = Look::new(set, "new", &nodes(there), &pods(running), NOW);
        assert_eq!(told(&plan::roll(&look)), expected, "{there} / {running}");
    }
}

#[test]
fn the_status_counts_nodes() {
    let plain = set(&json!({}));
    let look = Look::new(&plain, "new", &nodes("a b c d!"), &pods("aR br dR"), NOW);
    let status = plan::status(&look);
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (3, 2));
    assert_eq!((status.number_misscheduled, status.updated_number_scheduled), (1, 1));
    assert_eq!((status.number_ready, status.number_available, status.number_unavailable), (2, 2, 1));
}
