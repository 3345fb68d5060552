//! The first things that people do: run, logs, exec, delete.

use rkube_testkit::images::TEST_IMAGE;

use crate::{start, wait_for};

const IMAGE: &str = TEST_IMAGE;

#[test]
fn a_pod_runs_says_something_and_goes() {
    let Some((_rkube, kubectl)) = start(&[]) else { return };
    kubectl.run(&["wait", "--for=condition=Ready", "node", "--all", "--timeout=30s"]);
    kubectl.run(&["run", "one", "--image", IMAGE, "--restart=Never", "--", "sh", "-c", "echo hello; sleep 1000"]);
    kubectl.run(&["wait", "--for=condition=Ready", "pod/one", "--timeout=30s"]);
    kubectl.run(&["logs", "one"]).says("hello");
    kubectl.run(&["exec", "one", "--", "echo", "from inside"]).says("from inside");
    let failed = kubectl.attempt(&["exec", "one", "--", "exit", "7"]);
    assert_eq!(failed.status.code(), Some(7), "{}", failed.stderr);
    kubectl.run(&["delete", "pod", "one", "--grace-period=1"]);
    kubectl.run(&["run", "two", "--image", IMAGE, "--restart=Never", "--", "exit", "3"]);
    wait_for(
        &kubectl,
        &[
            "get",
            "pod",
            "two",
            "-o",
            "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}",
        ],
        "Failed 3",
    );
}
