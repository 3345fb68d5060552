//! Operators in Go, unchanged: on a test environment of rkube's programs, as `KUBEBUILDER_ASSETS=$(rkube envtest)` gives
//! it, and on a running rkube.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rkube_testkit::{Finished, Process, TIMEOUT, eventually, tools};
use rustix::process::{Pid, Signal, kill_process};

use crate::start;

/// A Go program whose control plane is rkube's.
fn operator(name: &str) -> Option<Command> {
    static ASSETS: OnceLock<PathBuf> = OnceLock::new();
    let assets = ASSETS.get_or_init(|| {
        let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("envtest");
        let mut command = Command::new(env!("CARGO_BIN_EXE_rkube"));
        let printed = Finished::run(command.args(["envtest", "--dir"]).arg(base), "").expect_success().stdout;
        PathBuf::from(printed.trim_end())
    });
    let mut command = Command::new(tools::go_program(name)?);
    command.env("KUBEBUILDER_ASSETS", assets).env("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT", "true");
    Some(command)
}

#[test]
fn an_operator_is_tested_on_an_environment_of_ours() {
    let Some(mut operator) = operator("operator") else { return };
    Finished::run(&mut operator, "")
        .expect_success()
        .says("admission webhook \"validate.widgets.example.com\" denied the request: a widget of that size")
        .says("an operator keeps what it owns")
        .says("User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"")
        .says("a user may do what her role says")
        .says("a namespace goes with what is in it")
        .says("stopped in");
}

#[test]
fn an_operator_of_2021_is_tested_on_it() {
    let Some(mut operator) = operator("operator-2021") else { return };
    let finished = Finished::run(&mut operator, "").expect_success();
    assert!(finished.stderr.contains("--watch-cache-sizes has no effect"), "{}", finished.stderr);
    finished.says("the operator follows its sites").says("what a site owns goes with it");
}

/// The threads of a Go program come and go, the one that started us too; only its end counts.
#[test]
fn a_test_that_is_killed_leaves_nothing_behind() {
    let Some(mut operator) = operator("operator") else { return };
    let test = Process::spawn_with_lines(operator.arg("wait").stderr(Stdio::null()));
    let said = test.next_line(TIMEOUT).expect("a line");
    assert!(said.starts_with("started in"), "{said}");
    let children = children(test.id());
    assert_eq!(children.len(), 2, "an etcd and a kube-apiserver");
    kill_process(Pid::from_raw(test.id().try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    eventually("they end", || match children.iter().any(|child| child.join("exe").exists()) {
        true => Err("one is left".to_owned()),
        false => Ok(()),
    });
}

fn children(parent: u32) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_child = |process: &PathBuf| {
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{parent}"))
    };
    processes.filter(is_child).collect()
}

#[test]
fn the_cache_of_an_operator_follows_its_writes() {
    let Some(mut program) = operator("freshness") else { return };
    Finished::run(program.arg("200"), "").expect_success().says("200 writes in");
}

#[test]
fn the_sample_controller_keeps_its_deployments() {
    let rkube = start();
    let (Some(controller), Some(kubectl)) = (rkube.go_program("sample-controller"), rkube.kubectl()) else { return };
    let definition = tools::client_files().join("sample-controller/foos.yaml");
    kubectl.run(&["apply", "-f", definition.to_str().unwrap()]);
    kubectl.run(&["wait", "--for=condition=Established", "crd/foos.samplecontroller.k8s.io"]);
    let kubeconfig = format!("-kubeconfig={}", rkube.kubeconfig().display());
    let _running = controller.start(&[&kubeconfig]);
    let foo = r#"{"apiVersion":"samplecontroller.k8s.io/v1alpha1","kind":"Foo","metadata":{"name":"one"},
        "spec":{"deploymentName":"one-web","replicas":2}}"#;
    kubectl.run_with_input(&["create", "-f", "-"], foo);
    let wait = |what: &str, arguments: &[&str], expected: &str| {
        eventually(what, || {
            let found = kubectl.attempt(arguments);
            if found.stdout == expected { Ok(()) } else { Err(format!("{}{}", found.stdout, found.stderr)) }
        });
    };
    let replicas =
        ["get", "deployment", "one-web", "-o", "jsonpath={.spec.replicas} {.metadata.ownerReferences[*].name}"];
    wait("the deployment", &replicas, "2 one");
    kubectl.run(&["patch", "foo", "one", "--type=merge", "-p", r#"{"spec":{"replicas":3}}"#]);
    wait("its replicas", &replicas, "3 one");
    let events = ["get", "events", "-o", "jsonpath={.items[?(@.reason==\"Synced\")].involvedObject.kind}"];
    eventually("an event", || {
        let found = kubectl.run(&events).stdout;
        if found.contains("Foo") { Ok(()) } else { Err(found) }
    });
    kubectl.run(&["delete", "foo", "one"]);
    wait("what the foo owned goes", &["get", "deployments", "-o", "name"], "");
}
