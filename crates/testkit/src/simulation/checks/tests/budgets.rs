//! PodDisruptionBudgets.

use serde_json::{Value, json};

use super::{A_WHILE, History, ready, terminating};

fn pod(uid: &str) -> Value {
    ready(json!({ "metadata": { "uid": uid, "labels": { "app": "web" } } }))
}

/// As eviction leaves it.
fn evicted(uid: &str) -> Value {
    let mut pod = terminating(pod(uid));
    let target = json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI" });
    pod["status"]["conditions"].as_array_mut().unwrap().push(target);
    pod
}

fn budget(desired: u64) -> Value {
    json!({ "spec": { "selector": { "matchLabels": { "app": "web" } } }, "status": { "desiredHealthy": desired } })
}

/// Three pods that are ready, of which two are wanted.
fn three() -> History {
    let start = History::new().put("poddisruptionbudgets/a/b", &budget(2));
    ["1", "2", "3"].iter().fold(start, |history, name| history.put(&format!("pods/a/{name}"), &pod(name)))
}

#[test]
fn an_eviction_leaves_as_many_as_are_wanted() {
    three().put("pods/a/1", &evicted("1")).stays_silent();
    let two = || three().put("pods/a/1", &evicted("1"));
    let too_few = "/registry/pods/a/2: is evicted: 1 healthy pods are left, 0 were lost, 2 wanted";
    two().put("pods/a/2", &evicted("2")).says(&[too_few]);
    // It is marked first, and deleted then.
    let mut marked = evicted("2");
    marked["metadata"]["deletionTimestamp"] = Value::Null;
    two().put("pods/a/2", &marked).put("pods/a/2", &evicted("2")).says(&[too_few]);
    two().put("pods/a/2", &marked).gone("pods/a/2").says(&[too_few]);
    // There is another by now.
    two().put("pods/a/4", &pod("4")).put("pods/a/2", &evicted("2")).stays_silent();
    // It was none of the healthy ones, or none that anybody covers.
    let mut unhealthy = pod("2");
    unhealthy["status"] = json!({});
    two().put("pods/a/2", &unhealthy).put("pods/a/2", &evicted("2")).stays_silent();
    two().put("pods/b/9", &pod("9")).put("pods/b/9", &evicted("9")).stays_silent();
}

#[test]
fn what_is_lost_is_no_eviction() {
    let lost = || three().put("pods/a/1", &terminating(pod("1")));
    lost().put("pods/a/2", &terminating(pod("2"))).stays_silent();
    // Who grants evictions may not have heard of it; but it has after a while.
    lost().put("pods/a/2", &evicted("2")).stays_silent();
    lost()
        .after(A_WHILE)
        .put("pods/a/2", &evicted("2"))
        .says(&["/registry/pods/a/2: is evicted: 1 healthy pods are left, 0 were lost, 2 wanted"]);
}

#[test]
fn what_is_wanted_may_have_changed() {
    let raised = |seconds: u64| three().put("poddisruptionbudgets/a/b", &budget(3)).after(seconds);
    raised(10).put("pods/a/1", &evicted("1")).stays_silent();
    raised(A_WHILE)
        .put("pods/a/1", &evicted("1"))
        .says(&["/registry/pods/a/1: is evicted: 2 healthy pods are left, 0 were lost, 3 wanted"]);
    raised(A_WHILE).gone("poddisruptionbudgets/a/b").put("pods/a/1", &evicted("1")).stays_silent();
}
