//! kubectl 1.20, six years older than the server: JSON, no aggregated discovery, validation on its own side.

use crate::start;

#[test]
fn the_old_client_still_works() {
    let rkube = start();
    let Some(kubectl) = rkube.old_kubectl() else { return };
    kubectl.run(&["version", "--short"]).says("Server Version: v1.36.");
    kubectl.run(&["get", "ns"]).says("kube-system");
    kubectl.run(&["create", "configmap", "a", "--from-literal=k=v"]).says("configmap/a created");
    let manifest =
        |value: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}}\ndata: {{k: {value}}}\n");
    kubectl.run_with_input(&["apply", "-f", "-"], &manifest("one")).says("configmap/b created");
    kubectl.run_with_input(&["apply", "-f", "-"], &manifest("two")).says("configmap/b configured");
    kubectl.run(&["get", "configmap", "b", "-o", "jsonpath={.data.k}"]).says("two");
    kubectl.run(&["get", "configmaps", "-o", "wide"]).says("NAME").says("DATA");
    kubectl.run(&["delete", "configmap", "a", "b"]).says("\"a\" deleted").says("\"b\" deleted");
    kubectl.attempt(&["get", "configmap", "a"]).expect_failure();
}
