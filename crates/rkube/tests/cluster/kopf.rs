//! An operator in Python, with finalizers and annotations of its framework.

use rkube_testkit::{eventually, tools::client_files};

use crate::start;

#[test]
fn an_operator_reacts_to_changes() {
    let rkube = start();
    let (Some(kopf), Some(kubectl)) = (rkube.python_module("kopf"), rkube.kubectl()) else { return };
    let script = client_files().join("python/kopf_handler.py").display().to_string();
    let _operator = kopf.start(&["run", "--standalone", "--namespace=default", "--quiet", &script]);
    kubectl.run(&["create", "configmap", "source", "--from-literal=word=quiet"]);
    kubectl.run(&["label", "configmap", "source", "kopf=source"]);
    let copied = |expected: &str| {
        eventually("the copy", || {
            let found = kubectl.attempt(&["get", "configmap", "source-upper", "-o", "jsonpath={.data.word}"]);
            if found.stdout == expected { Ok(()) } else { Err(format!("{}{}", found.stdout, found.stderr)) }
        });
    };
    copied("QUIET");
    kubectl.run(&["patch", "configmap", "source", "-p", r#"{"data":{"word":"louder"}}"#]);
    copied("LOUDER");
    kubectl.run(&["delete", "configmap", "source", "--timeout=30s"]);
    kubectl.attempt(&["get", "configmap", "source-upper"]).expect_failure();
}
