//! Jobs: what their pods do, and what is to follow from it.

use serde_json::{Value, json};

use super::Workload;

/// What a pod ends with that policies know.
const KNOWN_CODE: u64 = 3;

impl Workload {
    /// One that ends by itself, whatever happens.
    pub(super) fn job(&self) -> Value {
        let code = match self.below(8) {
            0 => 1,
            1 => KNOWN_CODE,
            _ => 0,
        };
        let command = json!(["sh", "-c", format!("sleep {}; exit {code}", self.below(90))]);
        let requests = json!({ "cpu": "50m", "memory": "64Mi" });
        let container =
            json!({ "name": "main", "image": "busybox", "command": command, "resources": { "requests": requests } });
        let completions = self.below(6) + 1;
        let mut spec = json!({
            "completions": completions, "parallelism": self.below(3) + 1, "backoffLimit": self.below(3),
            "template": { "spec": { "restartPolicy": "Never", "containers": [container] } },
        });
        let is_indexed = self.below(2) == 0;
        if is_indexed {
            self.index(&mut spec, completions);
        }
        match self.below(6) {
            0 | 1 => spec["podFailurePolicy"] = self.failure_policy(spec["backoffLimitPerIndex"].is_number()),
            2 => spec["podReplacementPolicy"] = json!("Failed"),
            3 => spec["podReplacementPolicy"] = json!("TerminatingOrFailed"),
            _ => {}
        }
        if self.below(4) == 0 {
            spec["ttlSecondsAfterFinished"] = json!(self.below(600));
        }
        spec
    }

    fn index(&self, spec: &mut Value, completions: u64) {
        spec["completionMode"] = json!("Indexed");
        if self.below(3) == 0 {
            spec["backoffLimitPerIndex"] = json!(self.below(2));
            if self.below(2) == 0 {
                spec["maxFailedIndexes"] = json!(self.below(completions));
            }
        }
        let rule = match self.below(6) {
            0 => json!({ "succeededCount": self.below(completions) + 1 }),
            1 => json!({ "succeededIndexes": format!("0-{}", completions - 1), "succeededCount": 1 }),
            2 => json!({ "succeededIndexes": "0" }),
            _ => return,
        };
        spec["successPolicy"] = json!({ "rules": [rule] });
    }

    /// A disruption is no failure. What a program says itself is never overlooked: it would be run for ever.
    fn failure_policy(&self, by_index: bool) -> Value {
        let disruption =
            json!({ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] });
        let action = if by_index { self.pick(&["FailIndex", "FailJob"]) } else { self.pick(&["Count", "FailJob"]) };
        let codes = json!({ "action": action, "onExitCodes": { "operator": "In", "values": [KNOWN_CODE] } });
        json!({ "rules": [disruption, codes] })
    }
}
