//! What a server says about itself: resources, versions, explanations, who is asking, events.

use crate::start;

#[test]
fn resources_and_versions() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let resources = kubectl.run(&["api-resources"]);
    for (name, short, kind) in [
        ("configmaps", "cm", "ConfigMap"),
        ("pods", "po", "Pod"),
        ("namespaces", "ns", "Namespace"),
        ("leases", "", "Lease"),
    ] {
        let line = resources.stdout.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{}", resources.stdout));
        assert!(line.contains(short) && line.ends_with(kind), "{line}");
    }
    kubectl.run(&["api-resources", "--namespaced=false", "-o", "name"]).says("nodes\n");
    let versions = kubectl.run(&["api-versions"]);
    for version in ["v1", "coordination.k8s.io/v1", "events.k8s.io/v1", "authentication.k8s.io/v1"] {
        assert!(versions.stdout.lines().any(|line| line == version), "{}", versions.stdout);
    }
    kubectl.run(&["version"]).says("Server Version: v1.36.");
    kubectl.run(&["get", "--raw", "/readyz?verbose"]).says("readyz check passed");
}

#[test]
fn explanations_have_the_real_descriptions() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl
        .run(&["explain", "pod.spec.containers"])
        .says("KIND:       Pod")
        .says("FIELD: containers <[]Container>")
        .says("A single application container that you want to run within a pod.")
        .says("imagePullPolicy\t<string>")
        .says("-required-");
    kubectl.run(&["explain", "configmap", "--recursive"]).says("binaryData\t<map[string]string>");
    kubectl.attempt(&["explain", "pod.spec.nonsense"]).expect_failure();
}

#[test]
fn the_administrator_is_known() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["auth", "whoami"]).says("kubernetes-admin").says("system:masters").says("system:authenticated");
}

#[test]
fn events_are_listed_in_both_groups() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let none = kubectl.run(&["get", "events"]);
    assert!(none.stderr.contains("No resources found in default namespace."), "{}", none.stderr);
    kubectl.run_with_input(&["create", "-f", "-"], EVENT);
    for resource in ["events", "events.v1.events.k8s.io"] {
        kubectl.run(&["get", resource]).says("LAST SEEN").says("Tested").says("pod/web").says("it works");
    }
}

const EVENT: &str = "\
apiVersion: v1
kind: Event
metadata:
  name: web.1
  namespace: default
involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: default}
type: Normal
reason: Tested
message: it works
source: {component: test}
firstTimestamp: 2024-01-01T00:00:00Z
lastTimestamp: 2024-01-01T00:00:00Z
count: 1
";
