//! What people do with Deployments by `kubectl`, on simulated nodes: roll out and back, pause, restart, scale, expose.

use rkube_testkit::{Rkube, Tool, eventually};

/// A new cluster with nodes.
pub fn start_with_nodes() -> Rkube {
    Rkube::start_with(env!("CARGO_BIN_EXE_rkube"), &["--store=memory", "--sim-nodes=3"])
}

fn is_rolled_out(kubectl: &Tool) {
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=60s"]).says("successfully rolled out");
}

fn image(kubectl: &Tool) -> String {
    kubectl.run(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"]).stdout
}

#[test]
fn a_deployment_from_its_first_rollout_to_its_end() {
    let rkube = start_with_nodes();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "deployment", "web", "--image=nginx:1", "--replicas=3", "--port=80"]);
    is_rolled_out(&kubectl);

    kubectl.run(&["set", "image", "deployment/web", "nginx=nginx:2"]);
    is_rolled_out(&kubectl);
    let history = kubectl.run(&["rollout", "history", "deployment/web"]).stdout;
    let revisions: Vec<&str> = history.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(revisions, ["1", "2"], "{history}");
    kubectl.run(&["rollout", "history", "deployment/web", "--revision=1"]).says("nginx:1");
    kubectl.run(&["rollout", "undo", "deployment/web"]).says("rolled back");
    is_rolled_out(&kubectl);
    assert_eq!(image(&kubectl), "nginx:1");

    kubectl.run(&["rollout", "pause", "deployment/web"]);
    kubectl.run(&["set", "image", "deployment/web", "nginx=nginx:3"]);
    eventually("the pause has been seen", || {
        let generations =
            ["get", "deployment", "web", "-o", "jsonpath={.metadata.generation} {.status.observedGeneration}"];
        let shown = kubectl.run(&generations).stdout;
        let (given, seen) = shown.split_once(' ').unwrap_or_default();
        if given == seen { Ok(()) } else { Err(shown) }
    });
    let of_pods = ["get", "pods", "-l", "app=web", "-o", "jsonpath={..image}"];
    assert!(!kubectl.run(&of_pods).stdout.contains("nginx:3"), "nothing is rolled out while it is paused");
    kubectl.run(&["rollout", "resume", "deployment/web"]);
    is_rolled_out(&kubectl);
    eventually("the old pods are gone", || match kubectl.run(&of_pods).stdout {
        images if images.contains("nginx:1") => Err(images),
        _ => Ok(()),
    });
    kubectl.run(&["wait", "pods", "-l", "app=web", "--for=condition=Ready", "--timeout=60s"]);
    kubectl.run(&["rollout", "restart", "deployment/web"]).says("restarted");
    is_rolled_out(&kubectl);
    kubectl.run(&["get", "deployment", "web", "-o", "yaml"]).says("kubectl.kubernetes.io/restartedAt");

    kubectl.run(&["scale", "deployment/web", "--replicas=5"]);
    kubectl.run(&["wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=5", "--timeout=60s"]);
    kubectl.run(&["wait", "deployment/web", "--for=condition=Available"]).says("condition met");
    leads_to_its_pods(&kubectl);
    kubectl.run(&["delete", "deployment", "web"]);
    kubectl.run(&["wait", "pods", "-l", "app=web", "--for=delete", "--timeout=60s"]);
}

/// A service has the addresses of pods for as long as they are there.
fn leads_to_its_pods(kubectl: &Tool) {
    kubectl.run(&["expose", "deployment", "web", "--port=80", "--target-port=8080"]);
    let words = |arguments: &[&str]| {
        let mut words: Vec<String> = kubectl.run(arguments).stdout.split_whitespace().map(str::to_owned).collect();
        words.sort();
        words
    };
    let pods = || words(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"]);
    let in_slices = || {
        let ready = "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}";
        words(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o", ready])
    };
    let in_endpoints = || words(&["get", "endpoints", "web", "-o", "jsonpath={.subsets[*].addresses[*].ip}"]);
    let same = |count: usize| {
        eventually("a service leads to its pods", || {
            let (pods, slices, endpoints) = (pods(), in_slices(), in_endpoints());
            let agree = pods.len() == count && pods == slices && pods == endpoints;
            if agree { Ok(()) } else { Err(format!("{pods:?} {slices:?} {endpoints:?}")) }
        });
    };
    same(5);
    kubectl.run(&["describe", "service", "web"]).says(":8080");
    kubectl.run(&["scale", "deployment/web", "--replicas=2"]);
    same(2);
    kubectl.run(&["delete", "service", "web"]);
    eventually("what a service left behind goes", || {
        let left = kubectl.run(&["get", "endpoints,endpointslices", "-o", "name"]).stdout;
        if left.contains("web") { Err(left) } else { Ok(()) }
    });
}
