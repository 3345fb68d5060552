//! Pods whose processes end: they are started again, as often as they should be.

use rkube_testkit::eventually;
use rkube_testkit::images::TEST_IMAGE as IMAGE;

use crate::{start, wait_for};

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: IMAGE
        args: [serve, '8080']
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
        startupProbe: {exec: {command: ['true']}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
";

#[test]
fn a_deployment_heals_when_its_process_is_killed() {
    let Some((_rkube, kubectl)) = start(&[]) else { return };
    kubectl.run_with_input(&["apply", "-f", "-"], &WEB.replace("IMAGE", IMAGE));
    kubectl.run(&["rollout", "status", "deployment/web", "--timeout=50s"]);
    let pod = kubectl.run(&["get", "pods", "-o", "jsonpath={.items[0].metadata.name}"]).stdout;
    // It answers through its service, and ends when it is asked to.
    eventually("an answer", || {
        let found = kubectl.attempt(&["get", "--raw", "/api/v1/namespaces/default/services/web/proxy/"]);
        if found.stdout.contains("web-") { Ok(()) } else { Err(found.stderr) }
    });
    kubectl.attempt(&["get", "--raw", &format!("/api/v1/namespaces/default/pods/{pod}:8080/proxy/exit/9")]);
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready} \
                    {.status.containerStatuses[0].lastState.terminated.exitCode}";
    wait_for(&kubectl, &["get", "pod", &pod, "-o", restarts], "1 true 9");
    kubectl.run(&["delete", "deployment", "web"]);
    wait_for(&kubectl, &["get", "pods", "-o", "name"], "");
}

#[test]
fn what_does_not_start_says_why() {
    let Some((_rkube, kubectl)) = start(&[]) else { return };
    let run = |name: &str, rest: &[&str]| {
        let mut arguments = vec!["run", name, "--restart=OnFailure"];
        arguments.extend(rest);
        kubectl.run(&arguments);
    };
    run("nowhere", &["--image=127.0.0.1:1/nothing:v1"]);
    run("no-command", &["--image", IMAGE, "--command", "--", "/not/there"]);
    run("crashes", &["--image", IMAGE, "--", "exit", "4"]);
    let refused = r#"{"spec":{"hostUsers":false}}"#;
    run("refused", &["--image", IMAGE, "--overrides", refused, "--", "sleep", "1000"]);
    let reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    wait_for(&kubectl, &["get", "pod", "nowhere", "-o", reason], "ImagePullBackOff");
    wait_for(&kubectl, &["get", "pod", "crashes", "-o", reason], "CrashLoopBackOff");
    let text = "jsonpath={.status.containerStatuses[0].state}{.status.containerStatuses[0].lastState}";
    eventually("the command is named", || {
        let found = kubectl.run(&["get", "pod", "no-command", "-o", text]).stdout;
        if found.contains("/not/there") { Ok(()) } else { Err(found) }
    });
    wait_for(&kubectl, &["get", "pod", "refused", "-o", "jsonpath={.status.phase}"], "Failed");
}

#[test]
fn who_takes_too_much_memory_is_killed_and_nobody_else() {
    let Some((_rkube, kubectl)) = start(&[]) else { return };
    kubectl.run(&["run", "calm", "--image", IMAGE, "--restart=Never", "--", "sleep", "1000"]);
    let limits = r#"{"spec":{"containers":[{"name":"hungry","image":"IMAGE","args":["eat-memory"],
        "resources":{"limits":{"memory":"32Mi"}}}]}}"#;
    let limits = limits.replace("IMAGE", IMAGE);
    kubectl.run(&["run", "hungry", "--image", IMAGE, "--restart=Never", "--overrides", &limits]);
    let reason = "jsonpath={.status.containerStatuses[0].state.terminated.reason}";
    wait_for(&kubectl, &["get", "pod", "hungry", "-o", reason], "OOMKilled");
    wait_for(&kubectl, &["get", "pod", "calm", "-o", "jsonpath={.status.phase}"], "Running");
}
