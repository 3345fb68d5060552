//! Pods on a node whose runtime does what it is told, from their creation to their end.

mod probes;
mod storage;

use std::time::Duration;

use super::prepare_api::Problem;
use super::testing::{Behaviour, TestNode};

const ONE: &str = r#""containers":[{"name":"a","image":"web","imagePullPolicy":"IfNotPresent"}]"#;

fn ends(after: Duration, code: i32) -> Behaviour {
    Behaviour { ends: Some((after, code)), stops_after: Some(Duration::ZERO), ..Behaviour::default() }
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_and_renews_its_lease() {
    let node = TestNode::start().await;
    let object = node.api.get("nodes", "", "n1").unwrap();
    assert_eq!(object.get("metadata").map("labels").str("kubernetes.io/hostname"), "n1");
    assert_eq!(object.get("status").get("allocatable").str("cpu"), "4");
    assert_eq!(object.get("status").list("conditions")[3].str("status"), "True");
    assert_eq!(object.get("status").get("nodeInfo").str("containerRuntimeVersion"), "fake://1");
    let lease = || node.api.get("leases", "kube-node-lease", "n1").unwrap().get("spec").str("renewTime").to_owned();
    let before = lease();
    node.seconds(10).await;
    assert_ne!(lease(), before);
    let status = |text: &&String| text.starts_with("PATCH nodes/n1/status");
    let written = node.api.writes.lock().iter().filter(status).count();
    node.seconds(100).await;
    assert_eq!(node.api.writes.lock().iter().filter(status).count(), written, "nothing has changed");
    node.seconds(300).await;
    assert_eq!(node.api.writes.lock().iter().filter(status).count(), written + 1);
}

#[tokio::test(start_paused = true)]
async fn a_plain_pod_runs_until_it_is_deleted() {
    let node = TestNode::start().await;
    node.create("p", ONE).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    assert_eq!(node.events("p"), ["Pulling", "Pulled", "Created", "Started"]);
    let status = node.status("p", "containerStatuses", 0);
    assert_eq!(status.str("containerID"), "fake://c2");
    assert_eq!(status.str("imageID"), "web@sha256:0");
    assert_eq!(status.get("user").get("linux").int("uid"), 1000);
    let pod = node.pod("p").unwrap();
    assert_eq!(pod.get("status").str("podIP"), "10.0.0.2");
    assert_eq!(pod.get("status").str("hostIP"), "192.0.2.1");
    assert!(node.pods.find("ns", "p").is_some());
    let writes = || node.api.writes.lock().iter().filter(|write| write.starts_with("PATCH pods")).count();
    assert_eq!(writes(), 1, "one write says it all");
    node.seconds(3600).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    node.delete("p", 30).await;
    node.seconds(1).await;
    assert_eq!(node.shows("p"), "gone");
    assert_eq!(node.events("p").last().unwrap(), "Killing");
    assert_eq!(*node.prepare.unmounted.lock(), ["uid-p"]);
    assert_eq!(node.runtime.sandbox_ids(), [""; 0]);
    assert!(node.pods.find("ns", "p").is_none());
    let deletes: Vec<_> = node.api.writes.lock().iter().filter(|write| write.starts_with("DELETE")).cloned().collect();
    assert_eq!(deletes, ["DELETE pods/p"]);
    assert_eq!(writes(), 2);
}

#[tokio::test(start_paused = true)]
async fn containers_are_restarted_less_and_less_often() {
    let node = TestNode::start().await;
    node.runtime.behave("a", ends(Duration::ZERO, 3));
    node.create("p", ONE).await;
    assert_eq!(node.shows("p"), "Running a:CrashLoopBackOff*1");
    assert_eq!(
        node.status("p", "containerStatuses", 0).get("state").get("waiting").str("message"),
        "back-off 10s restarting failed container=a pod=p_ns(uid-p)"
    );
    let last = node.status("p", "containerStatuses", 0).get("lastState").get("terminated").clone();
    assert_eq!((last.int("exitCode"), last.str("reason")), (3, "Error"));
    node.seconds(9).await;
    assert_eq!(node.runtime.called("start"), ["start a#0", "start a#1"]);
    node.seconds(2).await;
    assert_eq!(node.runtime.called("start").len(), 3);
    node.seconds(21).await;
    assert_eq!(node.runtime.called("start").len(), 4);
    assert_eq!(node.shows("p"), "Running a:CrashLoopBackOff*3");
}

#[tokio::test(start_paused = true)]
async fn pods_that_run_once_end() {
    for (code, policy, expected) in
        [(0, "Never", "Succeeded a:0"), (3, "Never", "Failed a:3"), (0, "OnFailure", "Succeeded a:0")]
    {
        let node = TestNode::start().await;
        node.runtime.behave("a", ends(Duration::from_secs(5), code));
        node.create("p", &format!(r#""restartPolicy":"{policy}",{ONE}"#)).await;
        assert_eq!(node.shows("p"), "Running a:running+");
        node.seconds(6).await;
        assert_eq!(node.shows("p"), expected);
        assert_eq!(*node.prepare.unmounted.lock(), ["uid-p"], "what it has is free");
        assert_eq!(node.runtime.sandbox_ids().len(), 1, "its logs can be looked at");
        node.delete("p", 30).await;
        assert_eq!(node.shows("p"), "gone");
        assert_eq!(node.runtime.sandbox_ids(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn init_containers_and_sidecars_come_first_and_go_last() {
    let node = TestNode::start().await;
    node.runtime.behave("i", ends(Duration::from_secs(2), 0));
    let init = r#""initContainers":[{"name":"i","image":"x"},{"name":"s","image":"x","restartPolicy":"Always"}]"#;
    node.create("p", &format!("{init},{ONE}")).await;
    assert_eq!(node.shows("p"), "Pending i:running s:PodInitializing a:PodInitializing");
    node.seconds(3).await;
    assert_eq!(node.shows("p"), "Running i:0+ s:running+ a:running+");
    node.runtime.calls.lock().clear();
    node.delete("p", 30).await;
    assert_eq!(node.shows("p"), "gone");
    assert_eq!(node.runtime.called("stop "), ["stop a#0 30s", "stop s#0 30s"]);
}

#[tokio::test(start_paused = true)]
async fn images_that_cannot_be_pulled_are_waited_for() {
    let node = TestNode::start().await;
    *node.runtime.pull_problem.lock() = Some("not there".to_owned());
    node.create("p", ONE).await;
    assert_eq!(node.shows("p"), "Pending a:ErrImagePull");
    node.seconds(3).await;
    assert_eq!(node.shows("p"), "Pending a:ImagePullBackOff");
    assert_eq!(
        node.status("p", "containerStatuses", 0).get("state").get("waiting").str("message"),
        "Back-off pulling image \"web\": ErrImagePull: not there"
    );
    *node.runtime.pull_problem.lock() = None;
    node.seconds(10).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    node.create("q", r#""containers":[{"name":"a","image":"other","imagePullPolicy":"Never"}]"#).await;
    assert_eq!(node.shows("q"), "Pending a:ErrImageNeverPull");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_pulls_can_be_deleted() {
    let node = TestNode::start().await;
    *node.runtime.pull_takes.lock() = Duration::from_secs(3600);
    node.create("p", ONE).await;
    assert_eq!(node.shows("p"), "Pending a:ContainerCreating");
    node.delete("p", 30).await;
    assert_eq!(node.shows("p"), "gone");
    assert_eq!(node.runtime.called("start"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_told_and_tried_again() {
    let node = TestNode::start().await;
    *node.prepare.mount_problem.lock() = Some(Problem::new("FailedMount", "no such thing"));
    node.create("p", ONE).await;
    assert_eq!(
        (node.shows("p").as_str(), node.events("p").as_slice()),
        ("Pending a:ContainerCreating", &["FailedMount".to_owned()][..])
    );
    *node.prepare.mount_problem.lock() = None;
    *node.prepare.container_problem.lock() =
        Some(Problem::new("CreateContainerConfigError", "configmap \"x\" not found"));
    node.seconds(1).await;
    assert_eq!(node.shows("p"), "Pending a:CreateContainerConfigError");
    *node.prepare.container_problem.lock() = None;
    node.runtime.behave("a", Behaviour { start_error: Some("no such file".to_owned()), ..Behaviour::default() });
    node.seconds(11).await;
    assert_eq!(node.shows("p"), "Running a:CrashLoopBackOff*1");
    let last = node.status("p", "containerStatuses", 0).get("lastState").get("terminated").clone();
    assert_eq!((last.int("exitCode"), last.str("reason")), (128, "StartError"));
}

#[tokio::test(start_paused = true)]
async fn containers_that_ignore_signals_are_killed_after_their_grace() {
    let node = TestNode::start().await;
    node.runtime.behave("a", Behaviour::default());
    node.create("p", ONE).await;
    node.delete("p", 30).await;
    node.seconds(28).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    node.seconds(3).await;
    assert_eq!(node.shows("p"), "gone");
    // A shorter grace counts at once.
    node.create("q", ONE).await;
    node.delete("q", 3600).await;
    node.seconds(5).await;
    assert_eq!(node.shows("q"), "Running a:running+");
    node.delete("q", 3).await;
    node.seconds(4).await;
    assert_eq!(node.shows("q"), "gone");
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_gone_from_the_api_are_ended() {
    let node = TestNode::start().await;
    node.create("p", ONE).await;
    node.api.remove("pods", "ns", "p");
    node.seconds(1).await;
    assert_eq!(node.runtime.sandbox_ids(), [""; 0]);
    assert_eq!(node.runtime.running(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn pods_survive_a_restart_of_the_kubelet_and_none_runs_twice() {
    let mut node = TestNode::start().await;
    node.create("p", ONE).await;
    node.create("q", ONE).await;
    node.create("r", ONE).await;
    node.crash().await;
    let of_r = node.runtime.sandbox_ids()[2].clone();
    node.api.remove("pods", "ns", "q");
    node.seconds(5).await;
    let starts = node.runtime.called("start").len();
    node.boot().await;
    node.seconds(5).await;
    assert_eq!(node.runtime.called("start").len(), starts, "nothing was started again");
    assert_eq!(node.shows("p"), "Running a:running+");
    assert_eq!(node.runtime.running().len(), 2);
    // Its sandbox dies: it gets another one, and its containers begin anew.
    node.runtime.lose_sandbox(&of_r);
    node.seconds(15).await;
    assert_eq!(node.shows("r"), "Running a:running*1+");
    assert!(node.events("r").contains(&"SandboxChanged".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_its_time() {
    let node = TestNode::start().await;
    node.create("p", &format!(r#""activeDeadlineSeconds":30,{ONE}"#)).await;
    node.seconds(29).await;
    assert_eq!(node.shows("p"), "Running a:running+");
    node.seconds(2).await;
    assert_eq!(node.shows("p"), "Failed(DeadlineExceeded) a:0");
}

#[tokio::test(start_paused = true)]
async fn what_the_node_does_not_have_is_refused() {
    let node = TestNode::start().await;
    node.create("p", &format!(r#""hostUsers":false,{ONE}"#)).await;
    assert_eq!(node.shows("p"), "Failed(UserNamespacesNotSupported)");
    let big = r#""containers":[{"name":"a","image":"x","resources":{"requests":{"cpu":"5"}}}]"#;
    node.create("q", big).await;
    assert_eq!(node.shows("q"), "Failed(OutOfcpu)");
    node.delete("p", 30).await;
    assert_eq!(node.shows("p"), "gone");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_does_not_answer_stops_nothing() {
    let node = TestNode::start().await;
    node.create("p", ONE).await;
    *node.api.is_down.lock() = true;
    node.runtime.end("c2", 1);
    node.seconds(3).await;
    assert_eq!(node.runtime.running(), ["a#1"]);
    *node.api.is_down.lock() = false;
    node.seconds(20).await;
    assert_eq!(node.shows("p"), "Running a:running*1+");
}

#[tokio::test(start_paused = true)]
async fn static_pods_come_and_go_with_their_files() {
    let mut node = TestNode::start().await;
    let directory = node.directory.path().join("manifests");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("web.yaml");
    let text = |image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: ns}}\nspec: {{containers: [{{name: a, image: {image}}}]}}\n"
        )
    };
    std::fs::write(&file, text("x:1")).unwrap();
    node.seconds(2).await;
    assert_eq!(node.shows("web-n1"), "Running a:running+");
    let mirror = node.pod("web-n1").unwrap();
    let annotations = mirror.get("metadata").map("annotations");
    assert_eq!(annotations.str("kubernetes.io/config.source"), "file");
    assert_eq!(annotations.str("kubernetes.io/config.mirror"), annotations.str("kubernetes.io/config.hash"));
    assert_eq!(mirror.get("metadata").list("ownerReferences")[0].str("kind"), "Node");
    // It survives a restart, and the removal of its mirror.
    node.crash().await;
    node.boot().await;
    node.api.remove("pods", "ns", "web-n1");
    node.seconds(10).await;
    assert_eq!(node.shows("web-n1"), "Running a:running+");
    assert_eq!(node.runtime.called("start"), ["start a#0"]);
    // Another image is another pod.
    std::fs::write(&file, text("x:22")).unwrap();
    node.seconds(40).await;
    assert_eq!(node.shows("web-n1"), "Running a:running+");
    assert_eq!(node.runtime.running().len(), 1);
    std::fs::remove_file(&file).unwrap();
    node.seconds(40).await;
    assert_eq!(node.shows("web-n1"), "gone");
    assert_eq!(node.runtime.sandbox_ids(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_look_at_everything_starts_nothing_twice() {
    let node = TestNode::start().await;
    node.create("p", r#""containers":[{"name":"a","image":"web","imagePullPolicy":"Always"}]"#).await;
    *node.runtime.pull_takes.lock() = Duration::from_secs(30);
    node.runtime.end("c2", 1);
    for _ in 0..20 {
        node.seconds(1).await;
        node.runtime.miss();
    }
    node.seconds(30).await;
    assert_eq!(node.runtime.called("pull").len(), 2);
    assert_eq!(node.runtime.called("start"), ["start a#0", "start a#1"]);
    assert_eq!(node.shows("p"), "Running a:running*1+");
}

#[tokio::test(start_paused = true)]
async fn a_pod_keeps_its_resources_while_it_runs() {
    let node = TestNode::start().await;
    let asks = |cpu: &str| {
        format!(r#""containers":[{{"name":"a","image":"web","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]"#)
    };
    node.create("p", &asks("1")).await;
    let mut pod = node.pod("p").unwrap();
    pod.object_mut("metadata").set("generation", 2);
    let resources = rkube_machinery::json::parse(br#"{"requests":{"cpu":"2"}}"#).unwrap();
    pod.get_mut("spec").list_mut("containers")[0].set("resources", resources);
    node.api.put("pods", pod);
    node.settle().await;
    let status = node.status("p", "containerStatuses", 0);
    assert_eq!(status.get("allocatedResources").str("cpu"), "1");
    let first = node.status("p", "conditions", 0);
    assert_eq!((first.str("type"), first.str("reason")), ("PodResizePending", "Infeasible"));
    assert_eq!(node.events("p").last().unwrap(), "ResizeInfeasible");
    assert_eq!(node.shows("p"), "Running a:running+");
    assert_eq!(node.pod("p").unwrap().get("status").int("observedGeneration"), 2);
}

#[tokio::test(start_paused = true)]
async fn ephemeral_containers_run_once_beside_the_others() {
    let node = TestNode::start().await;
    node.runtime.behave("e", ends(Duration::from_secs(5), 1));
    node.create("p", ONE).await;
    let mut pod = node.pod("p").unwrap();
    let list = rkube_machinery::json::parse(
        br#"[{"name":"e","image":"x","targetContainerName":"a"},{"name":"f","image":"x","targetContainerName":"z"}]"#,
    );
    pod.get_mut("spec").set("ephemeralContainers", list.unwrap());
    node.api.put("pods", pod);
    node.settle().await;
    assert_eq!(node.shows("p"), "Running a:running+ e:running f:CreateContainerConfigError");
    node.seconds(30).await;
    assert_eq!(node.shows("p"), "Running a:running+ e:1 f:CreateContainerConfigError");
    assert_eq!(node.runtime.called("start"), ["start a#0", "start e#0"]);
    node.delete("p", 30).await;
    assert_eq!(node.shows("p"), "gone");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_says_something_else_of_itself_is_looked_at_anew() {
    let node = TestNode::start().await;
    let problem = Problem::new("CreateContainerConfigError", "no such path");
    *node.prepare.container_problem.lock() = Some(problem);
    node.create("p", ONE).await;
    assert_eq!(node.shows("p"), "Pending a:CreateContainerConfigError");
    *node.prepare.container_problem.lock() = None;
    let label = |value: &str| {
        let mut pod = node.pod("p").unwrap();
        pod.object_mut("metadata").object_mut("labels").set("color", value);
        node.api.put("pods", pod);
    };
    label("one");
    node.settle().await;
    assert_eq!(node.shows("p"), "Running a:running+", "nobody waits for the next try");
    label("two");
    node.settle().await;
    assert_eq!(*node.prepare.refreshed.lock(), ["one", "two"]);
    node.seconds(61).await;
    assert_eq!(node.prepare.refreshed.lock().len(), 3, "and from time to time");
}
