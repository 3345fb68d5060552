//! The lives of pods, as a table: what the API is told and when, of pods whose containers do one thing or another.

use std::time::Duration;

use rkube_machinery::{Value, json, object};

use super::containers::{Place, advance};
use super::images::Images;
use crate::pod::spec;
use crate::pod::state::{PodState, Verdict};
use crate::pod::status::{patch, status};

const SECOND: i64 = 1_000_000;
/// Any time of this century.
const BEGIN: i64 = 1_800_000_000 * SECOND;

/// A pod on a node, and the API that knows of it.
struct Life {
    pod: Value,
    state: PodState,
    images: Images,
    now: i64,
    events: Vec<String>,
    wake: Option<i64>,
}

impl Life {
    fn begin(spec: &str, annotations: &str) -> Life {
        let text = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","uid":"u","generation":1,"annotations":{{{annotations}}}}},"spec":{spec},"status":{{"phase":"Pending"}}}}"#
        );
        let pod = json::parse(text.as_bytes()).unwrap();
        let state = PodState { addresses: vec!["10.0.0.1".parse().unwrap()], ..PodState::default() };
        Life { pod, state, images: Images::new(None), now: BEGIN, events: Vec::new(), wake: None }
    }

    /// Does what is to be done now, and writes it.
    fn sync(&mut self) -> &mut Life {
        let place = Place { node: "sim-0", images: &self.images, stop_delay: Duration::from_millis(500) };
        let told = advance(&self.pod, &mut self.state, place, self.now);
        self.events.extend(told.events.iter().map(|event| event.reason.clone()));
        self.wake = told.wake_micros;
        let containers = spec::containers(&self.pod);
        let new = status(&self.pod, &containers, &self.state, &["192.0.2.1".parse().unwrap()], self.now);
        if patch(&self.pod, &new).is_some() {
            self.pod.set("status", new);
        }
        let again = status(
            &self.pod,
            &spec::containers(&self.pod),
            &self.state,
            &["192.0.2.1".parse().unwrap()],
            self.now + 5 * SECOND,
        );
        assert_eq!(patch(&self.pod, &again), None, "nothing is written twice");
        self
    }

    /// Goes on until this time (seconds since the beginning).
    fn until(&mut self, seconds: i64) -> &mut Life {
        let end = BEGIN + seconds * SECOND;
        while let Some(wake) = self.wake.filter(|wake| *wake <= end) {
            assert!(wake >= self.now, "time does not go back");
            self.now = wake;
            self.sync();
        }
        self.now = end;
        self
    }

    fn delete(&mut self, grace_seconds: i64) -> &mut Life {
        let metadata = self.pod.get_mut("metadata");
        metadata.set("deletionTimestamp", "2027-01-15T08:00:00Z");
        metadata.set("deletionGracePeriodSeconds", grace_seconds);
        self.sync()
    }

    /// Phase, and what each container is: `name:state*restarts`, with `+` where it is ready.
    fn shows(&self) -> String {
        let status = self.pod.get("status");
        let mut text = status.str("phase").to_owned();
        if !status.str("reason").is_empty() {
            text = format!("{text}({})", status.str("reason"));
        }
        for list in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
            for container in status.list(list) {
                let state = container.get("state");
                let what = match (state.get("waiting"), state.get("terminated")) {
                    (Value::Null, Value::Null) => "running".to_owned(),
                    (Value::Null, exit) => format!("{}", exit.int("exitCode")),
                    (waiting, _) => waiting.str("reason").to_owned(),
                };
                let ready = if container.bool("ready") { "+" } else { "" };
                let restarts = match container.int("restartCount") {
                    0 => String::new(),
                    count => format!("*{count}"),
                };
                text.push_str(&format!(" {}:{what}{restarts}{ready}", container.str("name")));
            }
        }
        text
    }

    /// `True`, or the reason and message of the condition.
    fn condition(&self, name: &str) -> String {
        let list = self.pod.get("status").list("conditions");
        let condition = list.iter().find(|condition| condition.str("type") == name).unwrap();
        match condition.str("status") {
            "True" => "True".to_owned(),
            _ => format!("{} {}", condition.str("reason"), condition.str("message")),
        }
    }
}

fn container(name: &str, more: &str) -> String {
    format!(r#"{{"name":"{name}","image":"web"{more}}}"#)
}

#[test]
fn a_plain_pod_runs_at_once_and_until_it_is_deleted() {
    let mut life = Life::begin(&format!(r#"{{"containers":[{}]}}"#, container("a", "")), "");
    life.sync();
    assert_eq!(life.shows(), "Running a:running+");
    let order: Vec<_> =
        life.pod.get("status").list("conditions").iter().map(|one| one.str("type").to_owned()).collect();
    assert_eq!(order, ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]);
    assert_eq!(life.events, ["Pulling", "Pulled", "Created", "Started"]);
    assert_eq!(life.pod.get("status").str("podIP"), "10.0.0.1");
    assert_eq!(life.pod.get("status").int("observedGeneration"), 1);
    assert_eq!(life.until(3600).shows(), "Running a:running+");
    life.delete(30);
    assert_eq!(life.shows(), "Running a:running+", "it takes a moment");
    assert_eq!(life.until(3601).shows(), "Succeeded a:0");
    assert_eq!(life.events.last().unwrap(), "Killing");
}

#[test]
fn lives_of_pods() {
    let main = container("a", "");
    let with = |more: &str| container("a", more);
    let exit = |code: u8| format!(r#","command":["sh","-c","exit {code}"]"#);
    let init = |name: &str, code: u8| container(name, &exit(code));
    let sidecar = |more: &str| container("s", &format!(r#","restartPolicy":"Always"{more}"#));
    /// A name, a spec, annotations, and what is shown when.
    type Row = (&'static str, String, &'static str, &'static [(i64, &'static str)]);
    let table: &[Row] = &[
        (
            "once",
            format!(r#"{{"restartPolicy":"Never","containers":[{}]}}"#, with(&exit(0))),
            "",
            &[(0, "Succeeded a:0")],
        ),
        (
            "failure",
            format!(r#"{{"restartPolicy":"Never","containers":[{}]}}"#, with(&exit(3))),
            "",
            &[(0, "Failed a:3")],
        ),
        (
            "sleep",
            format!(r#"{{"restartPolicy":"OnFailure","containers":[{}]}}"#, with(r#","command":["sleep","5"]"#)),
            "",
            &[(0, "Running a:running+"), (4, "Running a:running+"), (5, "Succeeded a:0")],
        ),
        (
            "crash loop",
            format!(r#"{{"containers":[{}]}}"#, with(&exit(1))),
            "",
            &[
                (0, "Running a:CrashLoopBackOff*1"),
                (9, "Running a:CrashLoopBackOff*1"),
                (10, "Running a:CrashLoopBackOff*2"),
                (30, "Running a:CrashLoopBackOff*3"),
            ],
        ),
        (
            "out of memory",
            format!(r#"{{"restartPolicy":"Never","containers":[{main}]}}"#),
            r#""sim.rkube.io/fault":"oom""#,
            &[(0, "Running a:running+"), (1, "Failed a:137")],
        ),
        (
            "slow start",
            format!(r#"{{"containers":[{main}]}}"#),
            r#""sim.rkube.io/start-delay":"7s""#,
            &[(0, "Pending a:ContainerCreating"), (6, "Pending a:ContainerCreating"), (7, "Running a:running+")],
        ),
        (
            "no image",
            r#"{"containers":[{"name":"a","image":"webserver:404"}]}"#.to_owned(),
            "",
            &[
                (0, "Pending a:ErrImagePull"),
                (2, "Pending a:ImagePullBackOff"),
                (10, "Pending a:ErrImagePull"),
                (12, "Pending a:ImagePullBackOff"),
                (29, "Pending a:ImagePullBackOff"),
            ],
        ),
        (
            "probes",
            format!(
                r#"{{"containers":[{}]}}"#,
                with(r#","startupProbe":{"initialDelaySeconds":3},"readinessProbe":{"initialDelaySeconds":5}"#)
            ),
            "",
            &[(0, "Running a:running"), (4, "Running a:running"), (5, "Running a:running+")],
        ),
        (
            "init containers in order",
            format!(
                r#"{{"initContainers":[{},{}],"containers":[{main}]}}"#,
                container("i", r#","command":["sleep","2"]"#),
                container("j", r#","command":["sleep","3"]"#)
            ),
            "",
            &[
                (0, "Pending i:running j:PodInitializing a:PodInitializing"),
                (2, "Pending i:0+ j:running a:PodInitializing"),
                (5, "Running i:0+ j:0+ a:running+"),
            ],
        ),
        (
            "an init container that fails for good",
            format!(r#"{{"restartPolicy":"Never","initContainers":[{}],"containers":[{main}]}}"#, init("i", 4)),
            "",
            &[(0, "Failed i:4 a:PodInitializing")],
        ),
        (
            "an init container that is tried again",
            format!(r#"{{"initContainers":[{}],"containers":[{main}]}}"#, init("i", 4)),
            "",
            &[
                (0, "Pending i:CrashLoopBackOff*1 a:PodInitializing"),
                (10, "Pending i:CrashLoopBackOff*2 a:PodInitializing"),
            ],
        ),
        (
            "a sidecar starts before and ends after",
            format!(
                r#"{{"restartPolicy":"Never","initContainers":[{}],"containers":[{}]}}"#,
                sidecar(r#","startupProbe":{"initialDelaySeconds":2}"#),
                with(r#","command":["sleep","5"]"#)
            ),
            "",
            &[
                (0, "Pending s:running a:PodInitializing"),
                (2, "Running s:running+ a:running+"),
                (7, "Running s:running+ a:0"),
                (8, "Succeeded s:0 a:0"),
            ],
        ),
        (
            "one of two containers ends",
            format!(r#"{{"restartPolicy":"Never","containers":[{main},{}]}}"#, container("b", &exit(1))),
            "",
            &[(60, "Running a:running+ b:1")],
        ),
    ];
    for (name, spec, annotations, expected) in table {
        let mut life = Life::begin(spec, annotations);
        life.sync();
        for (seconds, shown) in *expected {
            assert_eq!(life.until(*seconds).shows(), *shown, "{name} after {seconds} s");
        }
    }
}

#[test]
fn conditions_say_what_is_missing() {
    let gates = r#""readinessGates":[{"conditionType":"example.com/x"}]"#;
    let mut life = Life::begin(&format!(r#"{{{gates},"containers":[{}]}}"#, container("a", "")), "");
    life.sync();
    assert_eq!(life.condition("ContainersReady"), "True");
    let missing =
        "ReadinessGatesNotReady corresponding condition of pod readiness gate \"example.com/x\" does not exist.";
    assert_eq!(life.condition("Ready"), missing);
    let own = object! { "type": "example.com/x", "status": "True" };
    life.pod.get_mut("status").array_mut("conditions").push(own);
    life.sync();
    assert_eq!(life.condition("Ready"), "True");
    assert_eq!(life.pod.get("status").list("conditions")[0].str("type"), "example.com/x", "others' come first");

    let mut slow =
        Life::begin(&format!(r#"{{"containers":[{}]}}"#, container("a", "")), r#""sim.rkube.io/ready":"false""#);
    slow.sync();
    assert_eq!(slow.condition("Ready"), "ContainersNotReady containers with unready status: [a]");
}

#[test]
fn another_image_replaces_the_container() {
    let mut life = Life::begin(&format!(r#"{{"containers":[{}]}}"#, container("a", "")), "");
    life.sync();
    let before = life.pod.get("status").list("containerStatuses")[0].str("containerID").to_owned();
    life.pod.get_mut("spec").list_mut("containers")[0].set("image", "web:2");
    life.pod.get_mut("metadata").set("generation", 2);
    life.until(10).sync();
    let after = &life.pod.get("status").list("containerStatuses")[0];
    assert_eq!((after.str("image"), after.int("restartCount")), ("web:2", 1));
    assert_ne!(after.str("containerID"), before);
    assert_eq!(after.get("lastState").get("terminated").str("containerID"), before);
    assert_eq!(life.pod.get("status").int("observedGeneration"), 2);
}

#[test]
fn another_image_is_not_waited_for() {
    let bad = r#"{"containers":[{"name":"a","image":"webserver:404"}]}"#;
    let crashing = format!(r#"{{"containers":[{}]}}"#, container("a", r#","command":["false"]"#));
    let table = [(bad, 4, "Pending a:ImagePullBackOff"), (&crashing, 40, "Running a:CrashLoopBackOff*3")];
    for (spec, seconds, waiting) in table {
        let mut life = Life::begin(spec, "");
        assert_eq!(life.sync().until(seconds).shows(), waiting);
        let container = &mut life.pod.get_mut("spec").list_mut("containers")[0];
        container.set("image", "web:2");
        container.remove("command");
        let shown = life.sync().shows();
        assert!(shown.starts_with("Running a:running") && shown.ends_with('+'), "{shown}");
    }
}

#[test]
fn a_verdict_ends_the_pod_when_all_has_stopped() {
    let mut life = Life::begin(&format!(r#"{{"containers":[{}]}}"#, container("a", "")), "");
    life.sync();
    let verdict = Verdict { reason: "DeadlineExceeded".into(), message: "too long".to_owned(), rejected: false };
    life.state.verdict = Some(verdict);
    life.sync();
    assert_eq!(life.shows(), "Running a:running+");
    assert_eq!(life.until(1).shows(), "Failed(DeadlineExceeded) a:0");
    life.sync();
    assert_eq!(life.shows(), "Failed(DeadlineExceeded) a:0", "it stays so");
}

#[test]
fn another_life_of_the_process_goes_on_with_what_ran() {
    let spec = format!(r#"{{"containers":[{}]}}"#, container("a", r#","command":["sleep","100"]"#));
    let mut life = Life::begin(&spec, "");
    life.sync();
    let before = json::to_string(&life.pod);
    life.state = PodState::recover(&life.pod);
    life.until(50).sync();
    assert_eq!(json::to_string(&life.pod), before, "nothing is written");
    assert_eq!(life.until(100).shows(), "Running a:running*1+");

    let mut crashing = Life::begin(&format!(r#"{{"containers":[{}]}}"#, container("a", r#","command":["false"]"#)), "");
    crashing.sync().until(31);
    assert_eq!(crashing.shows(), "Running a:CrashLoopBackOff*3");
    let before = json::to_string(&crashing.pod);
    crashing.state = PodState::recover(&crashing.pod);
    crashing.sync();
    assert_eq!(json::to_string(&crashing.pod), before, "it waits on");
    assert_eq!(crashing.until(71).shows(), "Running a:CrashLoopBackOff*4");
}

#[test]
fn a_pod_that_never_started_fails_with_its_deletion() {
    let mut life = Life::begin(r#"{"containers":[{"name":"a","image":"webserver:404"}]}"#, "");
    life.sync().delete(30);
    assert_eq!(life.shows(), "Failed a:ErrImagePull");
    assert!(!life.state.runs_anything());
}
