//! Which taints and labels a node should have, and what is to be said of one that is silent: pure functions.

use serde::Deserialize;
use serde_json::{Value, json};

pub const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// A condition in a status means a taint.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// A label, and the older name under which it is repeated.
const LABELS: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// Of these a node's own word counts only while it speaks.
const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default, rename = "lastHeartbeatTime")]
    pub heartbeat: Option<String>,
}

/// What is known of a node's readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    True,
    False,
    Unknown,
}

impl Ready {
    pub fn read(status: &str) -> Ready {
        match status {
            "True" => Ready::True,
            "False" => Ready::False,
            _ => Ready::Unknown,
        }
    }

    /// The taint by which pods leave a node that is like this, and the one that it rules out.
    fn evicting(self) -> Option<(&'static str, &'static str)> {
        match self {
            Ready::True => None,
            Ready::False => Some((NOT_READY, UNREACHABLE)),
            Ready::Unknown => Some((UNREACHABLE, NOT_READY)),
        }
    }
}

/// What to do about the taints by which pods leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicting {
    Keep,
    /// Now: it has one that it should not have.
    Change,
    /// When its turn comes.
    Begin,
}

pub fn evicting(ready: Ready, taints: &[Value]) -> Evicting {
    let has = |key: &str| taints.iter().any(|taint| taint["effect"] == NO_EXECUTE && taint["key"] == key);
    match ready.evicting() {
        None if has(NOT_READY) || has(UNREACHABLE) => Evicting::Change,
        Some((_, other)) if has(other) => Evicting::Change,
        Some((own, _)) if !has(own) => Evicting::Begin,
        _ => Evicting::Keep,
    }
}

/// The taints with the one by which pods leave a node that is like this, and without the others of that sort; None if
/// they are so.
pub fn evicting_taints(ready: Ready, taints: &[Value], now: &str) -> Option<Vec<Value>> {
    if evicting(ready, taints) == Evicting::Keep {
        return None;
    }
    let own = ready.evicting().map(|(own, _)| own);
    let stays = |taint: &&Value| {
        let key = taint["key"].as_str();
        taint["effect"] != NO_EXECUTE || key == own || !matches!(key, Some(NOT_READY | UNREACHABLE))
    };
    let mut changed: Vec<Value> = taints.iter().filter(stays).cloned().collect();
    let is_own = |taint: &Value| taint["effect"] == NO_EXECUTE && taint["key"].as_str() == own;
    if let Some(own) = own.filter(|_| !changed.iter().any(is_own)) {
        changed.push(json!({"key": own, "effect": NO_EXECUTE, "timeAdded": now}));
    }
    Some(changed)
}

/// The taints that the node should have, if it has others. Those that nobody here answers for are left as they are.
pub fn taints(conditions: &[Condition], unschedulable: bool, current: &[Value], now: &str) -> Option<Vec<Value>> {
    let by_condition = conditions.iter().filter_map(|condition| {
        let found = TAINTS.iter().find(|(kind, status, _)| *kind == condition.kind && *status == condition.status);
        found.map(|(_, _, key)| *key)
    });
    let wanted: Vec<&str> = by_condition.chain(unschedulable.then_some(UNSCHEDULABLE)).collect();
    let is_ours = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        taint["effect"] == NO_SCHEDULE && (key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, ours)| *ours == key))
    };
    let has = |key: &str| current.iter().any(|taint| taint["effect"] == NO_SCHEDULE && taint["key"] == key);
    let stays = |taint: &&Value| !is_ours(taint) || wanted.iter().any(|key| taint["key"] == *key);
    let mut taints: Vec<Value> = current.iter().filter(stays).cloned().collect();
    let missing = wanted.iter().filter(|key| !has(key));
    taints.extend(missing.map(|key| json!({"key": key, "effect": NO_SCHEDULE, "timeAdded": now})));
    (taints != current).then_some(taints)
}

/// The labels that the node lacks, or has with another value than the one that they repeat.
pub fn labels<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Vec<(&'static str, &'a str)> {
    let repeated = LABELS.iter().filter_map(|(primary, secondary)| {
        let value = label(primary)?;
        (label(secondary) != Some(value)).then_some((*secondary, value))
    });
    repeated.collect()
}

/// What becomes of the conditions of a node that is silent: those that are not unknown yet, as a patch that merges by
/// type. None if all are.
pub fn unknown(conditions: &[Condition], created: &str, now: &str) -> Option<Vec<Value>> {
    let changed = OF_KUBELET.iter().filter_map(|kind| match conditions.iter().find(|one| one.kind == *kind) {
        None => Some(json!({
            "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": created, "lastTransitionTime": now,
        })),
        Some(condition) if condition.status != "Unknown" => Some(json!({
            "type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
        })),
        Some(_) => None,
    });
    let changed: Vec<Value> = changed.collect();
    (!changed.is_empty()).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn condition(kind: &str, status: &str) -> Condition {
        Condition { kind: kind.into(), status: status.into(), heartbeat: None }
    }

    fn taint(key: &str, effect: &str) -> Value {
        json!({"key": key, "effect": effect})
    }

    #[test]
    fn a_condition_has_its_taint_and_no_other_is_touched() {
        let not_ready = taint("node.kubernetes.io/not-ready", "NoSchedule");
        let evicting = taint("node.kubernetes.io/not-ready", "NoExecute");
        let theirs = taint("dedicated", "NoSchedule");
        let now_not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "timeAdded": NOW});
        let cordoned = json!({"key": UNSCHEDULABLE, "effect": "NoSchedule", "timeAdded": NOW});
        let unreachable = json!({"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule", "timeAdded": NOW});
        let ready = [condition("Ready", "True"), condition("MemoryPressure", "False")];
        type Case<'a> = (&'a [Condition], bool, Vec<Value>, Option<Vec<Value>>);
        let cases: [Case<'_>; 7] = [
            (&ready, false, vec![], None),
            (&ready, false, vec![not_ready.clone(), theirs.clone()], Some(vec![theirs.clone()])),
            (&ready, false, vec![evicting.clone()], None),
            (&[condition("Ready", "False")], false, vec![not_ready.clone()], None),
            (&[condition("Ready", "False")], false, vec![theirs.clone()], Some(vec![theirs.clone(), now_not_ready])),
            (&[condition("Ready", "Unknown")], false, vec![not_ready], Some(vec![unreachable])),
            (&ready, true, vec![theirs.clone()], Some(vec![theirs, cordoned])),
        ];
        for (conditions, unschedulable, current, wanted) in cases {
            assert_eq!(taints(conditions, unschedulable, &current, NOW), wanted, "{conditions:?} {current:?}");
        }
    }

    #[test]
    fn pods_leave_a_node_by_one_taint_at_a_time() {
        let not_ready = taint(NOT_READY, NO_EXECUTE);
        let unreachable = taint(UNREACHABLE, NO_EXECUTE);
        let others = [taint(NOT_READY, NO_SCHEDULE), taint("theirs", NO_EXECUTE)];
        let new = |key: &str| json!({"key": key, "effect": NO_EXECUTE, "timeAdded": NOW});
        let table = [
            (Ready::True, vec![], Evicting::Keep, vec![]),
            (Ready::True, vec![unreachable.clone()], Evicting::Change, vec![]),
            (Ready::False, vec![], Evicting::Begin, vec![new(NOT_READY)]),
            (Ready::False, vec![not_ready.clone()], Evicting::Keep, vec![not_ready.clone()]),
            (Ready::False, vec![unreachable.clone()], Evicting::Change, vec![new(NOT_READY)]),
            (Ready::Unknown, vec![not_ready.clone()], Evicting::Change, vec![new(UNREACHABLE)]),
            (Ready::Unknown, vec![not_ready, unreachable.clone()], Evicting::Change, vec![unreachable]),
        ];
        for (ready, current, expected, wanted) in table {
            let current = [&others[..], &current].concat();
            assert_eq!(evicting(ready, &current), expected, "{ready:?} {current:?}");
            let changed = evicting_taints(ready, &current, NOW);
            assert_eq!(changed.unwrap_or(current), [&others[..], &wanted].concat(), "{ready:?}");
        }
    }

    #[test]
    fn old_names_of_labels_repeat_the_new_ones() {
        let of = |pairs: &'static [(&str, &str)]| {
            labels(move |key| pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
        };
        assert_eq!(of(&[("kubernetes.io/os", "linux")]), [("beta.kubernetes.io/os", "linux")]);
        assert_eq!(of(&[("kubernetes.io/os", "linux"), ("beta.kubernetes.io/os", "linux")]), []);
        assert_eq!(of(&[("beta.kubernetes.io/arch", "arm")]), []);
    }

    #[test]
    fn a_silent_node_is_unknown_once() {
        let said = unknown(&[condition("Ready", "True"), condition("DiskPressure", "Unknown")], "c", NOW).unwrap();
        let reasons: Vec<_> = said.iter().map(|one| (one["type"].as_str(), one["reason"].as_str())).collect();
        let stopped = Some("NodeStatusUnknown");
        let never = Some("NodeStatusNeverUpdated");
        assert_eq!(reasons, [(Some("Ready"), stopped), (Some("MemoryPressure"), never), (Some("PIDPressure"), never)]);
        let all: Vec<_> = OF_KUBELET.iter().map(|kind| condition(kind, "Unknown")).collect();
        assert_eq!(unknown(&all, "c", NOW), None);
    }
}
