//! `kubectl apply` on both sides, and `kubectl diff`.

use rkube_testkit::Tool;

use crate::start;

fn manifest(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n{data}")
}

fn data(kubectl: &Tool) -> String {
    kubectl.run(&["get", "configmap", "c", "-o", "jsonpath={.data}"]).stdout
}

#[test]
fn on_the_client_side() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let apply = |text: &str| kubectl.run_with_input(&["apply", "-f", "-"], &manifest(text)).stdout;
    assert_eq!(apply("  a: '1'\n  b: '2'\n"), "configmap/c created\n");
    assert_eq!(apply("  a: '1'\n  b: '2'\n"), "configmap/c unchanged\n");
    kubectl.run(&["patch", "configmap", "c", "--type=merge", "-p", r#"{"data":{"other":"kept"}}"#]);
    assert_eq!(apply("  a: '3'\n"), "configmap/c configured\n");
    assert_eq!(data(&kubectl), r#"{"a":"3","other":"kept"}"#);
    let unknown = manifest("  a: '1'\n").replace("\ndata:", "\ndada:");
    let strict = ["apply", "--validate=strict", "-f", "-"];
    let refused = rkube_testkit::Finished::run(&mut kubectl.command(&strict), &unknown).expect_failure();
    assert!(refused.stderr.contains("unknown field"), "{}", refused.stderr);
}

#[test]
fn on_the_server_side() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let command = |manager: &'static str| {
        let manager = format!("--field-manager={manager}");
        move |kubectl: &Tool| kubectl.command(&["apply", "--server-side", &manager, "-f", "-"])
    };
    let (first, second) = (command("first"), command("second"));
    let run =
        |mut command: std::process::Command, text: &str| rkube_testkit::Finished::run(&mut command, &manifest(text));
    run(first(&kubectl), "  a: '1'\n  b: '2'\n").expect_success().says("configmap/c serverside-applied");
    run(second(&kubectl), "  c: '3'\n").expect_success();
    let conflict = run(second(&kubectl), "  a: '9'\n").expect_failure();
    assert!(conflict.stderr.contains("conflict with \"first\": .data.a"), "{}", conflict.stderr);
    run(first(&kubectl), "  a: '1'\n").expect_success();
    assert_eq!(data(&kubectl), r#"{"a":"1","c":"3"}"#, "what a manager no longer applies goes");
    let mut forced = second(&kubectl);
    forced.arg("--force-conflicts");
    run(forced, "  a: '9'\n").expect_success();
    assert_eq!(data(&kubectl), r#"{"a":"9"}"#);
    kubectl
        .run(&["get", "configmap", "c", "-o", "yaml", "--show-managed-fields"])
        .says("manager: second")
        .says("operation: Apply")
        .says("f:data:");
}

#[test]
fn from_the_client_side_to_the_server_side() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run_with_input(&["apply", "-f", "-"], &manifest("  a: '1'\n  b: '2'\n"));
    kubectl.run_with_input(&["apply", "--server-side", "-f", "-"], &manifest("  a: '1'\n"));
    assert_eq!(data(&kubectl), r#"{"a":"1"}"#, "kubectl hands its fields over");
}

#[test]
fn diff_shows_and_changes_nothing() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    for side in ["--server-side=false", "--server-side=true"] {
        let flags = ["diff", side, "-f", "-"];
        kubectl.attempt(&["delete", "configmap", "c"]);
        kubectl.run_with_input(&["apply", side, "-f", "-"], &manifest("  a: red\n"));
        kubectl.run_with_input(&flags, &manifest("  a: red\n"));
        let mut command = kubectl.command(&flags);
        let different = rkube_testkit::Finished::run(&mut command, &manifest("  a: green\n"));
        assert_eq!(different.status.code(), Some(1), "{}", different.stderr);
        different.says("-  a: red").says("+  a: green");
        assert_eq!(data(&kubectl), r#"{"a":"red"}"#);
    }
}
