//! `kubectl autoscale` on simulated nodes, with periods that are short enough to wait for.

use rkube_testkit::{Rkube, Tool, eventually};

const FLAGS: [&str; 5] = [
    "--store=memory",
    "--sim-nodes=3",
    "--horizontal-pod-autoscaler-sync-period=500ms",
    "--horizontal-pod-autoscaler-downscale-stabilization=3s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
];

fn is_scaled(kubectl: &Tool, replicas: &str) {
    eventually(&format!("there are {replicas} replicas"), || {
        let shown = kubectl.run(&["get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}"]).stdout;
        if shown == replicas { Ok(()) } else { Err(shown) }
    });
}

/// Three pods at 80% with a target of 50% become five; and one when there is little to do.
#[test]
fn a_deployment_is_scaled_up_and_down() {
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &FLAGS);
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "deployment", "web", "--image=nginx", "--replicas=3"]);
    let container = r#"{"name":"nginx","resources":{"requests":{"cpu":"100m"}}}"#;
    let metadata = r#"{"annotations":{"sim.rkube.io/cpu-usage":"80m"}}"#;
    let patch = format!(r#"{{"spec":{{"template":{{"metadata":{metadata},"spec":{{"containers":[{container}]}}}}}}}}"#);
    kubectl.run(&["patch", "deployment", "web", "-p", &patch]);
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).says("successfully rolled out");

    kubectl.run(&["autoscale", "deployment", "web", "--cpu-percent=50", "--min=1", "--max=5"]).says("autoscaled");
    is_scaled(&kubectl, "5");
    kubectl.run(&["get", "hpa", "web"]).says("cpu: 80%/50%");
    kubectl.run(&["describe", "hpa", "web"]).says("New size: 5; reason: cpu resource utilization");

    kubectl.run(&["annotate", "pods", "-l", "app=web", "--overwrite", "sim.rkube.io/cpu-usage=10m"]);
    is_scaled(&kubectl, "1");
    kubectl.run(&["describe", "hpa", "web"]).says("New size: 1; reason: All metrics below target");
    kubectl.run(&["delete", "hpa", "web"]);
    kubectl.run(&["scale", "deployment/web", "--replicas=0"]);
}

/// An autoscaler of something that is not there says so.
#[test]
fn a_missing_target_is_described() {
    let rkube = Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &FLAGS);
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "deployment", "web", "--image=nginx"]);
    kubectl.run(&["autoscale", "deployment", "web", "--min=1", "--max=3"]);
    eventually("the metric is missed", || {
        let shown = kubectl.run(&["describe", "hpa", "web"]).stdout;
        let missing = "missing request for cpu in container nginx of Pod web-";
        if shown.contains("FailedGetResourceMetric") && shown.contains(missing) { Ok(()) } else { Err(shown) }
    });
    kubectl.run(&["delete", "deployment", "web"]);
    eventually("the target is missed", || {
        let shown = kubectl.run(&["describe", "hpa", "web"]).stdout;
        if shown.contains(r#"deployments.apps "web" not found"#) { Ok(()) } else { Err(shown) }
    });
}
