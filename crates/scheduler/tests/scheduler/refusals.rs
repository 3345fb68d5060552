//! What is said of pods that no node would have, in upstream's words.

use serde_json::{Value, json};

use crate::support::{Driver, asking};

const NOT_HELPFUL: &str =
    "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
const NO_VICTIMS: &str =
    "no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";

/// Two nodes like this, and a pod like that.
fn refused(node: Value, pod: Value) -> String {
    let mut driver = Driver::new();
    driver.node("n0", node.clone());
    driver.node("n1", node);
    driver.pod("p", pod);
    let mut done = driver.work();
    assert_eq!(done.len(), 1, "{done:?}");
    done.pop().and_then(|done| done.strip_prefix("p: ").map(str::to_owned)).unwrap_or_default()
}

#[test]
fn every_filter_has_its_words() {
    let affinity = |terms: Value| {
        json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
        } } })
    };
    let named = |name: &str| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [name] }] });
    let both = json!({ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": ["n0"] },
        { "key": "metadata.name", "operator": "In", "values": ["n1"] },
    ] });
    let gpu = json!({ "resources": { "requests": { "example.com/gpu": "2" } }, "name": "c" });
    let table = [
        (json!({ "spec": { "unschedulable": true } }), json!({}), "2 node(s) were unschedulable.", NOT_HELPFUL),
        (
            json!({ "spec": { "taints": [{ "key": "k", "value": "v", "effect": "NoExecute" }] } }),
            json!({ "tolerations": [{ "key": "k", "operator": "Equal", "value": "w" }] }),
            "2 node(s) had untolerated taint(s).",
            NOT_HELPFUL,
        ),
        (
            json!({}),
            json!({ "nodeSelector": { "no": "where" } }),
            "2 node(s) didn't match Pod's node affinity/selector.",
            NOT_HELPFUL,
        ),
        (json!({}), affinity(json!([both])), "pod affinity terms conflict.", "not found"),
        (
            json!({}),
            affinity(json!([named("other")])),
            "2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            NOT_HELPFUL,
        ),
        (json!({}), asking(json!({ "cpu": "5" })), "2 Insufficient cpu.", NOT_HELPFUL),
        (json!({}), json!({ "containers": [gpu] }), "2 Insufficient example.com/gpu.", NOT_HELPFUL),
        (
            json!({ "status": { "allocatable": { "pods": "0" } } }),
            asking(json!({ "memory": "9Gi", "ephemeral-storage": "1" })),
            "2 Insufficient ephemeral-storage, 2 Insufficient memory, 2 Too many pods.",
            NOT_HELPFUL,
        ),
        (json!({ "status": { "allocatable": { "pods": "0" } } }), json!({}), "2 Too many pods.", NO_VICTIMS),
        (
            json!({ "status": { "allocatable": { "pods": "0" } } }),
            json!({ "preemptionPolicy": "Never" }),
            "2 Too many pods.",
            "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
        ),
    ];
    for (node, pod, why, outlook) in table {
        assert_eq!(refused(node, pod), format!("0/2 nodes are available: {why} {outlook}"));
    }
}

#[test]
fn a_node_is_refused_by_the_first_that_does_not_want_it() {
    let mut driver = Driver::with_nodes(1);
    driver.node("n1", json!({ "spec": { "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] } }));
    driver.node("n2", json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } }));
    driver.pod("p", asking(json!({ "cpu": "8" })));
    let outlook = NOT_HELPFUL.replace('2', "3");
    let why = "1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.";
    assert_eq!(driver.work(), [format!("p: 0/3 nodes are available: {why} {outlook}")]);
}

#[test]
fn where_it_would_help_that_others_went_nothing_is_said_of_it() {
    let mut driver = Driver::with_nodes(2);
    for (name, node) in [("low", "n0"), ("same", "n1")] {
        let mut spec = asking(json!({ "cpu": "3" }));
        spec["priority"] = json!(if name == "low" { 1 } else { 5 });
        spec["nodeName"] = json!(node);
        driver.pod(name, spec);
    }
    let mut spec = asking(json!({ "cpu": "2" }));
    spec["priority"] = json!(5);
    driver.pod("p", spec.clone());
    assert_eq!(driver.work(), ["p: 0/2 nodes are available: 2 Insufficient cpu."]);
    // One that stays takes too much as well.
    let mut stays = asking(json!({ "cpu": "1" }));
    stays["priority"] = json!(9);
    stays["nodeName"] = json!("n0");
    driver.pod("stays", stays);
    driver.no_pod("p");
    spec["containers"][0]["resources"]["requests"]["cpu"] = json!("3500m");
    driver.pod("q", spec);
    let outlook = "no new claims to deallocate, preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod.";
    assert_eq!(driver.work(), [format!("q: 0/2 nodes are available: 2 Insufficient cpu. {outlook}")]);
}

#[test]
fn without_nodes_there_is_one_thing_to_say() {
    let mut driver = Driver::new();
    driver.pod("p", json!({}));
    assert_eq!(driver.work(), ["p: no nodes available to schedule pods"]);
    driver.node("n", json!({}));
    assert_eq!(driver.work(), ["p to n"], "as soon as there is one");
}

#[test]
fn of_many_that_are_alike_each_is_told_what_holds_for_it() {
    let mut driver = Driver::with_nodes(1);
    for name in ["a", "b", "c"] {
        driver.pod(name, asking(json!({ "cpu": "3" })));
    }
    driver.pod("d", asking(json!({ "cpu": "3", "memory": "9Gi" })));
    driver.pod("e", asking(json!({ "cpu": "3" })));
    let done = driver.work();
    assert_eq!(done[0], "a to n0");
    let why: Vec<&str> = done[1..].iter().map(|done| done.split(['.', ':']).nth(2).unwrap()).collect();
    assert_eq!(
        why,
        [
            " 1 Insufficient cpu",
            " 1 Insufficient cpu",
            " 1 Insufficient cpu, 1 Insufficient memory",
            " 1 Insufficient cpu"
        ]
    );
    driver.no_pod("a");
    let done = driver.work();
    assert_eq!((done.len(), done[0].as_str()), (4, "b to n0"), "what was known is forgotten when something changes");
}
