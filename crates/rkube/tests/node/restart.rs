//! rkube ends, in good order or not; pods do not.

use rkube_testkit::images::TEST_IMAGE as IMAGE;
use rkube_testkit::{Rkube, Tool, eventually};

use crate::{ready, start, wait_for};

const PODS: [&str; 3] = ["one", "two", "three"];

/// What tells one life of a container from another, for each pod: id, start, restarts, and what its process counts.
fn lives(kubectl: &Tool) -> Vec<String> {
    let life = "jsonpath={.status.podIP} {.status.containerStatuses[0].containerID} \
                {.status.containerStatuses[0].state.running.startedAt} {.status.containerStatuses[0].restartCount}";
    PODS.iter().map(|pod| kubectl.run(&["get", "pod", pod, "-o", life]).stdout).collect()
}

fn begin() -> Option<(Rkube, Tool)> {
    let (rkube, kubectl) = start(&["--store=embedded"])?;
    for pod in PODS {
        kubectl.run(&["run", pod, "--image", IMAGE, "--", "sh", "-c", "while true; do echo $$ alive; sleep 0.1; done"]);
    }
    PODS.iter().for_each(|pod| ready(&kubectl, &format!("pod/{pod}")));
    Some((rkube, kubectl))
}

#[test]
fn pods_outlive_a_kill_of_rkube() {
    let Some((mut rkube, kubectl)) = begin() else { return };
    let before = lives(&kubectl);
    for _ in 0..3 {
        rkube.kill9();
        rkube.restart();
        // On another port.
        let kubectl = rkube.kubectl().unwrap();
        kubectl.run(&["exec", "one", "--", "echo", "still here"]).says("still here");
        kubectl.run(&["logs", "two", "--tail=1"]).says("alive");
        assert_eq!(lives(&kubectl), before);
    }
    let kubectl = rkube.kubectl().unwrap();
    kubectl.run(&["delete", "pod", "one", "--grace-period=0", "--force"]);
    kubectl.run(&["run", "four", "--image", IMAGE, "--", "sleep", "1000"]);
    ready(&kubectl, "pod/four");
}

#[test]
fn what_was_deleted_meanwhile_ends() {
    let Some((mut rkube, kubectl)) = begin() else { return };
    // Somebody else forgets the pod while its node is away.
    rkube.restart_with(&["--node=none", "--store=embedded"]);
    let kubectl_without = rkube.kubectl().unwrap();
    kubectl_without.run(&["delete", "pod", "two", "--grace-period=0", "--force"]);
    drop(kubectl);
    let logs = rkube.scratch_directory().join("log");
    rkube.restart_with(&["--store=embedded", "--node=real", &format!("--pod-log-dir={}", logs.display())]);
    let kubectl = rkube.kubectl().unwrap();
    wait_for(&kubectl, &["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"], "one three");
    eventually("the processes of the deleted pod end", || {
        let count = rkube.processes().iter().filter(|line| line.contains("alive")).count();
        if count == 2 { Ok(()) } else { Err(format!("{count} run: {:?}", rkube.processes())) }
    });
}
