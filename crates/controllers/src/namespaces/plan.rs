//! What is said of a namespace that goes, as pure functions: the five conditions, in upstream's words.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NamespaceCondition, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How long objects with finalizers are supposed to take, in seconds.
pub const FINALIZERS_ESTIMATE: i64 = 15;

/// What a round of deleting has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What discovery failed with.
    pub discovery_errors: Vec<String>,
    /// What objects could not be deleted for.
    pub content_errors: Vec<String>,
    /// How many objects are left, by resource and group.
    pub remaining: BTreeMap<(String, String), usize>,
    /// How many objects wait for each finalizer.
    pub finalizers: BTreeMap<String, usize>,
    /// How many seconds the rest will take; 0 where nothing is known.
    pub estimate: i64,
    /// Pods are left, and everything else waits for them.
    pub only_pods: bool,
}

/// What is left of a resource after its objects were deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    Nothing,
    /// They go by themselves in so many seconds, at most.
    Leaving(i64),
    /// They should be gone, and nothing says why they are not.
    Unexpected,
}

/// `estimate`: how long they may take to end gracefully.
pub fn rest_of(count: usize, has_finalizers: bool, estimate: i64) -> Rest {
    match (count, estimate) {
        (0, _) => Rest::Nothing,
        (_, 1..) => Rest::Leaving(estimate),
        _ if has_finalizers => Rest::Leaving(FINALIZERS_ESTIMATE),
        _ => Rest::Unexpected,
    }
}

/// How many seconds pods may take to end, if their namespace was deleted so long ago.
pub fn estimate_for_pods(pods: &[Pod], deleted_seconds_ago: i64) -> i64 {
    let is_over = |pod: &&Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    };
    let running = pods.iter().filter(|pod| !is_over(pod));
    let grace = running.filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds);
    let estimate = grace.max().unwrap_or(0).max(0);
    if deleted_seconds_ago >= estimate { 0 } else { estimate }
}

struct Condition {
    type_: &'static str,
    /// When all is well.
    ok: (&'static str, &'static str),
}

const CONDITIONS: [Condition; 5] = [
    Condition {
        type_: "NamespaceDeletionDiscoveryFailure",
        ok: ("ResourcesDiscovered", "All resources successfully discovered"),
    },
    Condition {
        type_: "NamespaceDeletionGroupVersionParsingFailure",
        ok: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    },
    Condition {
        type_: "NamespaceDeletionContentFailure",
        ok: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    },
    Condition { type_: "NamespaceContentRemaining", ok: ("ContentRemoved", "All content successfully removed") },
    Condition {
        type_: "NamespaceFinalizersRemaining",
        ok: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    },
];

/// What is to be said where it is not well: reason and message.
fn failure(type_: &str, findings: &Findings) -> Option<(&'static str, String)> {
    match type_ {
        "NamespaceDeletionDiscoveryFailure" if !findings.discovery_errors.is_empty() => {
            Some(("DiscoveryFailed", findings.discovery_errors.join(", ")))
        }
        "NamespaceDeletionContentFailure" if !findings.content_errors.is_empty() => {
            let mut errors = findings.content_errors.clone();
            errors.sort_unstable();
            let count = errors.len();
            let message = format!("Failed to delete all resource types, {count} remaining: {}", errors.join(", "));
            Some(("ContentDeletionFailed", message))
        }
        // While pods are waited for nobody has looked at the rest.
        _ if findings.only_pods => None,
        "NamespaceContentRemaining" if !findings.remaining.is_empty() => {
            let remaining = findings.remaining.iter();
            let mut texts: Vec<String> = remaining
                .map(|((resource, group), count)| format!("{resource}.{group} has {count} resource instances"))
                .collect();
            texts.sort_unstable();
            Some(("SomeResourcesRemain", format!("Some resources are remaining: {}", texts.join(", "))))
        }
        "NamespaceFinalizersRemaining" if !findings.finalizers.is_empty() => {
            let finalizers = findings.finalizers.iter();
            let mut texts: Vec<String> =
                finalizers.map(|(name, count)| format!("{name} in {count} resource instances")).collect();
            texts.sort_unstable();
            let message = format!("Some content in the namespace has finalizers remaining: {}", texts.join(", "));
            Some(("SomeFinalizersRemain", message))
        }
        _ => None,
    }
}

/// Brings a namespace's conditions up to date; says whether one changed.
pub fn set_conditions(conditions: &mut Vec<NamespaceCondition>, findings: &Findings, now: &Time) -> bool {
    let mut has_changed = false;
    for Condition { type_, ok } in &CONDITIONS {
        let (status, reason, message) = match failure(type_, findings) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", ok.0, ok.1.to_owned()),
        };
        let wanted = NamespaceCondition {
            type_: (*type_).to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(now.clone()),
        };
        match conditions.iter_mut().find(|condition| condition.type_ == *type_) {
            None => conditions.push(wanted),
            Some(found) => {
                let is_same_status = found.status == wanted.status;
                if is_same_status && found.reason == wanted.reason && found.message == wanted.message {
                    continue;
                }
                let kept = found.last_transition_time.take().filter(|_| is_same_status);
                *found = NamespaceCondition { last_transition_time: kept.or(wanted.last_transition_time), ..wanted };
            }
        }
        has_changed = true;
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn texts(conditions: &[NamespaceCondition]) -> Vec<String> {
        let text = |condition: &NamespaceCondition| {
            let reason = condition.reason.clone().unwrap_or_default();
            format!(
                "{} {} {reason}: {}",
                condition.type_,
                condition.status,
                condition.message.clone().unwrap_or_default()
            )
        };
        conditions.iter().map(text).collect()
    }

    fn time(text: &str) -> Time {
        from_value(json!(text)).unwrap()
    }

    #[test]
    fn conditions_have_upstreams_words() {
        let mut conditions = Vec::new();
        let first = time("2026-01-01T00:00:00Z");
        assert!(set_conditions(&mut conditions, &Findings::default(), &first));
        let expected = [
            "NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining False ContentRemoved: All content successfully removed",
            "NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
        ];
        assert_eq!(texts(&conditions), expected);
        assert!(!set_conditions(&mut conditions, &Findings::default(), &time("2026-01-02T00:00:00Z")));

        let findings = Findings {
            content_errors: vec!["b".to_owned(), "a".to_owned()],
            remaining: BTreeMap::from([
                (("pods".to_owned(), String::new()), 2),
                (("things".to_owned(), "example.com".to_owned()), 1),
            ]),
            finalizers: BTreeMap::from([("example.com/hold".to_owned(), 3)]),
            ..Findings::default()
        };
        let second = time("2026-01-03T00:00:00Z");
        assert!(set_conditions(&mut conditions, &findings, &second));
        let expected = [
            "NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: a, b",
            "NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: pods. has 2 resource instances, things.example.com has 1 resource instances",
            "NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 3 resource instances",
        ];
        assert_eq!(texts(&conditions)[2..], expected);
        assert_eq!(conditions[1].last_transition_time, Some(first));
        assert_eq!(conditions[3].last_transition_time, Some(second.clone()));

        // Another message is no transition.
        let findings = Findings { finalizers: BTreeMap::from([("x/y".to_owned(), 1)]), ..Findings::default() };
        assert!(set_conditions(&mut conditions, &findings, &time("2026-01-04T00:00:00Z")));
        assert_eq!(conditions[4].last_transition_time, Some(second));
    }

    #[test]
    fn while_pods_are_left_the_others_are_not_counted() {
        let remaining = BTreeMap::from([(("pods".to_owned(), String::new()), 2)]);
        let findings = Findings { remaining, only_pods: true, ..Findings::default() };
        let mut conditions = Vec::new();
        set_conditions(&mut conditions, &findings, &time("2026-01-01T00:00:00Z"));
        assert!(conditions.iter().all(|condition| condition.status == "False"));
    }

    #[test]
    fn what_is_left_goes_by_itself_or_should_not_be() {
        let table = [
            (0, false, 30, Rest::Nothing),
            (2, false, 30, Rest::Leaving(30)),
            (2, true, 30, Rest::Leaving(30)),
            (2, true, 0, Rest::Leaving(15)),
            (2, false, 0, Rest::Unexpected),
        ];
        for (count, has_finalizers, estimate, expected) in table {
            assert_eq!(rest_of(count, has_finalizers, estimate), expected);
        }
    }

    #[test]
    fn pods_are_given_their_time() {
        let pod = |grace: i64, phase: &str| -> Pod {
            from_value(json!({
                "spec": { "containers": [], "terminationGracePeriodSeconds": grace }, "status": { "phase": phase },
            }))
            .unwrap()
        };
        let pods = [pod(30, "Running"), pod(5, "Pending"), pod(900, "Failed")];
        assert_eq!(estimate_for_pods(&pods, 0), 30);
        assert_eq!(estimate_for_pods(&pods, 29), 30);
        assert_eq!(estimate_for_pods(&pods, 30), 0);
        assert_eq!(estimate_for_pods(&[], 0), 0);
    }
}
