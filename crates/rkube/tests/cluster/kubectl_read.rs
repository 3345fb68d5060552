//! `kubectl get` in every form.

use crate::start;

#[test]
fn namespaces_are_there_from_the_start() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let table = kubectl.run(&["get", "ns"]).says("NAME").says("STATUS").says("AGE");
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(table.stdout.lines().any(|line| line.starts_with(name) && line.contains("Active")), "{}", table.stdout);
    }
    kubectl.run(&["get", "service", "kubernetes"]).says("10.96.0.1").says("443/TCP");
}

#[test]
fn every_output_format_shows_the_object() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "settings", "--from-literal=colour=red", "--from-literal=size=7"]);
    let get = |output: &str| kubectl.run(&["get", "configmap", "settings", "-o", output]);
    get("yaml").says("kind: ConfigMap").says("  colour: red").says("  size: \"7\"").says("  namespace: default");
    get("json").says("\"kind\": \"ConfigMap\"").says("\"colour\": \"red\"").says("\"resourceVersion\"");
    get("wide").says("NAME").says("DATA").says("settings");
    assert_eq!(get("name").stdout, "configmap/settings\n");
    assert_eq!(get("jsonpath={.data.colour}").stdout, "red");
    assert_eq!(get("custom-columns=NAME:.metadata.name,SIZE:.data.size").stdout, "NAME       SIZE\nsettings   7\n");
    kubectl.run(&["describe", "configmap", "settings"]).says("colour:").says("red");
}

#[test]
fn pods_and_nodes_have_the_columns_that_people_know() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run_with_input(&["apply", "-f", "-"], POD);
    kubectl
        .run(&["get", "pods"])
        .says("NAME")
        .says("READY")
        .says("STATUS")
        .says("RESTARTS")
        .says("0/1")
        .says("Pending");
    kubectl.run(&["get", "pods", "-o", "wide"]).says("NOMINATED NODE").says("READINESS GATES");
    kubectl.run(&["get", "pods", "-A"]).says("NAMESPACE");
    kubectl.run(&["get", "pods", "-l", "app=web", "--field-selector", "status.phase=Pending"]).says("web");
    let none = kubectl.run(&["get", "pods", "-l", "app=other"]);
    assert!(none.stderr.contains("No resources found"), "{}", none.stderr);
    let absent = kubectl.attempt(&["get", "pod", "absent"]).expect_failure();
    assert_eq!(absent.stderr, "Error from server (NotFound): pods \"absent\" not found\n");
}

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
  - name: main
    image: registry.example/web:1
";
