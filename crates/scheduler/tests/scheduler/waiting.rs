//! When pods are tried again.

use std::time::Duration;

use rkube_scheduler::core::{Bound, Step};
use serde_json::json;

use crate::support::{Driver, asking, pod_json};

const SECOND: Duration = Duration::from_secs(1);

fn priority(priority: i32) -> serde_json::Value {
    json!({ "priority": priority })
}

#[test]
fn the_more_important_and_then_the_older_is_first() {
    let mut driver = Driver::with_nodes(1);
    for (name, of) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        driver.pod(name, priority(of));
    }
    assert_eq!(driver.work(), ["b to n0", "d to n0", "a to n0", "c to n0"]);
}

#[test]
fn a_pod_that_was_refused_is_tried_when_something_could_help() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("big", asking(json!({ "cpu": "3" })));
    driver.pod("rest", asking(json!({ "cpu": "3" })));
    driver.pod("where", json!({ "nodeSelector": { "disk": "ssd" } }));
    assert_eq!(driver.work().len(), 3);
    driver.node("n0", json!({ "metadata": { "labels": { "other": "label" } } }));
    assert_eq!(driver.work(), [""; 0], "this helps nobody");
    driver.pod("more", json!({ "nodeName": "n0" }));
    assert_eq!(driver.work(), [""; 0]);
    driver.node("n0", json!({ "metadata": { "labels": { "disk": "ssd" } } }));
    assert_eq!(driver.work(), ["where to n0"]);
    driver.no_pod("big");
    assert_eq!(driver.work(), ["rest to n0"]);
}

#[test]
fn every_plugin_names_what_helps() {
    let tainted = json!({ "spec": { "taints": [{ "key": "k", "effect": "NoSchedule" }] } });
    let cordoned = json!({ "spec": { "unschedulable": true } });
    let table = [
        (tainted.clone(), json!({}), json!({}), true),
        (tainted.clone(), json!({}), json!({ "spec": { "taints": [{ "key": "j", "effect": "NoSchedule" }] } }), false),
        (cordoned, json!({}), json!({}), true),
        (json!({}), asking(json!({ "cpu": "5" })), json!({ "status": { "allocatable": { "cpu": "6" } } }), true),
        (json!({}), asking(json!({ "cpu": "5" })), json!({ "status": { "allocatable": { "memory": "16Gi" } } }), false),
        (json!({}), asking(json!({ "cpu": "5" })), json!({ "status": { "allocatable": { "cpu": "4500m" } } }), false),
    ];
    for (before, pod, after, helps) in table {
        let mut driver = Driver::new();
        driver.node("n", before);
        driver.pod("p", pod);
        driver.work();
        driver.node("n", after.clone());
        assert_eq!(driver.work().len(), usize::from(helps), "{after}");
    }
    let mut driver = Driver::new();
    driver.node("n", tainted);
    driver.pod("p", json!({}));
    driver.work();
    driver.pod("p", json!({ "tolerations": [{ "key": "k", "operator": "Exists" }] }));
    assert_eq!(driver.work(), ["p to n"], "a toleration more");
}

#[test]
fn a_gated_pod_waits_for_its_gates() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("p", json!({ "schedulingGates": [{ "name": "a" }, { "name": "b" }] }));
    driver.node("n1", json!({}));
    driver.pass(400 * SECOND);
    assert_eq!(driver.work(), [""; 0]);
    driver.pod("p", json!({ "schedulingGates": [{ "name": "b" }] }));
    assert_eq!(driver.work(), [""; 0]);
    driver.pod("p", json!({}));
    assert_eq!(driver.work().len(), 1);
}

#[test]
fn whatever_happens_it_is_tried_after_five_minutes() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("p", asking(json!({ "cpu": "9" })));
    assert_eq!(driver.work().len(), 1);
    assert_eq!(driver.core.next_deadline(), Some(driver.now + 300 * SECOND));
    driver.pass(299 * SECOND);
    assert_eq!(driver.work().len(), 0);
    driver.pass(SECOND);
    assert_eq!(driver.work().len(), 1);
}

#[test]
fn one_whose_binding_fails_waits_longer_each_time() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("p", asking(json!({ "cpu": "3" })));
    for seconds in [1, 2, 4, 8, 10, 10] {
        let Some(Step::Bind { pod, .. }) = driver.core.step(driver.now) else { panic!("it is tried") };
        assert!(driver.core.step(driver.now).is_none(), "once");
        assert!(driver.core.bound(&pod.uid, Bound::Failed, driver.now).is_some());
        assert!(driver.core.step(driver.now).is_none(), "not at once");
        assert_eq!(driver.core.next_deadline(), Some(driver.now + seconds * SECOND));
        driver.pass(seconds * SECOND);
    }
    assert_eq!(driver.work(), ["p to n0"], "nothing of the node is taken for nothing");
}

#[test]
fn what_is_written_of_a_pod_is_there_before_it_is_tried_again() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("p", json!({ "nodeSelector": { "disk": "ssd" } }));
    let refused = |driver: &mut Driver| match driver.core.step(driver.now) {
        Some(Step::Refused { pod, .. }) => pod.uid.clone(),
        _ => panic!("it is refused"),
    };
    let uid = refused(&mut driver);
    // Something helps before the write begins, or while it is under way.
    for is_before in [true, false] {
        if !is_before {
            driver.core.writing(&uid);
        }
        driver.node("n0", json!({ "metadata": { "labels": { "disk": "ssd" } } }));
        if is_before {
            driver.core.writing(&uid);
        }
        assert!(driver.core.step(driver.now).is_none() && !driver.core.has_work());
        driver.node("n0", json!({ "metadata": { "labels": { "disk": "hdd" } } }));
        driver.core.written(&uid, driver.now);
        assert_eq!(refused(&mut driver), uid, "it was helped once, so it is tried");
    }
    driver.core.writing(&uid);
    driver.core.written(&uid, driver.now);
    assert!(driver.core.step(driver.now).is_none(), "nothing helped");
    driver.node("n0", json!({ "metadata": { "labels": { "disk": "ssd" } } }));
    assert_eq!(driver.work(), ["p to n0"]);
    // One that is gone meanwhile is gone.
    driver.pod("q", json!({ "nodeSelector": { "disk": "none" } }));
    let uid = refused(&mut driver);
    driver.core.writing(&uid);
    driver.no_pod("q");
    driver.core.written(&uid, driver.now);
    assert!(driver.core.step(driver.now).is_none());
}

#[test]
fn a_pod_on_its_way_counts_until_it_is_known_to_have_failed() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("a", asking(json!({ "cpu": "3" })));
    driver.pod("b", asking(json!({ "cpu": "3" })));
    let Some(Step::Bind { pod, .. }) = driver.core.step(driver.now) else { panic!("it is tried") };
    assert!(matches!(driver.core.step(driver.now), Some(Step::Refused { .. })));
    driver.core.bound(&pod.uid, Bound::Done, driver.now);
    driver.pass(1000 * SECOND);
    assert!(matches!(driver.core.step(driver.now), Some(Step::Refused { .. })), "though the API has not shown it yet");
    // The API shows it as it was before, and then gone.
    driver.pod("a", asking(json!({ "cpu": "3" })));
    assert!(driver.core.step(driver.now).is_none());
    driver.no_pod("a");
    assert_eq!(driver.work(), ["b to n0"]);
}

#[test]
fn what_others_bind_is_not_tried() {
    let mut driver = Driver::with_nodes(2);
    driver.pod("p", json!({}));
    driver.pod("p", json!({ "nodeName": "n1" }));
    driver.pod("q", json!({ "schedulerName": "another" }));
    assert_eq!(driver.work(), [""; 0]);
    // While ours is on its way, another one was faster.
    driver.pod("r", json!({}));
    let Some(Step::Bind { pod, .. }) = driver.core.step(driver.now) else { panic!("it is tried") };
    driver.pod("r", json!({ "nodeName": "n0" }));
    assert!(driver.core.bound(&pod.uid, Bound::Failed, driver.now).is_none());
    driver.core.snapshot().check().unwrap();
    assert_eq!(driver.work(), [""; 0]);
}

#[test]
fn one_that_is_deleted_is_not_tried() {
    let mut driver = Driver::with_nodes(1);
    let mut pod = pod_json("p", json!({}));
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    driver.object(&pod);
    assert_eq!(driver.work(), ["p is deleted"]);
}

#[test]
fn one_of_the_same_name_is_another_pod() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("p", asking(json!({ "cpu": "3", "memory": "1Gi" })));
    assert_eq!(driver.work(), ["p to n0"]);
    let mut other = pod_json("p", asking(json!({ "cpu": "3" })));
    other["metadata"]["uid"] = json!("another");
    driver.object(&other);
    assert_eq!(driver.work(), ["p to n0"], "the first one has gone, with what it took");
}

#[test]
fn a_node_that_comes_back_has_its_pods() {
    let mut driver = Driver::with_nodes(1);
    driver.pod("a", asking(json!({ "cpu": "3" })));
    driver.work();
    driver.no_node("n0");
    driver.pod("b", asking(json!({ "cpu": "3" })));
    assert_eq!(driver.work(), ["b: no nodes available to schedule pods"]);
    driver.node("n0", json!({}));
    assert!(driver.work()[0].starts_with("b: 0/1 nodes are available: 1 Insufficient cpu."));
}
