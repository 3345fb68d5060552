//! What the failure of a pod is worth, and when enough indexes have succeeded.

use crate::jobs::indexes::Indexes;
use crate::jobs::view::{ConditionPattern, ExitCodes, FailureRule, SuccessRule};
use crate::pods::Pod;

/// What a failed pod means for its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts as a failure.
    Counts,
    /// It is as if it never was.
    Ignored,
    /// Its index has failed for good.
    FailsIndex,
    /// The Job has failed, for this reason.
    FailsJob(String),
}

/// By the first rule that fits; without one a failure counts.
pub fn judge(rules: Option<&[FailureRule]>, pod: &Pod) -> Verdict {
    for (place, rule) in rules.unwrap_or_default().iter().enumerate() {
        let Some(what) = fits(rule, pod) else { continue };
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignored,
            "FailIndex" => return Verdict::FailsIndex,
            "Count" => return Verdict::Counts,
            "FailJob" => return Verdict::FailsJob(format!("{what} matching FailJob rule at index {place}")),
            _ => {}
        }
    }
    Verdict::Counts
}

/// What of a pod fits a rule, in upstream's words.
fn fits(rule: &FailureRule, pod: &Pod) -> Option<String> {
    let of = pod.job.as_deref()?;
    let at = format!("{}/{}", pod.namespace, pod.name);
    if let Some(wanted) = &rule.on_exit_codes {
        let (container, code) = of.exits.iter().find(|(container, code)| has_code(wanted, container, *code))?;
        return Some(format!("Container {container} for pod {at} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_deref()?;
    let is_wanted = |kind: &str, status: &str| {
        patterns.iter().any(|ConditionPattern { kind: a, status: b }| a == kind && b == status)
    };
    let (kind, _) = of.conditions.iter().find(|(kind, status)| is_wanted(kind, status))?;
    Some(format!("Pod {at} has condition {kind}"))
}

fn has_code(wanted: &ExitCodes, container: &str, code: i32) -> bool {
    let named = wanted.container_name.as_ref().is_none_or(|name| name == container);
    named
        && match wanted.operator.as_str() {
            "In" => wanted.values.contains(&code),
            "NotIn" => !wanted.values.contains(&code),
            _ => false,
        }
}

/// Which rule is met by these indexes, in upstream's words.
pub fn success(rules: &[SuccessRule], completions: i64, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let is_met = |rule: &SuccessRule| match (&rule.succeeded_indexes, rule.succeeded_count) {
        (Some(text), count) => {
            let required = Indexes::parse(text, completions);
            let shared = required.shared(succeeded);
            !required.is_empty() && (shared == required.total() || count.is_some_and(|count| shared >= count))
        }
        (None, Some(count)) => succeeded.total() >= count,
        (None, None) => false,
    };
    rules.iter().position(is_met).map(|place| format!("Matched rules at index {place}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pods::OfJob;

    #[test]
    fn failures_are_judged_by_the_first_rule_that_fits() {
        let rules: Vec<FailureRule> = serde_json::from_value(json!([
            { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
            { "action": "FailJob", "onExitCodes": { "containerName": "main", "operator": "In", "values": [42, 43] } },
            { "action": "FailIndex", "onExitCodes": { "operator": "In", "values": [7] } },
            { "action": "Count", "onExitCodes": { "operator": "NotIn", "values": [1, 2] } },
            { "action": "FailJob", "onPodConditions": [{ "type": "Bad", "status": "True" }] },
        ]))
        .unwrap();
        let pod = |exits: &[(&str, i32)], conditions: &[(&str, &str)]| Pod {
            namespace: "n".into(),
            name: "p".into(),
            job: Some(Box::new(OfJob {
                exits: exits.iter().map(|(name, code)| ((*name).into(), *code)).collect(),
                conditions: conditions.iter().map(|(kind, status)| ((*kind).into(), (*status).into())).collect(),
                ..OfJob::default()
            })),
            ..Pod::default()
        };
        let fails = |text: &str| Verdict::FailsJob(text.to_owned());
        let table = [
            (pod(&[("main", 42)], &[("DisruptionTarget", "True")]), Verdict::Ignored),
            (pod(&[("main", 42)], &[("DisruptionTarget", "False")]), {
                fails("Container main for pod n/p failed with exit code 42 matching FailJob rule at index 1")
            }),
            (pod(&[("side", 42)], &[]), Verdict::Counts),
            (pod(&[("main", 1), ("side", 7)], &[]), Verdict::FailsIndex),
            (pod(&[("main", 1)], &[("Bad", "True")]), {
                fails("Pod n/p has condition Bad matching FailJob rule at index 4")
            }),
            (pod(&[("main", 1)], &[]), Verdict::Counts),
        ];
        for (pod, expected) in table {
            assert_eq!(judge(Some(&rules), &pod), expected, "{:?}", pod.job);
            assert_eq!(judge(None, &pod), Verdict::Counts);
        }
    }

    #[test]
    fn success_needs_indexes_or_a_number_of_them() {
        let rules = |rules: serde_json::Value| serde_json::from_value::<Vec<SuccessRule>>(rules).unwrap();
        let some = rules(json!([{ "succeededIndexes": "0-2", "succeededCount": 2 }, { "succeededCount": 4 }]));
        let all = rules(json!([{ "succeededIndexes": "1,3" }]));
        // The rules, what has succeeded, and which is met.
        let table = [
            (&some, "", None),
            (&some, "0,3", None),
            (&some, "0,2", Some(0)),
            (&some, "2,5-7", Some(1)),
            (&all, "1", None),
            (&all, "0-5", Some(0)),
        ];
        for (rules, succeeded, expected) in table {
            let expected = expected.map(|place: usize| format!("Matched rules at index {place}"));
            assert_eq!(success(rules, 10, &Indexes::parse(succeeded, 10)), expected, "{succeeded}");
        }
    }
}
