//! The conditions that a node gives a pod, in upstream's order and words.

use rkube_machinery::{Value, object, time};

use super::spec::{Container, Role};
use super::state::{PodState, Record};
use super::{plan, resize};

/// Those that nodes own, in the order in which they are written.
const OWNED: [&str; 5] = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Beside them, of pods in which a container may have all of them begin anew.
const RESTARTING: &str = "AllContainersRestarting";

/// Of pods that want other resources than they have.
const RESIZE: &str = "PodResizePending";

/// What the conditions are made of.
pub struct Seen<'a> {
    pub pod: &'a Value,
    pub containers: &'a [Container<'a>],
    pub state: &'a PodState,
    pub phase: &'a str,
    pub now_seconds: i64,
}

struct Verdict {
    status: bool,
    reason: &'static str,
    message: String,
}

const YES: Verdict = Verdict { status: true, reason: "", message: String::new() };

fn no(reason: &'static str, message: String) -> Verdict {
    Verdict { status: false, reason, message }
}

pub fn is_owned(condition: &str) -> bool {
    OWNED.contains(&condition) || condition == RESTARTING || condition == RESIZE
}

/// All of them: those of others as they are, then the node's own.
pub fn conditions(seen: &Seen<'_>) -> Vec<Value> {
    let old = seen.pod.get("status").list("conditions");
    let mut all: Vec<Value> = old.iter().filter(|condition| !is_owned(condition.str("type"))).cloned().collect();
    let containers_ready = containers_ready(seen);
    let resize = seen
        .state
        .resize_refused
        .then(|| (RESIZE, Verdict { status: true, reason: resize::REASON, message: resize::MESSAGE.to_owned() }));
    let verdicts = [
        if seen.state.addresses.is_empty() || seen.state.without_sandbox { no("", String::new()) } else { YES },
        initialized(seen),
        ready(seen, &containers_ready, &all),
        containers_ready,
        YES,
    ];
    let generation = seen.pod.get("metadata").int("generation");
    let restarting = restarting(seen).map(|verdict| (RESTARTING, verdict));
    for (name, verdict) in resize.into_iter().chain(OWNED.into_iter().zip(verdicts)).chain(restarting) {
        let status = if verdict.status { "True" } else { "False" };
        let before = old.iter().find(|condition| condition.str("type") == name && condition.str("status") == status);
        let since = before.map(|condition| condition.str("lastTransitionTime")).filter(|since| !since.is_empty());
        let since = since.map_or_else(|| time::format_seconds(seen.now_seconds), str::to_owned);
        let mut condition = object! { "type": name };
        if generation != 0 && name != RESTARTING {
            condition.set("observedGeneration", generation);
        }
        condition.set("status", status);
        condition.set("lastTransitionTime", since);
        if !verdict.reason.is_empty() {
            condition.set("reason", verdict.reason);
        }
        if !verdict.message.is_empty() {
            condition.set("message", verdict.message);
        }
        all.push(condition);
    }
    all
}

fn restarting(seen: &Seen<'_>) -> Option<Verdict> {
    let mut rules = seen.containers.iter().flat_map(|container| container.value.list("restartPolicyRules"));
    rules.find(|rule| rule.str("action") == "RestartAllContainers")?;
    let begins_anew = seen.state.records.iter().any(Record::begins_anew);
    Some(match seen.phase {
        "Succeeded" => no("PodCompleted", String::new()),
        "Failed" => no("PodFailed", String::new()),
        _ if begins_anew => Verdict {
            status: true,
            reason: "RestartAllContainersStarted",
            message: "container exited with restart policy rule".to_owned(),
        },
        _ => no("", String::new()),
    })
}

fn containers_ready(seen: &Seen<'_>) -> Verdict {
    match seen.phase {
        "Succeeded" => return no("PodCompleted", String::new()),
        "Failed" => return no("PodFailed", String::new()),
        _ => {}
    }
    let counted = seen.containers.iter().filter(|container| matches!(container.role, Role::Sidecar | Role::Main));
    let unready = counted.filter(|container| !seen.state.record(container.name()).is_some_and(|record| record.ready));
    let names: Vec<&str> = unready.map(Container::name).collect();
    if names.is_empty() {
        return YES;
    }
    no("ContainersNotReady", format!("containers with unready status: [{}]", names.join(" ")))
}

fn ready(seen: &Seen<'_>, containers: &Verdict, conditions: &[Value]) -> Verdict {
    if !containers.status {
        return no(containers.reason, containers.message.clone());
    }
    let mut unready = Vec::new();
    for gate in seen.pod.get("spec").list("readinessGates") {
        let name = gate.str("conditionType");
        match conditions.iter().find(|condition| condition.str("type") == name) {
            None => unready.push(format!("corresponding condition of pod readiness gate \"{name}\" does not exist.")),
            Some(condition) if condition.str("status") != "True" => unready.push(format!(
                "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                condition.str("status")
            )),
            Some(_) => {}
        }
    }
    if unready.is_empty() { YES } else { no("ReadinessGatesNotReady", unready.join(", ")) }
}

fn initialized(seen: &Seen<'_>) -> Verdict {
    if seen.phase == "Succeeded" {
        return Verdict { reason: "PodCompleted", ..YES };
    }
    if plan::has_initialized(seen.containers, seen.state) {
        return YES;
    }
    let init = seen.containers.iter().filter(|container| matches!(container.role, Role::Init | Role::Sidecar));
    let incomplete = init.filter(|container| {
        let record = seen.state.record(container.name());
        match container.role {
            Role::Sidecar => !record.is_some_and(|record| record.started),
            _ => record.and_then(|record| record.exit()).is_none_or(|exit| exit.code != 0),
        }
    });
    let names: Vec<&str> = incomplete.map(Container::name).collect();
    if names.is_empty() {
        return YES;
    }
    no("ContainersNotInitialized", format!("containers with incomplete status: [{}]", names.join(" ")))
}
