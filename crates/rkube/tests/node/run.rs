//! The first things that people do: run, logs, exec, attach, cp, port-forward, debug, top, delete.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use rkube_testkit::images::TEST_IMAGE as IMAGE;
use rkube_testkit::{Finished, TIMEOUT, eventually};

use crate::{ready, start, wait_for};

#[test]
fn a_pod_runs_says_something_and_goes() {
    let Some((_rkube, kubectl)) = start(&[]) else { return };
    kubectl.run(&["run", "one", "--image", IMAGE, "--restart=Never", "--", "sh", "-c", "echo hello; sleep 1000"]);
    ready(&kubectl, "pod/one");
    kubectl.run(&["logs", "one"]).says("hello");
    kubectl.run(&["exec", "one", "--", "echo", "from inside"]).says("from inside");
    let failed = kubectl.attempt(&["exec", "one", "--", "sh", "-c", "exit 7"]);
    assert_eq!(failed.status.code(), Some(7), "{}", failed.stderr);
    kubectl.run(&["delete", "pod", "one", "--grace-period=1"]);
    kubectl.run(&["run", "two", "--image", IMAGE, "--restart=Never", "--", "exit", "3"]);
    let end = "jsonpath={.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}";
    wait_for(&kubectl, &["get", "pod", "two", "-o", end], "Failed 3");
}

#[test]
fn people_look_into_a_pod() {
    let Some((rkube, kubectl)) = start(&[]) else { return };
    let script = "n=0; while true; do echo tick; sleep 0.2; done";
    kubectl.run(&["run", "one", "--image", IMAGE, "--restart=Never", "--", "sh", "-c", script]);
    ready(&kubectl, "pod/one");

    let following = kubectl.start(&["logs", "-f", "one", "--tail=1"]);
    for _ in 0..4 {
        assert_eq!(following.next_line(TIMEOUT).as_deref(), Some("tick"));
    }
    drop(following);
    let attached = kubectl.start(&["attach", "one"]);
    assert_eq!(attached.next_line(TIMEOUT).as_deref(), Some("tick"));
    drop(attached);

    // There and back again.
    let (there, back) = (rkube.scratch_directory().join("there"), rkube.scratch_directory().join("back"));
    std::fs::write(&there, "what is in the file\n").unwrap();
    kubectl.run(&["cp", there.to_str().unwrap(), "one:/tmp/there"]);
    kubectl.run(&["exec", "one", "--", "cat", "/tmp/there"]).says("what is in the file");
    kubectl.run(&["cp", "one:/tmp/there", back.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&back).unwrap(), "what is in the file\n");

    // With a terminal, as `script` has one for it.
    let exec = ["exec", "-it", "one", "--", "tty"];
    let mut terminal = std::process::Command::new("script");
    let shown = format!("{:?}", kubectl.command(&exec)).replace("NO_PROXY=\"*\" ", "");
    Finished::run(terminal.args(["-qec", &shown, "/dev/null"]), "").expect_success().says("a terminal");

    let debug = ["debug", "one", "--image", IMAGE, "--container=look", "--", "sh", "-c", "sleep 1000"];
    kubectl.run(&debug);
    let running = "jsonpath={.status.ephemeralContainerStatuses[0].state.running}";
    eventually("the debugger runs", || {
        let found = kubectl.run(&["get", "pod", "one", "-o", running]).stdout;
        if found.contains("startedAt") { Ok(()) } else { Err(found) }
    });
    kubectl.run(&["exec", "one", "-c", "look", "--", "id"]).says("uid=0");

    eventually("figures are there", || {
        let top = kubectl.attempt(&["top", "pod", "one", "--no-headers"]);
        if top.stdout.starts_with("one") { Ok(()) } else { Err(top.stderr) }
    });
    eventually("figures of the node are there", || {
        let top = kubectl.attempt(&["top", "node", "--no-headers"]);
        if top.stdout.contains('%') { Ok(()) } else { Err(top.stderr) }
    });
    kubectl.run(&["delete", "pod", "one", "--grace-period=0", "--force"]);
}

#[test]
fn ports_are_forwarded() {
    let Some((rkube, kubectl)) = start(&[]) else { return };
    kubectl.run(&["run", "web", "--image", IMAGE, "--restart=Never", "--", "serve", "8080", "from the pod"]);
    ready(&kubectl, "pod/web");
    let forwarding = kubectl.start(&["port-forward", "pod/web", ":8080"]);
    let line = forwarding.next_line(TIMEOUT).expect("a line");
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).expect(&line).to_owned();
    for _ in 0..3 {
        let mut get = rkube.program("curl".as_ref());
        Finished::run(get.args(["-s", &format!("http://127.0.0.1:{port}/")]), "")
            .expect_success()
            .says("web from the pod");
    }
    let path = "/api/v1/namespaces/default/pods/web:8080/proxy/status/201";
    kubectl.run(&["get", "--raw", path]).says("status");
}

#[test]
fn a_pod_of_the_moment_reads_and_goes() {
    let Some((_rkube, kubectl)) = start(&[]) else { return };
    let run = ["run", "now", "-i", "--rm", "--restart=Never", "--image", IMAGE, "--", "cat"];
    let mut command = kubectl.command(&run);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"what I say\n").unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success() && said.contains("what I say"), "{said}");
    wait_for(&kubectl, &["get", "pods", "-o", "name"], "");
}
