//! StatefulSets.

use serde_json::{Value, json};

use super::{A_WHILE, History, owned_by, ready, terminating};

const CONTROLLER: &str = "statefulset-controller";

fn pod(uid: &str) -> Value {
    json!({ "metadata": { "uid": uid, "ownerReferences": owned_by("StatefulSet", "s") } })
}

fn set(policy: &str, start: u64, replicas: u64) -> Value {
    let spec = json!({ "replicas": replicas, "podManagementPolicy": policy, "ordinals": { "start": start } });
    json!({ "metadata": { "uid": "s" }, "spec": spec })
}

/// Three pods that are ready, from number 0 on, of which so many are asked for by now.
fn three(policy: &str, replicas: u64) -> History {
    let start = History::new().put("statefulsets/a/db", &set(policy, 0, replicas.max(3))).by(CONTROLLER);
    let three = ["0", "1", "2"].iter().fold(start, |history, ordinal| {
        history
            .put(&format!("pods/a/db-{ordinal}"), &pod(ordinal))
            .put(&format!("pods/a/db-{ordinal}"), &ready(pod(ordinal)))
    });
    three.put("statefulsets/a/db", &set(policy, 0, replicas)).after(A_WHILE)
}

#[test]
fn pods_come_one_after_the_other() {
    three("OrderedReady", 3).stays_silent();
    let start = |policy| History::new().put("statefulsets/a/db", &set(policy, 0, 3)).by(CONTROLLER);
    start("Parallel").put("pods/a/db-1", &pod("1")).stays_silent();
    let early = "/registry/pods/a/db-1: is made while number 0 is not ready";
    start("OrderedReady").put("pods/a/db-1", &pod("1")).says(&[early]);
    start("OrderedReady").put("pods/a/db-0", &pod("0")).put("pods/a/db-1", &pod("1")).says(&[early]);
    // The first number is another.
    let from_one = || History::new().put("statefulsets/a/db", &set("OrderedReady", 1, 3)).by(CONTROLLER);
    from_one().put("pods/a/db-1", &pod("1")).stays_silent();
    // One was ready a moment ago.
    let lost = |seconds| three("OrderedReady", 4).by_users().gone("pods/a/db-1").by(CONTROLLER).after(seconds);
    lost(10).put("pods/a/db-3", &pod("3")).stays_silent();
    lost(A_WHILE).put("pods/a/db-3", &pod("3")).says(&["/registry/pods/a/db-3: is made while number 1 is not ready"]);
}

#[test]
fn pods_go_from_the_top() {
    three("OrderedReady", 2).put("pods/a/db-2", &terminating(pod("2"))).stays_silent();
    let goes = |ordinal: u64, above: u64| {
        format!("/registry/pods/a/db-{ordinal}: is deleted while number {above} is there, or not ready")
    };
    three("OrderedReady", 1).put("pods/a/db-1", &terminating(pod("1"))).says(&[&goes(1, 2)]);
    three("Parallel", 1).put("pods/a/db-1", &terminating(pod("1"))).stays_silent();
    // The one above is still about to go.
    let going = || three("OrderedReady", 1).put("pods/a/db-2", &terminating(pod("2")));
    going().put("pods/a/db-1", &terminating(pod("1"))).says(&[&goes(1, 2)]);
    going().gone("pods/a/db-2").put("pods/a/db-1", &terminating(pod("1"))).stays_silent();
    // Whom others delete is theirs to say.
    three("OrderedReady", 1).by_users().put("pods/a/db-1", &terminating(pod("1"))).stays_silent();
}

#[test]
fn one_pod_at_a_time_is_updated() {
    // It replaces number 2, and at once number 1.
    let replaced = || three("OrderedReady", 3).put("pods/a/db-2", &terminating(pod("2")));
    let early = "/registry/pods/a/db-1: is deleted while number 2 is there, or not ready";
    replaced().put("pods/a/db-1", &terminating(pod("1"))).says(&[early]);
    let again = || replaced().gone("pods/a/db-2").put("pods/a/db-2", &pod("2b"));
    again().put("pods/a/db-1", &terminating(pod("1"))).says(&[early]);
    again().put("pods/a/db-2", &ready(pod("2b"))).put("pods/a/db-1", &terminating(pod("1"))).stays_silent();
    // Somebody else's doing, of which it may not have heard.
    let lost =
        |seconds| three("OrderedReady", 3).by_users().put("pods/a/db-2", &pod("2")).by(CONTROLLER).after(seconds);
    lost(10).put("pods/a/db-1", &terminating(pod("1"))).stays_silent();
    lost(A_WHILE).put("pods/a/db-1", &terminating(pod("1"))).says(&[early]);
}

#[test]
fn no_pod_is_made_that_is_not_asked_for() {
    let start = |policy| History::new().put("statefulsets/a/db", &set(policy, 1, 2)).by(CONTROLLER);
    start("Parallel").put("pods/a/db-2", &pod("2")).put("pods/a/db-1", &pod("1")).stays_silent();
    let beyond = |ordinal: u64| format!("/registry/pods/a/db-{ordinal}: is made, and only 1..3 are asked for");
    start("Parallel").put("pods/a/db-3", &pod("3")).says(&[&beyond(3)]);
    start("Parallel").put("pods/a/db-0", &pod("0")).says(&[&beyond(0)]);
    start("OrderedReady").put("pods/a/db-0", &pod("0")).says(&[&beyond(0)]);
    // It was asked for a moment ago.
    let scaled = |seconds| start("Parallel").put("statefulsets/a/db", &set("Parallel", 1, 1)).after(seconds);
    scaled(10).put("pods/a/db-2", &pod("2")).stays_silent();
    scaled(A_WHILE)
        .put("pods/a/db-2", &pod("2"))
        .says(&["/registry/pods/a/db-2: is made, and only 1..2 are asked for"]);
    let moved = |seconds| start("Parallel").put("statefulsets/a/db", &set("Parallel", 2, 2)).after(seconds);
    moved(10).put("pods/a/db-1", &pod("1")).stays_silent();
    moved(A_WHILE).put("pods/a/db-1", &pod("1")).says(&["/registry/pods/a/db-1: is made, and only 2..4 are asked for"]);
    // What is not asked for any more goes from the top, too, on both sides.
    let four = || three("OrderedReady", 4).put("pods/a/db-3", &ready(pod("3")));
    let moved = || four().put("statefulsets/a/db", &set("OrderedReady", 1, 2));
    moved()
        .put("pods/a/db-3", &terminating(pod("3")))
        .gone("pods/a/db-3")
        .put("pods/a/db-0", &terminating(pod("0")))
        .stays_silent();
    moved()
        .put("pods/a/db-0", &terminating(pod("0")))
        .says(&["/registry/pods/a/db-0: is deleted while number 3 is there, or not ready"]);
}
