//! Probes and hooks of containers.

use std::time::Duration;

use super::super::testing::{Behaviour, TestNode};

/// A container `a` with this beside name and image.
fn with(more: &str) -> String {
    format!(r#""containers":[{{"name":"a","image":"web",{more}}}]"#)
}

fn probe(more: &str) -> String {
    format!(
        r#"{{"exec":{{"command":["check"]}},"periodSeconds":10,"timeoutSeconds":1,"failureThreshold":3,"successThreshold":1{more}}}"#
    )
}

fn answers(execs: &[i32]) -> Behaviour {
    Behaviour { execs: execs.to_vec(), stops_after: Some(Duration::ZERO), ..Behaviour::default() }
}

#[tokio::test(start_paused = true)]
async fn a_container_is_ready_when_its_probe_says_so() {
    let node = TestNode::start().await;
    node.runtime.behave("a", answers(&[1, 0, 0, 1, 1, 1, 0]));
    node.create("p", &with(&format!(r#""readinessProbe":{}"#, probe(r#","initialDelaySeconds":5"#)))).await;
    let mut shown = Vec::new();
    for _ in 0..8 {
        shown.push(node.shows("p").ends_with('+'));
        node.seconds(10).await;
    }
    // At 5 s it fails, at 15 s and 25 s it succeeds, at 35, 45 and 55 s it fails, at 65 s it succeeds.
    assert_eq!(shown, [false, false, true, true, true, true, false, true]);
    assert!(node.events("p").contains(&"Unhealthy".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_its_liveness_probe_is_restarted() {
    let node = TestNode::start().await;
    let mut fails = answers(&[0, 1]);
    fails.stops_after = None;
    node.runtime.behave("a", fails);
    node.create("p", &with(&format!(r#""livenessProbe":{}"#, probe(r#","terminationGracePeriodSeconds":5"#)))).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    node.seconds(29).await;
    assert_eq!(node.runtime.called("stop "), [""; 0]);
    node.seconds(2).await;
    assert_eq!(node.runtime.called("stop "), ["stop a#0 5s"]);
    let told = node.api.events("p");
    let killing = told.iter().find(|event| event.str("reason") == "Killing").unwrap();
    assert_eq!(killing.str("message"), "Container a failed liveness probe, will be restarted");
    let unhealthy = told.iter().find(|event| event.str("reason") == "Unhealthy").unwrap();
    assert_eq!(unhealthy.str("message"), "Liveness probe failed: said");
    node.seconds(6).await;
    assert_eq!(node.shows("p"), "Running a:running*1+");
    let last = node.status("p", "containerStatuses", 0).get("lastState").get("terminated").clone();
    assert_eq!(last.int("exitCode"), 137);
}

#[tokio::test(start_paused = true)]
async fn other_probes_wait_for_the_startup_probe() {
    let node = TestNode::start().await;
    node.runtime.behave("a", answers(&[1, 1, 0, 0]));
    let probes =
        format!(r#""startupProbe":{},"readinessProbe":{},"livenessProbe":{}"#, probe(""), probe(""), probe(""));
    node.create("p", &with(&probes)).await;
    assert_eq!(node.shows("p"), "Running a:running");
    assert!(!node.status("p", "containerStatuses", 0).bool("started"));
    node.seconds(15).await;
    assert_eq!(node.shows("p"), "Running a:running");
    node.seconds(6).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    assert!(node.status("p", "containerStatuses", 0).bool("started"));
}

#[tokio::test(start_paused = true)]
async fn a_startup_probe_that_never_succeeds_ends_the_container() {
    let node = TestNode::start().await;
    node.runtime.behave("a", answers(&[1]));
    node.create("p", &format!(r#""restartPolicy":"Never",{}"#, with(&format!(r#""startupProbe":{}"#, probe("")))))
        .await;
    node.seconds(21).await;
    assert_eq!(node.shows("p"), "Succeeded a:0");
    let told = node.api.events("p");
    let killing = told.iter().find(|event| event.str("reason") == "Killing").unwrap();
    assert_eq!(killing.str("message"), "Container a failed startup probe");
}

#[tokio::test(start_paused = true)]
async fn probes_that_take_too_long_fail() {
    let node = TestNode::start().await;
    let slow = Behaviour { exec_takes: Duration::from_secs(3), ..answers(&[0]) };
    node.runtime.behave("a", slow);
    node.create("p", &with(&format!(r#""readinessProbe":{}"#, probe("")))).await;
    node.seconds(2).await;
    assert_eq!(node.shows("p"), "Running a:running");
    let told = node.api.events("p");
    let unhealthy = told.iter().find(|event| event.str("reason") == "Unhealthy").unwrap();
    assert_eq!(unhealthy.str("message"), "Readiness probe failed: command timed out: \"check\" timed out after 1s");
}

#[tokio::test(start_paused = true)]
async fn a_container_runs_when_its_first_hook_is_done_and_the_next_one_waits_for_it() {
    let node = TestNode::start().await;
    node.runtime.behave("a", Behaviour { exec_takes: Duration::from_secs(5), ..answers(&[0]) });
    let containers = r#""containers":[
        {"name":"a","image":"web","lifecycle":{"postStart":{"exec":{"command":["hello"]}}}},{"name":"b","image":"web"}]"#;
    node.create("p", containers).await;
    node.seconds(1).await;
    assert_eq!(node.shows("p"), "Pending a:ContainerCreating b:ContainerCreating");
    assert_eq!(node.runtime.running(), ["a#0"]);
    node.seconds(5).await;
    assert_eq!(node.shows("p"), "Running a:running+ b:running+");
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_first_hook_fails_is_killed() {
    let node = TestNode::start().await;
    node.runtime.behave("a", answers(&[7]));
    node.create("p", &with(r#""lifecycle":{"postStart":{"exec":{"command":["hello"]}}}"#)).await;
    node.seconds(1).await;
    let reasons = node.events("p");
    assert!(reasons.contains(&"FailedPostStartHook".to_owned()), "{reasons:?}");
    assert_eq!(node.shows("p"), "Running a:CrashLoopBackOff*1");
    node.delete("p", 30).await;
    assert_eq!(node.shows("p"), "gone");
}

#[tokio::test(start_paused = true)]
async fn the_last_hook_runs_before_the_container_is_stopped_and_counts() {
    let node = TestNode::start().await;
    node.runtime.behave("a", Behaviour { exec_takes: Duration::from_secs(10), ..answers(&[0]) });
    node.create("p", &with(r#""lifecycle":{"preStop":{"exec":{"command":["bye"]}}}"#)).await;
    node.delete("p", 30).await;
    assert_eq!(node.runtime.called("exec"), ["exec a#0 bye"]);
    node.seconds(9).await;
    assert_eq!(node.runtime.called("stop "), [""; 0]);
    node.seconds(2).await;
    assert_eq!(node.runtime.called("stop "), ["stop a#0 20s"]);
    assert_eq!(node.shows("p"), "gone");
    node.create("q", &with(r#""lifecycle":{"preStop":{"sleep":{"seconds":100}}}"#)).await;
    node.delete("q", 5).await;
    node.seconds(6).await;
    assert_eq!(node.runtime.called("stop ").last().unwrap(), "stop a#0 2s", "the hook took all of the grace");
}

#[tokio::test(start_paused = true)]
async fn a_container_may_have_all_of_them_begin_anew() {
    let node = TestNode::start().await;
    let fails_once = Behaviour { ends: Some((Duration::from_secs(5), 42)), ..answers(&[0]) };
    node.runtime.behave("a#0", fails_once);
    node.runtime.behave("i", Behaviour { ends: Some((Duration::ZERO, 0)), ..answers(&[0]) });
    let rules = r#""restartPolicy":"Never","restartPolicyRules":[
        {"action":"RestartAllContainers","exitCodes":{"operator":"In","values":[42]}}]"#;
    let pod = format!(
        r#""restartPolicy":"Never","initContainers":[{{"name":"i","image":"x"}}],
        "containers":[{{"name":"a","image":"web",{rules}}},{{"name":"b","image":"web"}}]"#
    );
    node.create("p", &pod).await;
    assert_eq!(node.shows("p"), "Running i:0+ a:running+ b:running+");
    node.seconds(6).await;
    assert_eq!(node.shows("p"), "Running i:0*1+ a:running*1+ b:running*1+");
    assert_eq!(node.runtime.called("sandbox"), ["sandbox p#0"]);
}

#[tokio::test(start_paused = true)]
async fn another_image_is_another_container() {
    let node = TestNode::start().await;
    node.create("p", &with(r#""imagePullPolicy":"IfNotPresent""#)).await;
    let mut pod = node.pod("p").unwrap();
    pod.get_mut("spec").list_mut("containers")[0].set("image", "other");
    node.api.put("pods", pod);
    node.seconds(1).await;
    assert_eq!(node.shows("p"), "Running a:running*1+");
    let told = node.api.events("p");
    let killing = told.iter().find(|event| event.str("reason") == "Killing").unwrap();
    assert_eq!(killing.str("message"), "Container a definition changed, will be restarted");
}
