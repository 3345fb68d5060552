//! Tables of what is planned for Jobs and their pods.

use std::sync::Arc;
use std::time::Duration;

use rkube_operator::Item;
use serde_json::{Value, json};

use crate::jobs::backoff::Backoff;
use crate::jobs::plan::{self, Step};
use crate::jobs::track::{self, Acted};
use crate::jobs::view::Job;
use crate::pods::{OfJob, Phase, Pod};

const NOW: i64 = 1_000_000_000;

fn job(spec: Value, status: Value) -> Job {
    let json = json!({ "metadata": {}, "spec": spec, "status": status }).to_string().into();
    Job::read(&Item { namespace: "n".into(), name: "j".into(), uid: "u".into(), revision: 1, json }).unwrap()
}

/// Pods as `a` (active), `s` (succeeded), `f` (failed), `t` (terminating), with an index; tracked unless there is a `-`.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |(place, word): (usize, &str)| {
        let of = OfJob { index: word[1..].trim_end_matches('-').parse().ok(), finished: 900, ..OfJob::default() };
        Arc::new(Pod {
            uid: format!("{word}{place}").into(),
            name: word.into(),
            phase: match &word[..1] {
                "s" => Phase::Succeeded,
                "f" => Phase::Failed,
                _ => Phase::Running,
            },
            deleted: word.starts_with('t').then_some(950),
            tracked: !word.ends_with('-'),
            job: Some(Box::new(of)),
            ..Pod::default()
        })
    };
    text.split_whitespace().enumerate().map(pod).collect()
}

/// What is done: `+2` for pods that are made, with their indexes, `-a1` for those that are deleted, `wait`.
fn told(step: Step) -> String {
    match step {
        Step::Nothing => String::new(),
        Step::Wait(delay) => format!("wait {}", delay.as_secs()),
        Step::Delete(pods) => pods.iter().map(|pod| format!("-{}", pod.name)).collect::<Vec<_>>().join(" "),
        Step::Create(new) if new.iter().all(|pod| pod.index.is_none()) => format!("+{}", new.len()),
        Step::Create(new) => {
            let indexes: Vec<String> = new.iter().filter_map(|pod| pod.index).map(|index| index.to_string()).collect();
            format!("+[{}]", indexes.join(" "))
        }
    }
}

/// A pod that was named among the failed while it was terminating, and then ended well.
#[test]
fn a_pod_counts_once() {
    let status = json!({ "succeeded": 3, "uncountedTerminatedPods": { "failed": ["s0"] } });
    let job = job(json!({ "completions": 4, "parallelism": 1 }), status);
    let pods = pods("s");
    let look = plan::look(&job, &pods, Backoff::default(), NOW);
    assert_eq!(look.succeeded, 3);
    assert_eq!(told(plan::step(&job, &pods, &look, NOW)), "+1");
}

#[test]
fn pods_are_made_and_deleted_until_there_are_enough() {
    let indexed = |completions: i64, parallelism: i64| json!({ "completions": completions, "parallelism": parallelism, "completionMode": "Indexed" });
    let failing = json!({ "completions": 3, "parallelism": 3, "podReplacementPolicy": "Failed" });
    let mut per_index = indexed(4, 4);
    per_index["backoffLimitPerIndex"] = 2.into();
    let table = [
        (json!({}), json!({}), "", "+1"),
        (json!({ "parallelism": 3 }), json!({}), "a", "+2"),
        (json!({ "parallelism": 3 }), json!({}), "a a s", ""),
        (json!({ "completions": 5, "parallelism": 3 }), json!({ "succeeded": 3 }), "a", "+1"),
        (json!({ "completions": 5, "parallelism": 1 }), json!({}), "a a", "-a"),
        (json!({ "completions": 2000, "parallelism": 1500 }), json!({}), "", "+500"),
        (json!({ "suspend": true }), json!({}), "a", "-a"),
        (json!({ "suspend": true }), json!({}), "", ""),
        (indexed(5, 3), json!({ "completedIndexes": "0,2" }), "a1", "+[3 4]"),
        (indexed(5, 3), json!({ "completedIndexes": "0" }), "s1 a2 a2", "-a2"),
        (indexed(2, 2), json!({}), "a0 a1 a7 ax", "-a7 -ax"),
        (failing.clone(), json!({}), "t a", "+1"),
        (
            json!({ "completions": 3, "parallelism": 3 }),
            json!({ "uncountedTerminatedPods": { "failed": ["t0"] } }),
            { "t a" },
            "+2",
        ),
        (per_index, json!({ "completedIndexes": "0" }), "a1 f2", "+[2 3]"),
    ];
    for (spec, status, there, expected) in table {
        let (job, pods) = (job(spec, status), pods(there));
        let look = plan::look(&job, &pods, Backoff::default(), NOW);
        let step = plan::step(&job, &pods, &look, NOW);
        assert_eq!(told(step), expected, "{there} {:?}", job.status);
    }
}

#[test]
fn a_failure_is_followed_by_a_pause() {
    let job = job(json!({}), json!({}));
    let look = plan::look(&job, &pods("f"), Backoff::default(), 905_000_000);
    assert_eq!(told(plan::step(&job, &pods("f"), &look, 905_000_000)), "wait 5");
    assert_eq!(told(plan::step(&job, &pods("f"), &look, 910_000_000)), "+1");
}

#[test]
fn a_job_ends_by_its_limits() {
    let reason = |spec: Value, status: Value, there: &str| {
        let look = plan::look(&job(spec, status), &pods(there), Backoff::default(), NOW);
        look.finish.map(|finish| format!("{} {}", finish.kind, finish.reason)).unwrap_or_default()
    };
    let late = json!({ "startTime": "1970-01-01T00:15:00Z" });
    let failed = json!({ "conditions": [{ "type": "FailureTarget", "status": "True", "reason": "R" }] });
    let indexed = json!({
        "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0, "maxFailedIndexes": 1,
    });
    let table = [
        (json!({ "backoffLimit": 1 }), json!({}), "f", ""),
        (json!({ "backoffLimit": 1 }), json!({}), "f f", "FailureTarget BackoffLimitExceeded"),
        (json!({ "backoffLimit": 1 }), json!({ "failed": 2 }), "", "FailureTarget BackoffLimitExceeded"),
        (json!({ "activeDeadlineSeconds": 100 }), late.clone(), "a", "FailureTarget DeadlineExceeded"),
        (json!({ "activeDeadlineSeconds": 101 }), late.clone(), "a", ""),
        (json!({ "activeDeadlineSeconds": 1, "suspend": true }), late, "", ""),
        (json!({}), failed, "", "Failed R"),
        (indexed.clone(), json!({}), "f0 a1 a2", ""),
        (indexed.clone(), json!({}), "f0 f1 a2", "FailureTarget MaxFailedIndexesExceeded"),
        (indexed, json!({ "completedIndexes": "1,2" }), "f0", "FailureTarget FailedIndexes"),
    ];
    for (spec, status, there, expected) in table {
        assert_eq!(reason(spec.clone(), status, there), expected, "{spec} {there}");
    }
    let soon = job(json!({ "activeDeadlineSeconds": 60 }), json!({}));
    let look = plan::look(&soon, &[], Backoff::default(), NOW);
    assert_eq!(look.deadline_in, Some(Duration::from_secs(60)));
}

/// Every pod is named in the status before its finalizer goes, and is a number afterwards.
#[test]
fn pods_are_counted_once() {
    let job = job(json!({ "completions": 9, "parallelism": 9 }), json!({ "succeeded": 1 }));
    let pods = pods("a s f s-");
    let look = plan::look(&job, &pods, Backoff::default(), NOW);
    let (status, _) = track::running(&job, &look, Acted::default());
    let tracking = track::track(&job, &look, &pods, None, status, false, 1000);
    let names: Vec<&str> = tracking.untrack.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["s", "f"]);
    let mut status = tracking.status;
    let uncounted = status.uncounted_terminated_pods.clone().unwrap();
    assert_eq!((uncounted.succeeded.as_slice(), uncounted.failed.as_slice()), (&["s1".into()][..], &["f2".into()][..]));
    assert_eq!((tracking.flush, status.succeeded, status.failed), (true, 1, 0));
    assert!(!track::count(&mut status, &tracking.tracked), "they have their finalizers");
    assert!(track::count(&mut status, &["a0".into()].into()));
    assert_eq!((status.succeeded, status.failed), (2, 1));
}

#[test]
fn no_more_pods_are_named_than_fit() {
    let job = job(json!({ "completions": 2000, "parallelism": 2000 }), json!({}));
    let many: Vec<Arc<Pod>> = pods(&"s ".repeat(1200));
    let look = plan::look(&job, &many, Backoff::default(), NOW);
    let (status, _) = track::running(&job, &look, Acted::default());
    let end = plan::condition("SuccessCriteriaMet", "True", "r", "m", 1000);
    let tracking = track::track(&job, &look, &many, Some(end), status, false, 1000);
    assert_eq!(tracking.untrack.len(), 500);
    assert!(tracking.end.is_none(), "the others come first");
}
