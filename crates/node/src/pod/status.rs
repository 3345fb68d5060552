//! A pod's status as a node writes it, and the patch that brings the API's there.

use std::net::IpAddr;

use rkube_machinery::{Map, Text, Value, object, time};

use super::conditions::{self, Seen};
use super::phase::phase;
use super::spec::{self, Container, Role};
use super::state::{Exit, PodState, Record, Run, User};
use crate::resources;

/// What nodes write of a status. All else is others'.
const FIELDS: [&str; 15] = [
    "observedGeneration",
    "phase",
    "conditions",
    "message",
    "reason",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "startTime",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "resources",
    "allocatedResources",
];

/// The status of a pod on a node with these addresses.
pub fn status(pod: &Value, containers: &[Container<'_>], state: &PodState, host: &[IpAddr], now_micros: i64) -> Value {
    let now_seconds = now_micros.div_euclid(1_000_000);
    let (old, spec) = (pod.get("status"), pod.get("spec"));
    let mut status = Value::object();
    status.set("observedGeneration", pod.get("metadata").int("generation"));
    let start = Some(old.str("startTime")).filter(|start| !start.is_empty());
    status.set("startTime", start.map_or_else(|| time::format_seconds(now_seconds), str::to_owned));
    if let Some(verdict) = state.verdict.as_ref().filter(|verdict| verdict.rejected) {
        status.set("phase", "Failed");
        status.set("reason", verdict.reason.clone());
        status.set("message", verdict.message.as_str());
        return status;
    }
    let (phase, reason, message) = outcome(pod, containers, state);
    status.set("phase", phase.as_str());
    set_text(&mut status, "reason", &reason);
    set_text(&mut status, "message", &message);
    let seen = Seen { pod, containers, state, phase: &phase, now_seconds };
    status.set("conditions", conditions::conditions(&seen));
    set_addresses(&mut status, ("hostIP", "hostIPs"), host);
    set_addresses(&mut status, ("podIP", "podIPs"), &state.addresses);
    let has_init = !spec.list("initContainers").is_empty();
    let of = |wanted: &[Role]| -> Vec<Value> {
        let chosen = containers.iter().filter(|container| wanted.contains(&container.role));
        chosen.map(|container| container_status(*container, state, has_init)).collect()
    };
    let mut main = of(&[Role::Main]);
    main.sort_by(|one, other| one.str("name").cmp(other.str("name")));
    let mut ephemeral = of(&[Role::Ephemeral]);
    ephemeral.sort_by(|one, other| one.str("name").cmp(other.str("name")));
    set_list(&mut status, "initContainerStatuses", of(&[Role::Init, Role::Sidecar]));
    set_list(&mut status, "containerStatuses", main);
    set_list(&mut status, "ephemeralContainerStatuses", ephemeral);
    set_amounts(&mut status, pod);
    status
}

/// Phase, reason and message. A pod that has ended stays so, and keeps what was said of it.
fn outcome(pod: &Value, containers: &[Container<'_>], state: &PodState) -> (String, Text, String) {
    let old = pod.get("status");
    let kept = || (old.str("phase").to_owned(), old.str("reason").into(), old.str("message").to_owned());
    if spec::is_terminal(old.str("phase")) {
        return kept();
    }
    let is_over = (spec::is_deleted(pod) || state.verdict.is_some()) && !state.runs_anything();
    let mut phase = phase(pod, containers, state, is_over);
    if let Some(verdict) = state.verdict.as_ref().filter(|_| is_over) {
        return ("Failed".to_owned(), verdict.reason.clone(), verdict.message.clone());
    }
    if is_over && !spec::is_terminal(phase) {
        phase = "Failed";
    }
    if spec::is_terminal(phase) && state.runs_anything() {
        // Not before all has stopped: what the pod holds is free then.
        phase = match old.str("phase") {
            "Running" => "Running",
            _ => "Pending",
        };
    }
    if phase == old.str("phase") { kept() } else { (phase.to_owned(), Text::default(), String::new()) }
}

fn set_text(status: &mut Value, field: &str, text: &str) {
    if !text.is_empty() {
        status.set(field, text);
    }
}

fn set_list(status: &mut Value, field: &str, list: Vec<Value>) {
    if !list.is_empty() {
        status.set(field, list);
    }
}

fn set_addresses(status: &mut Value, (first, all): (&str, &str), addresses: &[IpAddr]) {
    let Some(main) = addresses.first() else { return };
    status.set(first, main.to_string());
    let list: Vec<Value> = addresses.iter().map(|address| object! { "ip": address.to_string() }).collect();
    status.set(all, list);
}

/// What the pod has as a whole.
fn set_amounts(status: &mut Value, pod: &Value) {
    let (requests, limits) = (resources::of_pod(pod, "requests"), resources::of_pod(pod, "limits"));
    let mut all = Value::object();
    if !limits.is_empty() {
        all.set("limits", resources::to_value(&limits));
    }
    if !requests.is_empty() {
        status.set("allocatedResources", resources::to_value(&requests));
        all.set("requests", resources::to_value(&requests));
    }
    status.set("resources", all);
}

fn container_status(container: Container<'_>, state: &PodState, has_init: bool) -> Value {
    let nothing = Record::default();
    let record = state.record(container.name()).unwrap_or(&nothing);
    let was_started = !record.id.is_empty();
    let last = record.last.as_deref().map(terminated);
    let mut status = object! {
        "name": container.name(),
        "state": state_of(record, has_init),
        "lastState": last.unwrap_or_else(Value::object),
        "ready": record.ready,
        "restartCount": i64::from(record.restarts),
        "image": shown_image(container, record),
        "imageID": record.image_id.clone(),
    };
    if was_started {
        status.set("containerID", record.id.clone());
    }
    match container.role {
        Role::Ephemeral => status.set("ready", false),
        Role::Init => {
            status.set("started", record.started);
            status.set("ready", matches!(&record.run, Run::Exited(exit) if exit.code == 0));
        }
        Role::Sidecar | Role::Main => status.set("started", record.started),
    }
    if was_started {
        let given = container.value.get("resources");
        if given.has("requests") {
            status.set("allocatedResources", given.get("requests").clone());
        }
        let mut own = Value::object();
        for list in ["limits", "requests"] {
            if given.has(list) {
                own.set(list, given.get(list).clone());
            }
        }
        status.set("resources", own);
    }
    if let Some(user) = record.user.as_ref().filter(|_| was_started) {
        status.set("user", user_status(user));
    }
    set_list(&mut status, "volumeMounts", mounts_status(container, state.mounts_read_only_recursively));
    status
}

/// As the runtime calls it, once it was started.
fn shown_image<'a>(container: Container<'a>, record: &'a Record) -> &'a str {
    match (record.id.is_empty(), record.runtime_image.is_empty()) {
        (true, _) => container.image(),
        (false, true) => record.image.as_str(),
        (false, false) => record.runtime_image.as_str(),
    }
}

fn user_status(user: &User) -> Value {
    let groups: Vec<Value> = user.supplemental_groups.iter().map(|group| i64::from(*group).into()).collect();
    let mut linux = object! { "uid": i64::from(user.user), "gid": i64::from(user.group) };
    set_list(&mut linux, "supplementalGroups", groups);
    object! { "linux": linux }
}

fn mounts_status(container: Container<'_>, recursively: bool) -> Vec<Value> {
    container.value.list("volumeMounts").iter().map(|mount| mount_status(mount, recursively)).collect()
}

fn mount_status(mount: &Value, recursively: bool) -> Value {
    let mut status = object! { "name": mount.str("name"), "mountPath": mount.str("mountPath") };
    if mount.bool("readOnly") {
        status.set("readOnly", true);
        let is_wanted = matches!(mount.str("recursiveReadOnly"), "IfPossible" | "Enabled");
        status.set("recursiveReadOnly", if is_wanted && recursively { "Enabled" } else { "Disabled" });
    }
    status
}

fn state_of(record: &Record, has_init: bool) -> Value {
    let creating = || {
        let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
        object! { "waiting": object! { "reason": reason } }
    };
    match &record.run {
        Run::Creating => creating(),
        Run::Waiting(waiting) if waiting.reason.is_empty() => creating(),
        Run::Waiting(waiting) => {
            let mut why = object! { "reason": waiting.reason.clone() };
            if !waiting.message.is_empty() {
                why.set("message", waiting.message.as_str());
            }
            object! { "waiting": why }
        }
        Run::Running { since_micros } => object! { "running": object! { "startedAt": seconds(*since_micros) } },
        Run::Exited(exit) => terminated(exit),
    }
}

fn terminated(exit: &Exit) -> Value {
    let mut state = object! { "exitCode": exit.code, "reason": exit.reason.clone() };
    set_text(&mut state, "message", &exit.message);
    state.set("startedAt", seconds(exit.started_micros));
    state.set("finishedAt", seconds(exit.finished_micros));
    set_text(&mut state, "containerID", &exit.id);
    object! { "terminated": state }
}

/// Null for what never was.
fn seconds(micros: i64) -> Value {
    if micros == 0 { Value::Null } else { time::format_seconds(micros.div_euclid(1_000_000)).into() }
}

/// The strategic merge patch from the status that the API has to another; None where nothing differs.
pub fn patch(pod: &Value, new: &Value) -> Option<Value> {
    let old = pod.get("status");
    let mut changed = Value::object();
    for field in FIELDS {
        let (before, after) = (old.get(field), new.get(field));
        match field {
            _ if same(before, after) => {}
            "conditions" => patch_conditions(&mut changed, before.items(), after.items()),
            // Lists that are merged would else keep what is not true any more.
            "hostIPs" | "podIPs" if !before.is_empty() => {
                let all = std::iter::once(object! { "$patch": "replace" }).chain(after.items().iter().cloned());
                changed.set(field, all.collect::<Vec<_>>());
            }
            _ => changed.set(field, after.clone()),
        }
    }
    if changed.as_map().is_empty() {
        return None;
    }
    let metadata = object! { "uid": pod.get("metadata").str("uid") };
    Some(object! { "metadata": metadata, "status": changed })
}

/// Those that differ, and the order of all. Others may write theirs at the same time.
fn patch_conditions(changed: &mut Value, before: &[Value], after: &[Value]) {
    let find = |list: &[Value], name: &str| list.iter().position(|condition| condition.str("type") == name);
    let mut list: Vec<Value> = after
        .iter()
        .filter(|condition| {
            let known = find(before, condition.str("type"));
            known.is_none_or(|place| !same(&before[place], condition))
        })
        .cloned()
        .collect();
    for gone in before.iter().filter(|condition| find(after, condition.str("type")).is_none()) {
        if conditions::is_owned(gone.str("type")) {
            list.push(object! { "$patch": "delete", "type": gone.str("type") });
        }
    }
    if list.is_empty() {
        return;
    }
    for condition in &mut list {
        // What a condition of before said, and says no more.
        let known = find(before, condition.str("type")).filter(|_| !condition.has("$patch"));
        for field in known
            .map(|place| ["reason", "message"].map(|field| (field, before[place].has(field))))
            .into_iter()
            .flatten()
        {
            if field.1 && !condition.has(field.0) {
                condition.set(field.0, Value::Null);
            }
        }
    }
    let order = after.iter().map(|condition| object! { "type": condition.str("type") });
    changed.set("$setElementOrder/conditions", order.collect::<Vec<_>>());
    changed.set("conditions", list);
}

/// Whether two values say the same: what is empty may be missing.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => covers(one, other) && covers(other, one),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        _ => one == other || (is_nothing(one) && is_nothing(other)),
    }
}

fn covers(one: &Map, other: &Map) -> bool {
    one.iter().all(|(key, value)| same(value, other.get(key).unwrap_or(&Value::Null)))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.iter().all(|(_, value)| is_nothing(value)),
        _ => false,
    }
}
