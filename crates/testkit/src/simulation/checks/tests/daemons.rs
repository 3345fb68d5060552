//! DaemonSets.

use serde_json::{Value, json};

use super::{A_WHILE, History, owned_by, ready, terminating};

const CONTROLLER: &str = "daemon-set-controller";
const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// For a node, with a template.
fn pod(uid: &str, node: &str, revision: &str) -> Value {
    let term = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
    json!({
        "metadata": {
            "uid": uid, "ownerReferences": owned_by("DaemonSet", "s"), "labels": { "controller-revision-hash": revision },
        },
        "spec": { "affinity": { "nodeAffinity": required } },
    })
}

fn set(bounds: &Value) -> Value {
    json!({
        "metadata": { "uid": "s" },
        "spec": { "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": bounds } },
        "status": { "desiredNumberScheduled": NODES.len() },
    })
}

fn unavailable(most: &Value) -> Value {
    json!({ "maxSurge": 0, "maxUnavailable": most })
}

fn surge(most: &Value) -> Value {
    json!({ "maxSurge": most, "maxUnavailable": 0 })
}

/// Each of four nodes has a pod with the first template that is ready.
fn four(bounds: &Value) -> History {
    let start = NODES.iter().fold(History::new(), |history, node| history.put(&format!("minions/{node}"), &json!({})));
    let start = start.put("daemonsets/x/s", &set(bounds)).by(CONTROLLER);
    let four = NODES.iter().fold(start, |history, node| {
        let (key, pod) = (format!("pods/x/{node}-1"), pod(node, node, "one"));
        history.put(&key, &pod).put(&key, &ready(pod))
    });
    four.after(A_WHILE)
}

/// The controller deletes the first pod of a node.
fn take(history: History, node: &str) -> History {
    history.put(&format!("pods/x/{node}-1"), &terminating(pod(node, node, "one")))
}

/// The controller makes a pod with the second template.
fn make(history: History, node: &str) -> History {
    history.put(&format!("pods/x/{node}-2"), &pod(&format!("{node}2"), node, "two"))
}

fn makes_ready(history: History, node: &str) -> History {
    history.put(&format!("pods/x/{node}-2"), &ready(pod(&format!("{node}2"), node, "two")))
}

#[test]
fn a_node_has_one_pod() {
    let one = unavailable(&json!(1));
    make(take(four(&one), "a").gone("pods/x/a-1"), "a").stays_silent();
    // What goes is not waited for.
    make(take(four(&one), "a"), "a").stays_silent();
    let beside = "/registry/pods/x/a-2: is made for a, and /registry/pods/x/a-1 is there";
    make(four(&one), "a").says(&[beside]);
    // Even one that may surge makes no two with the same template.
    let same = |history: History| history.put("pods/x/a-2", &pod("a2", "a", "one"));
    same(four(&surge(&json!(1)))).says(&[beside]);
    // The first was made without the controller being told.
    let start = || History::new().put("minions/a", &json!({})).put("daemonsets/x/s", &set(&one)).by(CONTROLLER);
    let first = |history: History| history.put("pods/x/a-1", &pod("a", "a", "one"));
    same(first(start().unheard()).by(CONTROLLER)).stays_silent();
    same(first(start()).by(CONTROLLER)).says(&[beside]);
}

#[test]
fn no_more_pods_are_taken_away_than_may_be_missing() {
    let taken = |node: &str, left: u64, most: u64| {
        format!("/registry/pods/x/{node}-1: is taken away: {left} nodes of 4 are left, and {most} may do without")
    };
    let (one, two, half) = (unavailable(&json!(1)), unavailable(&json!(2)), unavailable(&json!("30%")));
    take(four(&one), "a").stays_silent();
    take(take(four(&one), "a"), "b").says(&[&taken("b", 2, 1)]);
    for bounds in [two, half] {
        take(take(four(&bounds), "a"), "b").stays_silent();
        take(take(take(four(&bounds), "a"), "b"), "c").says(&[&taken("c", 1, 2)]);
    }
    // The new one is not ready yet, or is.
    let made = || make(take(four(&one), "a").gone("pods/x/a-1"), "a");
    take(made(), "b").says(&[&taken("b", 2, 1)]);
    take(makes_ready(made(), "a"), "b").stays_silent();
    // One ceased to be ready: the controller may not have heard of it, or has.
    let lost = |seconds| {
        four(&one).by("node-controller").put("pods/x/a-1", &pod("a", "a", "one")).by(CONTROLLER).after(seconds)
    };
    take(lost(10), "b").stays_silent();
    take(lost(A_WHILE), "b").says(&[&taken("b", 2, 1)]);
    // That one itself goes any time.
    take(take(lost(A_WHILE), "a"), "b").says(&[&taken("b", 2, 1)]);
    take(take(four(&one), "b").by("node-controller").put("pods/x/a-1", &pod("a", "a", "one")).by(CONTROLLER), "a")
        .stays_silent();
    // One was deleted by a user: likewise.
    let deleted = |seconds| take(four(&one).by_users(), "a").gone("pods/x/a-1").by(CONTROLLER).after(seconds);
    take(deleted(10), "b").stays_silent();
    take(deleted(A_WHILE), "b").says(&[&taken("b", 2, 1)]);
    // One has no pod, and then is no node that the set is to be on.
    let tainted =
        json!({ "spec": { "taints": [{ "key": "node.kubernetes.io/unreachable", "effect": "NoSchedule" }] } });
    let without = || four(&one).by_users().gone("pods/x/a-1").after(A_WHILE).by(CONTROLLER);
    take(without(), "b").says(&[&taken("b", 2, 1)]);
    take(without().put("minions/a", &tainted), "b").stays_silent();
    // There are fewer nodes.
    take(take(four(&one).by_users().gone("minions/d").by(CONTROLLER), "a"), "d").stays_silent();
    // Whom others delete is theirs to say.
    take(take(four(&one).by_users(), "a"), "b").stays_silent();
}

#[test]
fn surging_pods_are_no_more_than_may_be() {
    let one = surge(&json!(1));
    make(four(&one), "a").stays_silent();
    let beside = |node: &str, surged: u64, most: u64| {
        format!("/registry/pods/x/{node}-2: is the {surged}. pod beside an old one, and {most} are allowed")
    };
    make(make(four(&one), "a"), "b").says(&[&beside("b", 2, 1)]);
    let half = surge(&json!("50%"));
    make(make(four(&half), "a"), "b").stays_silent();
    make(make(make(four(&half), "a"), "b"), "c").says(&[&beside("c", 3, 2)]);
    // The first is ready.
    make(makes_ready(make(four(&one), "a"), "a"), "b").stays_silent();
    // One that does not work is replaced at once.
    let broken = four(&one).by("node-controller").put("pods/x/b-1", &pod("b", "b", "one")).by(CONTROLLER);
    make(make(broken, "a"), "b").stays_silent();
    // The old one goes when the new one is ready, and not before.
    take(makes_ready(make(four(&one), "a"), "a"), "a").stays_silent();
    take(make(four(&one), "a"), "a")
        .says(&["/registry/pods/x/a-1: is taken away: 3 nodes of 4 are left, and 0 may do without"]);
}
