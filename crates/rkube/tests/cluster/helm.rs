//! Helm keeps its own state in Secrets, and installs by server-side and client-side patches.

use rkube_testkit::tools::client_files;

use crate::kubectl_rollout::start_with_nodes;
use crate::start;

#[test]
fn a_release_from_install_to_uninstall() {
    let rkube = start();
    let (Some(helm), Some(kubectl)) = (rkube.helm(), rkube.kubectl()) else { return };
    let chart = client_files().join("chart").display().to_string();
    let greeting =
        || kubectl.run(&["get", "configmap", "demo-config", "-o", "jsonpath={.data.greeting} {.data.revision}"]).stdout;
    helm.run(&["install", "demo", &chart]).says("STATUS: deployed").says("demo says hello.");
    assert_eq!(greeting(), "hello 1");
    kubectl.run(&["get", "secret", "demo-secret", "-o", "jsonpath={.data.password}"]).says("c3dvcmRmaXNo");

    helm.run(&["upgrade", "demo", &chart, "--set", "greeting=welcome,extra=true"]).says("REVISION: 2");
    assert_eq!(greeting(), "welcome 2");
    kubectl.run(&["get", "configmap", "demo-extra"]);
    helm.run(&["list"]).says("demo").says("deployed").says("settings-0.1.0");
    helm.run(&["history", "demo"]).says("superseded").says("deployed");

    helm.run(&["rollback", "demo", "1"]).says("Rollback was a success");
    assert_eq!(greeting(), "hello 1");
    kubectl.attempt(&["get", "configmap", "demo-extra"]).expect_failure();

    helm.run(&["uninstall", "demo"]).says("release \"demo\" uninstalled");
    kubectl.attempt(&["get", "configmap", "demo-config"]).expect_failure();
    let listed = helm.run(&["list", "-q"]);
    assert_eq!(listed.stdout.trim(), "");
    let releases = kubectl.run(&["get", "secrets", "-l", "owner=helm", "-o", "name"]);
    assert_eq!(releases.stdout, "", "no release secret stays behind");
}

/// The chart that everybody begins with, waited for, tested, and brought back when what follows does not start.
#[test]
fn a_release_that_waits_for_its_pods() {
    let rkube = start_with_nodes();
    let (Some(helm), Some(kubectl)) = (rkube.helm(), rkube.kubectl()) else { return };
    let chart = rkube.scratch_directory().join("demo").display().to_string();
    helm.run(&["create", &chart]);
    helm.run(&["install", "first", &chart, "--wait", "--timeout=60s"]).says("STATUS: deployed");
    kubectl.run(&["get", "deployment", "first-demo"]).says("1/1");
    helm.run(&["test", "first", "--timeout=60s"]).says("Succeeded");

    let broken = r#"podAnnotations={"sim.rkube.io/fault":"image-pull"}"#;
    let upgrade = ["upgrade", "first", &chart, "--atomic", "--timeout=5s", "--set-json", broken];
    let failed = helm.attempt(&upgrade).expect_failure();
    assert!(failed.stderr.contains("has been rolled back due to atomic being set"), "{}", failed.stderr);
    helm.run(&["history", "first"]).says("Rollback to 1");
    helm.run(&["status", "first"]).says("STATUS: deployed").says("REVISION: 3");
    kubectl.run(&["rollout", "status", "deployment/first-demo", "--timeout=60s"]);
    helm.run(&["upgrade", "first", &chart, "--atomic", "--timeout=60s", "--set", "replicaCount=3"]).says("REVISION: 4");
    kubectl.run(&["get", "deployment", "first-demo"]).says("3/3");
    helm.run(&["uninstall", "first", "--wait", "--timeout=60s"]);
}
