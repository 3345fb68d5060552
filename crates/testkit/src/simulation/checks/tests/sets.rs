//! ReplicaSets and Deployments.

use serde_json::{Value, json};

use super::{A_WHILE, History, over, owned_by, ready, terminating};

const REPLICA_SETS: &str = "replicaset-controller";
const DEPLOYMENTS: &str = "deployment-controller";

fn pod(uid: &str, set: &str) -> Value {
    json!({ "metadata": { "uid": uid, "ownerReferences": owned_by("ReplicaSet", set) } })
}

fn set(uid: &str, replicas: u64) -> Value {
    let metadata = json!({ "uid": uid, "ownerReferences": owned_by("Deployment", "d") });
    json!({ "metadata": metadata, "spec": { "replicas": replicas } })
}

fn deployment(replicas: u64, strategy: &Value) -> Value {
    json!({ "metadata": { "uid": "d" }, "spec": { "replicas": replicas, "strategy": strategy } })
}

fn rolling(surge: &Value, unavailable: &Value) -> Value {
    json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": surge, "maxUnavailable": unavailable } })
}

/// A ReplicaSet of two, with two.
fn two() -> History {
    let start = History::new().put("replicasets/a/s", &set("s", 2)).by(REPLICA_SETS);
    start.put("pods/a/1", &pod("1", "s")).put("pods/a/2", &pod("2", "s"))
}

#[test]
fn a_replica_set_has_as_many_pods_as_were_asked_for() {
    two().stays_silent();
    two().put("pods/a/1", &terminating(pod("1", "s"))).put("pods/a/3", &pod("3", "s")).stays_silent();
    two().put("pods/a/1", &over(pod("1", "s"), "Failed")).put("pods/a/3", &pod("3", "s")).stays_silent();
    // More were asked for a moment ago, and who makes them has not heard yet that it is less.
    let more = || two().put("replicasets/a/s", &set("s", 3)).put("replicasets/a/s", &set("s", 2));
    more().put("pods/a/3", &pod("3", "s")).stays_silent();
    let too_many = "/registry/pods/a/3: its set has 3 pods, and 2 were asked for";
    two().put("pods/a/3", &pod("3", "s")).says(&[too_many]);
    more().after(A_WHILE).put("pods/a/3", &pod("3", "s")).says(&[too_many]);
    // One that nobody had is taken in, and counts from then on.
    let taken = || two().put("pods/a/3", &json!({ "metadata": { "uid": "3" } })).put("pods/a/3", &pod("3", "s"));
    taken().stays_silent();
    taken().put("pods/a/4", &pod("4", "s")).says(&["/registry/pods/a/4: its set has 4 pods, and 2 were asked for"]);
}

#[test]
fn a_replication_controller_is_a_set_too() {
    let pod =
        |uid: &str| json!({ "metadata": { "uid": uid, "ownerReferences": owned_by("ReplicationController", "c") } });
    let set = json!({ "metadata": { "uid": "c" }, "spec": { "replicas": 1 } });
    let one = || History::new().put("controllers/a/c", &set).put("pods/a/1", &pod("1"));
    one().stays_silent();
    one().gone("pods/a/1").put("pods/a/2", &pod("2")).stays_silent();
    one().put("pods/a/2", &pod("2")).says(&["/registry/pods/a/2: its set has 2 pods, and 1 were asked for"]);
}

#[test]
fn a_pod_may_be_made_again_whose_making_was_not_acknowledged() {
    let start = || History::new().put("replicasets/a/s", &set("s", 1)).by(REPLICA_SETS).unheard();
    let (again, other) = (pod("2", "s"), pod("3", "s"));
    start().put("pods/a/1", &pod("1", "s")).put("pods/a/2", &again).stays_silent();
    // Once.
    start()
        .put("pods/a/1", &pod("1", "s"))
        .by(REPLICA_SETS)
        .put("pods/a/2", &again)
        .put("pods/a/3", &other)
        .says(&["/registry/pods/a/3: its set has 3 pods, and 1 were asked for"]);
    // Not for ever, and not by another.
    let too_many = "/registry/pods/a/2: its set has 2 pods, and 1 were asked for";
    start().put("pods/a/1", &pod("1", "s")).after(A_WHILE).put("pods/a/2", &again).says(&[too_many]);
    let elsewhere = start().put("replicasets/a/t", &set("t", 1)).put("pods/a/9", &pod("9", "t")).by(REPLICA_SETS);
    elsewhere.put("pods/a/1", &pod("1", "s")).put("pods/a/2", &again).says(&[too_many]);
}

#[test]
fn a_deployment_surges_no_more_than_it_may() {
    let start = |replicas, surge: Value| {
        let start = History::new().put("deployments/a/d", &deployment(replicas, &rolling(&surge, &json!(0))));
        start.by(DEPLOYMENTS).put("replicasets/a/old", &set("old", replicas))
    };
    let asks = |total: u64, allowed: u64| {
        format!(
            "/registry/replicasets/a/new: the ReplicaSets of its Deployment ask for {total} pods, and {allowed} are allowed"
        )
    };
    start(4, json!(1)).put("replicasets/a/new", &set("new", 1)).stays_silent();
    start(4, json!(1)).put("replicasets/a/new", &set("new", 2)).says(&[&asks(6, 5)]);
    // A part is rounded up.
    start(5, json!("25%")).put("replicasets/a/new", &set("new", 2)).stays_silent();
    start(5, json!("25%")).put("replicasets/a/new", &set("new", 3)).says(&[&asks(8, 7)]);
    let recreate = json!({ "type": "Recreate" });
    let start = || {
        let start = History::new().put("deployments/a/d", &deployment(2, &recreate)).by(DEPLOYMENTS);
        start.put("replicasets/a/old", &set("old", 2))
    };
    start().put("replicasets/a/old", &set("old", 0)).put("replicasets/a/new", &set("new", 2)).stays_silent();
    start().put("replicasets/a/new", &set("new", 1)).says(&[&asks(3, 2)]);
    // Fewer replicas were asked for, long ago.
    let fewer = || start().put("deployments/a/d", &deployment(1, &recreate));
    fewer().put("replicasets/a/old", &set("old", 0)).put("replicasets/a/new", &set("new", 2)).stays_silent();
    let late = fewer().after(A_WHILE).put("replicasets/a/old", &set("old", 0));
    late.put("replicasets/a/new", &set("new", 2)).says(&[&asks(2, 1)]);
}

/// A Deployment of three that are ready, with these bounds.
fn three(strategy: &Value) -> History {
    let start =
        History::new().put("deployments/a/d", &deployment(3, strategy)).put("replicasets/a/old", &set("old", 3));
    let start = ["1", "2", "3"]
        .iter()
        .fold(start, |history, name| history.put(&format!("pods/a/{name}"), &ready(pod(name, "old"))));
    start.after(A_WHILE).by(DEPLOYMENTS).put("replicasets/a/new", &set("new", 0))
}

#[test]
fn a_deployment_takes_no_pods_away_that_are_missed() {
    let one = rolling(&json!(0), &json!(1));
    three(&one).put("replicasets/a/old", &set("old", 2)).stays_silent();
    let misses = |pods: u64, left: u64, wanted: u64| {
        format!("/registry/replicasets/a/old: loses {pods} pods: {left} are left, and {wanted} are wanted")
    };
    three(&one).put("replicasets/a/old", &set("old", 1)).says(&[&misses(2, 1, 2)]);
    three(&one)
        .put("replicasets/a/old", &set("old", 2))
        .put("pods/a/3", &terminating(pod("3", "old")))
        .put("replicasets/a/old", &set("old", 1))
        .says(&[&misses(1, 1, 2)]);
    // The new one is ready.
    three(&one)
        .put("replicasets/a/old", &set("old", 2))
        .put("replicasets/a/new", &set("new", 1))
        .put("pods/a/4", &ready(pod("4", "new")))
        .put("replicasets/a/old", &set("old", 1))
        .stays_silent();
    let none = rolling(&json!(1), &json!(0));
    three(&none).put("replicasets/a/old", &set("old", 2)).says(&[&misses(1, 2, 3)]);
    // A user scales it.
    three(&none).put("deployments/a/d", &deployment(2, &none)).put("replicasets/a/old", &set("old", 2)).stays_silent();
    three(&json!({ "type": "Recreate" })).put("replicasets/a/old", &set("old", 0)).stays_silent();
    // Pods were lost, of which the controller may not have heard, or has.
    let lost = || three(&one).by("node-controller").put("pods/a/3", &over(pod("3", "old"), "Failed")).by(DEPLOYMENTS);
    lost().put("replicasets/a/old", &set("old", 2)).stays_silent();
    lost().after(A_WHILE).put("replicasets/a/old", &set("old", 1)).says(&[&misses(1, 1, 2)]);
}
