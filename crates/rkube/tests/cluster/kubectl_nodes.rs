//! What people do with nodes by `kubectl`: cordon, drain and taint them, and find out why a pod has none.

use rkube_testkit::{Tool, eventually};

use crate::kubectl_rollout::start_with_nodes;

fn nodes_of_pods(kubectl: &Tool) -> Vec<String> {
    let nodes = kubectl.run(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"]).stdout;
    nodes.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn nodes_are_emptied_and_kept_empty() {
    let rkube = start_with_nodes();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["get", "nodes"]).says("sim-0").says("Ready").says("v1.36");
    let ranges = kubectl.run(&["get", "nodes", "-o", "jsonpath={.items[*].spec.podCIDR}"]).stdout;
    let mut ranges: Vec<&str> = ranges.split_whitespace().collect();
    ranges.sort();
    ranges.dedup();
    assert_eq!(ranges.len(), 3, "each node has addresses of its own: {ranges:?}");

    kubectl.run(&["cordon", "sim-0"]).says("cordoned");
    kubectl.run(&["get", "node", "sim-0"]).says("SchedulingDisabled");
    kubectl.run(&["create", "deployment", "web", "--image=nginx", "--replicas=4"]);
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert!(!nodes_of_pods(&kubectl).contains(&"sim-0".to_owned()));
    kubectl.run(&["top", "node"]).says("CPU(cores)").says("sim-2");
    let used = kubectl.run(&["top", "pod", "-l", "app=web", "--no-headers"]).stdout;
    assert_eq!(used.lines().count(), 4, "{used}");
    kubectl.run(&["uncordon", "sim-0"]);
    kubectl.run(&["drain", "sim-1", "--ignore-daemonsets", "--timeout=60s"]).says("evicted").says("node/sim-1 drained");
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    assert!(!nodes_of_pods(&kubectl).contains(&"sim-1".to_owned()));

    kubectl.run(&["taint", "nodes", "sim-0", "sim-2", "only=others:NoSchedule"]).says("tainted");
    kubectl.run(&["run", "late", "--image=nginx"]);
    eventually("it is said why a pod has no node", || {
        let described = kubectl.run(&["describe", "pod", "late"]).stdout;
        let said = described.contains("FailedScheduling") && described.contains("0/3 nodes are available: ");
        if said && described.contains("untolerated taint") { Ok(()) } else { Err(described) }
    });
    kubectl.run(&["taint", "nodes", "sim-0", "only-"]).says("untainted");
    kubectl.run(&["wait", "pod/late", "--for=condition=Ready", "--timeout=60s"]);
    kubectl.run(&["get", "pod", "late", "-o", "wide"]).says("sim-0");
}

#[test]
fn a_drain_keeps_a_budget() {
    let rkube = start_with_nodes();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "deployment", "web", "--image=nginx", "--replicas=6"]);
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    kubectl.run(&["create", "pdb", "web", "--selector=app=web", "--min-available=6"]).says("created");
    let allowed = ["get", "pdb", "web", "-o", "jsonpath={.status.currentHealthy} {.status.disruptionsAllowed}"];
    let counted = |expected: &str| {
        eventually("the budget has counted its pods", || {
            let said = kubectl.run(&allowed).stdout;
            if said == expected { Ok(()) } else { Err(said) }
        });
    };
    counted("6 0");
    let refused = kubectl.attempt(&["drain", "sim-1", "--ignore-daemonsets", "--timeout=4s"]).expect_failure().stderr;
    assert!(refused.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{refused}");
    counted("6 0");
    assert!(nodes_of_pods(&kubectl).contains(&"sim-1".to_owned()), "nothing went");
    kubectl.run(&["patch", "pdb", "web", "--type=merge", "-p", r#"{"spec":{"minAvailable":5}}"#]);
    kubectl.run(&["drain", "sim-1", "--ignore-daemonsets", "--timeout=60s"]).says("node/sim-1 drained");
    assert!(!nodes_of_pods(&kubectl).contains(&"sim-1".to_owned()));
    counted("6 1");
    kubectl.run(&["get", "pdb", "web"]).says("ALLOWED DISRUPTIONS");
}

#[test]
fn a_pod_that_fits_nowhere_says_so() {
    let rkube = start_with_nodes();
    let Some(kubectl) = rkube.kubectl() else { return };
    let requests =
        r#"{"spec":{"containers":[{"name":"huge","image":"nginx","resources":{"requests":{"cpu":"1000"}}}]}}"#;
    kubectl.run(&["run", "huge", "--image=nginx", "--overrides", requests]);
    eventually("it is said why a pod has no node", || {
        let described = kubectl.run(&["describe", "pod", "huge"]).stdout;
        let said = described.contains("FailedScheduling") && described.contains("3 Insufficient cpu");
        if said { Ok(()) } else { Err(described) }
    });
    kubectl.run(&["get", "pod", "huge"]).says("Pending");
}
