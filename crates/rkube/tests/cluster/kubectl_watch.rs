//! `kubectl get -w`.

use rkube_testkit::TIMEOUT;

use crate::start;

#[test]
fn changes_come_as_they_happen() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "a", "--from-literal=k=v"]);
    let watch = kubectl.start(&["get", "configmaps", "a", "-w", "--output-watch-events", "--no-headers"]);
    let next = || {
        let line = watch.next_line(TIMEOUT).expect("a line");
        line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(next(), "ADDED a");
    kubectl.run(&["label", "configmap", "a", "x=y"]);
    assert_eq!(next(), "MODIFIED a");
    kubectl.run(&["delete", "configmap", "a"]);
    assert_eq!(next(), "DELETED a");
}

#[test]
fn tables_are_watched_too() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    let watch = kubectl.start(&["get", "namespaces", "-w"]);
    let mut lines = std::iter::from_fn(|| watch.next_line(TIMEOUT));
    assert!(lines.next().expect("a header").starts_with("NAME"));
    assert!(lines.any(|line| line.starts_with("kube-system")));
    kubectl.run(&["create", "namespace", "zebra"]);
    assert!(lines.any(|line| line.starts_with("zebra")));
}

#[test]
fn wait_sees_what_it_waits_for() {
    let rkube = start();
    let Some(kubectl) = rkube.kubectl() else { return };
    kubectl.run(&["create", "configmap", "a", "--from-literal=k=v"]);
    let mut wait = kubectl.start(&["wait", "configmap/a", "--for=jsonpath={.data.k}=done", "--timeout=30s"]);
    kubectl.run(&["patch", "configmap", "a", "-p", r#"{"data":{"k":"done"}}"#]);
    assert!(wait.wait(TIMEOUT).expect("it ends").success());
}
