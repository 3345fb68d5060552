//! Nodes have room for their pods, and take pods.

use serde_json::{Value, json};

use super::{A_WHILE, History, over, owned_by};

fn pod(node: &str, cpu: &str, memory: &str) -> Value {
    let containers = json!([{ "resources": { "requests": { "cpu": cpu, "memory": memory } } }]);
    json!({ "spec": { "nodeName": node, "containers": containers } })
}

fn start() -> History {
    let allocatable = json!({ "cpu": "1", "memory": "1Gi", "pods": "3" });
    let node = json!({ "status": { "allocatable": allocatable } });
    History::new().put("minions/n", &node).put("pods/a/1", &pod("n", "600m", "600Mi"))
}

#[test]
fn a_node_has_what_fits() {
    let first = pod("n", "600m", "600Mi");
    start().put("pods/a/2", &pod("n", "400m", "424Mi")).stays_silent();
    start().put("pods/a/2", &pod("", "1", "1Gi")).put("pods/a/3", &pod("m", "1", "1Gi")).stays_silent();
    start().put("pods/a/1", &over(first.clone(), "Succeeded")).put("pods/a/2", &pod("n", "1", "1Gi")).stays_silent();
    start().gone("pods/a/1").put("pods/a/2", &pod("n", "1", "1Gi")).stays_silent();
    // What a pod is changed to is nobody's decision about the node.
    start().put("pods/a/2", &pod("n", "0", "0")).put("pods/a/2", &pod("n", "1", "1Gi")).stays_silent();
}

#[test]
fn what_does_not_fit_is_found() {
    let says = |what: &str| {
        format!("/registry/pods/a/2: node n has room for 1000m, 1073741824 bytes and 3 pods, and {what} are on it")
    };
    start().put("pods/a/2", &pod("n", "401m", "0")).says(&[&says("1001m, 629145600 bytes and 2 pods")]);
    start().put("pods/a/2", &pod("n", "0", "425Mi")).says(&[&says("600m, 1074790400 bytes and 2 pods")]);
    // It was there without a node before.
    start()
        .put("pods/a/2", &pod("", "1", "0"))
        .put("pods/a/2", &pod("n", "1", "0"))
        .says(&[&says("1600m, 629145600 bytes and 2 pods")]);
    let none = pod("n", "0", "0");
    let many = start().put("pods/a/3", &none).put("pods/a/4", &none).put("pods/a/2", &none);
    many.says(&[&says("600m, 629145600 bytes and 4 pods")]);
}

#[test]
fn a_node_that_takes_no_more_gets_no_more() {
    let room = json!({ "cpu": "1", "memory": "1Gi", "pods": "3" });
    let node = |takes_none: bool| json!({ "spec": { "unschedulable": takes_none }, "status": { "allocatable": room } });
    let cordoned =
        |seconds: u64| start().put("pods/a/2", &pod("", "0", "0")).put("minions/n", &node(true)).after(seconds);
    let bound = pod("n", "0", "0");
    cordoned(10).put("pods/a/2", &bound).stays_silent();
    let comes = "/registry/pods/a/2: comes to n, which takes no more pods";
    cordoned(A_WHILE).put("pods/a/2", &bound).says(&[comes]);
    // Who says it again says nothing new.
    cordoned(A_WHILE).put("minions/n", &node(true)).put("pods/a/2", &bound).says(&[comes]);
    // What is there stays, and some come nevertheless.
    cordoned(A_WHILE).put("pods/a/1", &pod("n", "600m", "600Mi")).stays_silent();
    let mut daemon = bound.clone();
    daemon["metadata"] = json!({ "ownerReferences": owned_by("DaemonSet", "d") });
    cordoned(A_WHILE).put("pods/a/2", &daemon).stays_silent();
    cordoned(A_WHILE).put("minions/n", &node(false)).put("pods/a/2", &bound).stays_silent();
}
