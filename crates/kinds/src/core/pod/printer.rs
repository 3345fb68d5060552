//! What `kubectl get pods` shows.

use rkube_machinery::{Value, time};

use super::super::pod_spec::checks::{Seen, is_sidecar};
use crate::kind::{Column, RowCondition};

const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";

pub(super) const COLUMNS: &[Column] = &[
    Column {
        format: "name",
        ..column("Name", "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta name", 0, |pod, _| {
            text(pod.get("metadata").str("name"))
        })
    },
    column("Ready", "The aggregate readiness state of this pod for accepting traffic.", 0, ready),
    column("Status", "The aggregate status of the containers in this pod.", 0, |pod, _| {
        Value::from(summary(pod).reason)
    }),
    column(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        0,
        restarts,
    ),
    column("Age", "doc:io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta creationTimestamp", 0, |pod, now| {
        Value::from(since(pod.get("metadata").get("creationTimestamp"), now))
    }),
    column("IP", "doc:io.k8s.api.core.v1.PodStatus podIP", 1, |pod, _| text(pod_ip(pod))),
    column("Node", "doc:io.k8s.api.core.v1.PodSpec nodeName", 1, |pod, _| text(pod.get("spec").str("nodeName"))),
    column("Nominated Node", "doc:io.k8s.api.core.v1.PodStatus nominatedNodeName", 1, |pod, _| {
        text(pod.get("status").str("nominatedNodeName"))
    }),
    column("Readiness Gates", "doc:io.k8s.api.core.v1.PodSpec readinessGates", 1, readiness_gates),
];

/// Pods that have come to their end are marked.
pub(super) fn completed(pod: &Value) -> Option<RowCondition> {
    match pod.get("status").str("phase") {
        "Succeeded" => Some(RowCondition { reason: "Succeeded", message: "The pod has completed successfully." }),
        "Failed" => Some(RowCondition { reason: "Failed", message: "The pod failed." }),
        _ => None,
    }
}

const fn column(
    name: &'static str,
    description: &'static str,
    priority: i64,
    cell: fn(&Value, i64) -> Value,
) -> Column {
    Column { name, kind: "string", format: "", description, priority, cell }
}

fn text(text: &str) -> Value {
    Value::from(if text.is_empty() { NONE } else { text })
}

/// How long ago a moment was.
fn since(moment: &Value, now: i64) -> String {
    match time::parse(moment.as_str()) {
        Ok((seconds, _)) => time::human_duration(now - seconds),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// The pod's first address; empty where it has none.
pub(super) fn pod_ip(pod: &Value) -> &str {
    pod.get("status").list("podIPs").first().map_or("", |entry| entry.str("ip"))
}

fn ready(pod: &Value, _now: i64) -> Value {
    let spec = pod.get("spec");
    let sidecars = spec.list("initContainers").iter().filter(|one| is_sidecar(one)).count();
    let total = spec.list("containers").len() + sidecars;
    format!("{}/{total}", summary(pod).ready).into()
}

fn restarts(pod: &Value, now: i64) -> Value {
    let summary = summary(pod);
    match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, time::human_duration(now - last)).into()
        }
        _ => summary.restarts.to_string().into(),
    }
}

fn readiness_gates(pod: &Value, _now: i64) -> Value {
    let gates = pod.get("spec").list("readinessGates");
    if gates.is_empty() {
        return Value::from(NONE);
    }
    // Of each type the first condition counts.
    let mut seen = Seen::new();
    let conditions = pod.get("status").list("conditions").iter();
    let first = conditions.filter(|one| seen.add(one.str("type")));
    let holding = Seen::of(first.filter(|one| one.str("status") == "True").map(|one| one.str("type")));
    let met = gates.iter().filter(|gate| holding.has(gate.str("conditionType"))).count();
    format!("{met}/{}", gates.len()).into()
}

/// What the containers of a pod come to.
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    /// In seconds since 1970.
    last_restart: Option<i64>,
}

impl Summary {
    fn count_restarts(&mut self, container_status: &Value) {
        self.restarts += container_status.int("restartCount");
        let ended = container_status.get("lastState").get("terminated").str("finishedAt");
        if let Ok((seconds, _)) = time::parse(ended)
            && self.last_restart.is_none_or(|last| last < seconds)
        {
            self.last_restart = Some(seconds);
        }
    }
}

fn summary(pod: &Value) -> Summary {
    let (metadata, status) = (pod.get("metadata"), pod.get("status"));
    let conditions = status.list("conditions");
    let mut reason = status.str("reason");
    if reason.is_empty() {
        reason = status.str("phase");
    }
    let gated = |one: &Value| one.str("type") == "PodScheduled" && one.str("reason") == "SchedulingGated";
    if conditions.iter().any(gated) {
        reason = "SchedulingGated";
    }
    let mut summary = Summary { reason: reason.to_owned(), ready: 0, restarts: 0, last_restart: None };
    let (initializing, sidecars) = look_at_init_containers(pod, &mut summary);
    let initialized = conditions.iter().find(|one| one.str("type") == "Initialized");
    if !initializing || initialized.is_some_and(|one| one.str("status") == "True") {
        summary.restarts = sidecars.restarts;
        summary.last_restart = sidecars.last_restart;
        look_at_containers(status, &mut summary);
    }
    if metadata.has("deletionTimestamp") {
        if status.str("reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(status.str("phase"), "Failed" | "Succeeded") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

/// Whether the pod still gets ready to start, and the restarts of the containers that run on beside the others.
fn look_at_init_containers(pod: &Value, summary: &mut Summary) -> (bool, Summary) {
    let specs = pod.get("spec").list("initContainers");
    let mut sidecars = Summary { reason: String::new(), ready: 0, restarts: 0, last_restart: None };
    for (index, container) in pod.get("status").list("initContainerStatuses").iter().enumerate() {
        let sidecar = specs.iter().rfind(|one| one.str("name") == container.str("name")).is_some_and(is_sidecar);
        summary.count_restarts(container);
        if sidecar {
            sidecars.count_restarts(container);
        }
        let (ended, waiting) = (container.get("state").get("terminated"), container.get("state").get("waiting"));
        if !ended.is_null() && ended.int("exitCode") == 0 {
            continue;
        }
        if sidecar && container.bool("started") {
            summary.ready += usize::from(container.bool("ready"));
            continue;
        }
        summary.reason = if !ended.is_null() {
            format!("Init:{}", why_ended(ended))
        } else if !matches!(waiting.str("reason"), "" | "PodInitializing") {
            format!("Init:{}", waiting.str("reason"))
        } else {
            format!("Init:{index}/{}", specs.len())
        };
        return (true, sidecars);
    }
    (false, sidecars)
}

fn look_at_containers(status: &Value, summary: &mut Summary) {
    let (mut running, mut failure) = (false, String::new());
    for container in status.list("containerStatuses").iter().rev() {
        summary.count_restarts(container);
        let state = container.get("state");
        let ended = state.get("terminated");
        if !state.get("waiting").str("reason").is_empty() {
            summary.reason = state.get("waiting").str("reason").to_owned();
        } else if !ended.is_null() {
            summary.reason = why_ended(ended);
            if ended.int("exitCode") != 0 {
                failure.clone_from(&summary.reason);
            }
        } else if container.bool("ready") && state.has("running") {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason != "Completed" {
        return;
    }
    let conditions = status.list("conditions");
    let ready = conditions.iter().any(|one| one.str("type") == "Ready" && one.str("status") == "True");
    if running && ready {
        summary.reason = "Running".to_owned();
    } else if !failure.is_empty() {
        summary.reason = failure;
    } else if running {
        summary.reason = "NotReady".to_owned();
    }
}

fn why_ended(ended: &Value) -> String {
    match (ended.str("reason"), ended.int("signal")) {
        ("", 0) => format!("ExitCode:{}", ended.int("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rkube_machinery::json;

    use super::*;

    fn cells(pod: &str) -> Vec<String> {
        let pod = json::parse(pod.as_bytes()).unwrap();
        COLUMNS.iter().map(|column| (column.cell)(&pod, 1_000_000).as_str().to_owned()).collect()
    }

    #[test]
    fn rows_read_as_upstream_writes_them() {
        let table = [
            (
                r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Pending"}}"#,
                ["a", "0/1", "Pending", "0", "<unknown>"],
            ),
            (
                r#"{"metadata":{"name":"a","creationTimestamp":"1970-01-12T13:45:40Z"},
                    "spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running","containerStatuses":[
                    {"name":"c","restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},
                     "lastState":{"terminated":{"finishedAt":"1970-01-12T13:41:40Z"}}}]}}"#,
                ["a", "0/1", "CrashLoopBackOff", "3 (5m ago)", "60s"],
            ),
            (
                r#"{"metadata":{"name":"a"},"spec":{"initContainers":[{"name":"i"},{"name":"j"}],
                    "containers":[{"name":"c"}]},"status":{"phase":"Pending","initContainerStatuses":[
                    {"name":"i","state":{"terminated":{"exitCode":0}}},{"name":"j","state":{"running":{}}}]}}"#,
                ["a", "0/1", "Init:1/2", "0", "<unknown>"],
            ),
            (
                r#"{"metadata":{"name":"a","deletionTimestamp":"x"},"spec":{"containers":[{"name":"c"}]},
                    "status":{"phase":"Running","containerStatuses":[{"name":"c","ready":true,
                    "state":{"running":{}}}]}}"#,
                ["a", "1/1", "Terminating", "0", "<unknown>"],
            ),
            (
                r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"},{"name":"d"}]},
                    "status":{"phase":"Running","containerStatuses":[
                    {"name":"c","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},
                    {"name":"d","ready":true,"state":{"running":{}}}]}}"#,
                ["a", "1/2", "NotReady", "0", "<unknown>"],
            ),
            (
                r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Failed",
                    "containerStatuses":[{"name":"c","state":{"terminated":{"exitCode":137,"signal":9}}}]}}"#,
                ["a", "0/1", "Signal:9", "0", "<unknown>"],
            ),
            (
                r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Pending",
                    "conditions":[{"type":"PodScheduled","reason":"SchedulingGated"}]}}"#,
                ["a", "0/1", "SchedulingGated", "0", "<unknown>"],
            ),
        ];
        for (pod, want) in table {
            assert_eq!(cells(pod)[..5], want, "{pod}");
        }
    }

    #[test]
    fn pods_at_their_end_are_marked() {
        let reason = |phase: &str| {
            let pod = rkube_machinery::object! { "status": rkube_machinery::object! { "phase": phase } };
            completed(&pod).map(|condition| condition.reason)
        };
        assert_eq!(reason("Running"), None);
        assert_eq!(reason("Succeeded"), Some("Succeeded"));
        assert_eq!(reason("Failed"), Some("Failed"));
    }

    #[test]
    fn wide_columns() {
        let pod = r#"{"metadata":{"name":"a"},"spec":{"nodeName":"n","readinessGates":[{"conditionType":"x"}]},
                      "status":{"podIPs":[{"ip":"1.2.3.4"}],"conditions":[{"type":"x","status":"True"}]}}"#;
        assert_eq!(cells(pod)[5..], ["1.2.3.4", "n", "<none>", "1/1"]);
    }
}
