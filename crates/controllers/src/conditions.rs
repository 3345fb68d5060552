//! The conditions in the status of workloads, as they are set upstream: in the order in which they last changed.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    /// Only Jobs have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<String>,
    /// Only Deployments have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.kind != kind);
}

/// Sets a condition, at the end. One that says the same already stays as and where it is; while the status is the same,
/// so is the time since when it is.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(current) = find(conditions, &condition.kind)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time.clone_from(&current.last_transition_time);
    }
    remove(conditions, &condition.kind);
    conditions.push(condition);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str, reason: &str, since: &str) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            last_transition_time: Some(since.to_owned()),
            ..Condition::default()
        }
    }

    #[test]
    fn conditions_that_change_go_to_the_end() {
        let mut all = vec![condition("A", "True", "r", "1"), condition("B", "True", "r", "1")];
        set(&mut all, condition("A", "True", "r", "2"));
        assert_eq!(all, [condition("A", "True", "r", "1"), condition("B", "True", "r", "1")], "nothing is new");
        set(&mut all, condition("A", "True", "s", "3"));
        assert_eq!(all, [condition("B", "True", "r", "1"), condition("A", "True", "s", "1")]);
        set(&mut all, condition("B", "False", "r", "4"));
        assert_eq!(all, [condition("A", "True", "s", "1"), condition("B", "False", "r", "4")]);
        remove(&mut all, "A");
        assert_eq!(all, [condition("B", "False", "r", "4")]);
    }
}
